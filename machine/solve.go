package machine

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
)

// Least squares with a penalty and a free intercept b minimises Σ|y − φ·w − b|² + λ|w|². With μ and ȳ the means and
// C = Σ(φ−μ)(φ−μ)ᵀ it is (C + λI) w = Σ(φ−μ)(y−ȳ), b = ȳ − μ·w (Hastie, Tibshirani & Friedman, The Elements of
// Statistical Learning, §3.4.1).

// solution is the least squares fit of one λ.
type solution struct {
	lambda float64
	u      dense.Matrix[float64] // UᵀU = C + λI
	w, b   dense.Matrix[float64] // F×K: weights and right-hand side
	mu     []float64             // mean features
	mean   []float64             // mean targets
	syy    []float64             // Σ(y−ȳ)²
}

// solve uses the memory of u if it is large enough.
func (r *Ridge) solve(lambda float64, u dense.Matrix[float64]) (*solution, error) {
	if !(lambda >= 0) || math.IsInf(lambda, 1) {
		return nil, fmt.Errorf("λ = %g, want a number that is not negative: %w", lambda, ErrSetup)
	}
	if r.n == 0 {
		return nil, fmt.Errorf("ridge of no rows: %w", ErrNoRows)
	}
	n, f, k := float64(r.n), r.features, r.setup.Outputs
	s := &solution{lambda: lambda, u: buf.Shaped(u, f, f), w: dense.New[float64](f, k), mu: make([]float64, f), mean: make([]float64, k), syy: make([]float64, k)}
	for j := range s.mean {
		s.mean[j] = r.ySum[j] / n
		s.syy[j] = max(0, r.yy[j]-float64(r.ySum[j]*s.mean[j]))
	}
	for i := range f {
		s.mu[i] = r.cross.At(i, k) / n
		for j := range k {
			s.w.Set(i, j, r.cross.At(i, j)-float64(r.cross.At(i, k)*s.mean[j]))
		}
	}
	par.For(f, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d, sum := s.u.Row(i), r.cross.At(i, k)
			copy(d[i:], r.gram.Row(i)[i:])
			if r.setup.Float32 {
				for j, v := range r.part.Row(i)[i:] {
					d[i+j] += float64(v)
				}
			}
			for j := i; j < f; j++ {
				d[j] -= float64(sum * s.mu[j])
			}
			d[i] = max(d[i], 0) + lambda
		}
	})
	s.b = s.w.Clone()
	err := linalg.Cholesky(s.u)
	if err == nil {
		err = errors.Join(linalg.SolveT(s.u, s.w), linalg.Solve(s.u, s.w))
	}
	if err == nil {
		err = s.w.CheckFinite()
	}
	if err != nil {
		return nil, fmt.Errorf("λ = %g: %w (%w): use a larger λ", lambda, ErrSingular, err)
	}
	return s, nil
}

// quadratic is Q = Σ(y−ȳ)² − b·w of output k: the squared residuals plus λ|w|².
func (s *solution) quadratic(k int) float64 {
	q := s.syy[k]
	for i := range s.w.Rows {
		q -= float64(s.w.At(i, k) * s.b.At(i, k))
	}
	return max(q, 0)
}

// rss is the sum of squared residuals of output k.
func (s *solution) rss(k int) float64 {
	norm := 0.0
	for i := range s.w.Rows {
		norm += float64(s.w.At(i, k) * s.w.At(i, k))
	}
	return max(s.quadratic(k)-s.lambda*norm, 0)
}

func (s *solution) intercept() []float64 {
	b := append([]float64(nil), s.mean...)
	for i, m := range s.mu {
		for k := range b {
			b[k] -= float64(m * s.w.At(i, k))
		}
	}
	return b
}

// logEvidence is the log marginal likelihood of output k with noise variance v; see LogEvidence.
func (s *solution) logEvidence(k int, n int64, v float64) float64 {
	f := float64(s.w.Rows)
	return -(float64(n-1)*math.Log(2*math.Pi*v) + math.Log(float64(n)) + linalg.LogDet(s.u) - f*math.Log(s.lambda) + s.quadratic(k)/v) / 2
}

// noise is the variance that maximises the evidence.
func (s *solution) noise(k int, n int64) float64 { return s.quadratic(k) / float64(n-1) }

// Solve is kernel ridge regression with penalty λ on the sum of squared errors; the intercept is free. Classes are
// regressions on 0 and 1.
func (r *Ridge) Solve(lambda float64) (*Model, error) {
	s, err := r.solve(lambda, dense.Matrix[float64]{})
	if err != nil {
		return nil, err
	}
	return r.model(KindRidge, s), nil
}

func (r *Ridge) model(k Kind, s *solution) *Model {
	return &Model{Kind: k, Task: r.setup.Task, Outputs: r.setup.Outputs, Spec: r.setup.Spec, Omega: r.setup.Omega, Rows: r.n, Lambda: s.lambda, Weights: s.w, Intercept: s.intercept()}
}

// Point is what is known of one λ without looking at the rows again. Sums are over outputs.
type Point struct {
	Lambda float64
	DF     float64 // trace of the smoother y → ŷ, intercept included
	RSS    float64
	// GCV is n·RSS/(n−DF)², the generalised cross-validation estimate of the mean squared error (Golub, Heath & Wahba
	// 1979). +Inf where the features are singular up to rounding or DF reaches n.
	GCV float64
	// LogEvidence is the largest LogEvidence over noise variances: −Inf where GCV is infinite.
	LogEvidence float64
}

// Path evaluates penalties λ > 0. Each takes one factorisation, 2F³/3 multiply-adds: below some fifty penalties that is
// faster than one tridiagonal form for all.
func (r *Ridge) Path(lambdas []float64) ([]Point, error) {
	if r.n < 2 {
		return nil, fmt.Errorf("%d rows, choosing λ needs at least 2: %w", r.n, ErrNoRows)
	}
	path := make([]Point, len(lambdas))
	var u dense.Matrix[float64]
	n := float64(r.n)
	for i, lambda := range lambdas {
		if !(lambda > 0) {
			return nil, fmt.Errorf("λ = %g, want a positive number: %w", lambda, ErrSetup)
		}
		path[i] = Point{Lambda: lambda, GCV: math.Inf(1), LogEvidence: math.Inf(-1), DF: math.NaN(), RSS: math.NaN()}
		p := &path[i]
		s, err := r.solve(lambda, u)
		if errors.Is(err, ErrSingular) {
			continue
		}
		if err != nil {
			return nil, err
		}
		u = s.u
		trace, err := linalg.TraceInverse(u)
		if err != nil {
			return nil, err
		}
		p.DF = 1 + float64(r.features) - lambda*trace
		p.RSS, p.LogEvidence = 0, 0
		for k := range r.setup.Outputs {
			p.RSS += s.rss(k)
			if v := s.noise(k, r.n); v > 0 {
				p.LogEvidence += s.logEvidence(k, r.n, v)
			}
		}
		if left := n - p.DF; left > 1e-9*n {
			p.GCV = n * p.RSS / (left * left)
		}
	}
	return path, nil
}

// GP is Gaussian-process regression with the prior of the features: f = φ·w + b, w ~ N(0, (v/λ) I), a flat prior on b,
// and noise of variance v. noise has one v per output; nil: those of largest evidence. Rasmussen & Williams, Gaussian
// Processes for Machine Learning, §2.1.2 and §2.7.
func (r *Ridge) GP(lambda float64, noise []float64) (*Model, error) {
	s, noise, err := r.bayes(lambda, noise)
	if err != nil {
		return nil, err
	}
	m := r.model(KindGP, s)
	m.Noise, m.Centre = noise, s.mu
	m.Factor = dense.New[float64](r.features, r.features)
	return m, linalg.Inverse(m.Factor, s.u)
}

// LogEvidence is the log marginal likelihood of the model of GP, summed over outputs: the density of all contrasts of y,
// which do not depend on b (Rasmussen & Williams, eq. 2.45).
func (r *Ridge) LogEvidence(lambda float64, noise []float64) (float64, error) {
	s, noise, err := r.bayes(lambda, noise)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for k, v := range noise {
		sum += s.logEvidence(k, r.n, v)
	}
	return sum, nil
}

func (r *Ridge) bayes(lambda float64, noise []float64) (*solution, []float64, error) {
	if r.setup.Task != Regression {
		return nil, nil, fmt.Errorf("gaussian process for %s, want %s: %w", r.setup.Task, Regression, ErrSetup)
	}
	if r.n < 2 {
		return nil, nil, fmt.Errorf("%d rows, a Gaussian process needs at least 2: %w", r.n, ErrNoRows)
	}
	if !(lambda > 0) {
		return nil, nil, fmt.Errorf("λ = %g, want a positive number: %w", lambda, ErrSetup)
	}
	s, err := r.solve(lambda, dense.Matrix[float64]{})
	if err != nil {
		return nil, nil, err
	}
	if noise == nil {
		for k := range r.setup.Outputs {
			noise = append(noise, s.noise(k, r.n))
		}
		return s, noise, nil
	}
	if len(noise) != r.setup.Outputs {
		return nil, nil, fmt.Errorf("%d noise variances for %d outputs: %w", len(noise), r.setup.Outputs, dense.ErrShape)
	}
	for _, v := range noise {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil, nil, fmt.Errorf("noise variance %g, want a positive number: %w", v, ErrSetup)
		}
	}
	return s, append([]float64(nil), noise...), nil
}
