package machine

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/linalg"
)

// solve factors the normal equations for λ. It reuses the memory of u if that is large enough.
func (r *Ridge) solve(lambda float64, u dense.Matrix[float64]) (*linalg.Solution, error) {
	if !(lambda >= 0) || math.IsInf(lambda, 1) {
		return nil, fmt.Errorf("λ = %g, want a number that is not negative: %w", lambda, ErrSetup)
	}
	if r.sums.N == 0 || !(r.sums.Weight > 0) {
		return nil, fmt.Errorf("ridge of no rows, or of none that has a weight: %w", ErrNoRows)
	}
	s, err := r.sums.Solve(lambda, u)
	if err != nil {
		return nil, fmt.Errorf("λ = %g: %w (%w): use a larger λ", lambda, ErrSingular, err)
	}
	return s, nil
}

// Model is kernel ridge regression with penalty λ on the sum of squared errors; the intercept is free. Classes are
// regressions on 0 and 1.
func (r *Ridge) Model(lambda float64) (*Model, error) {
	s, err := r.solve(lambda, dense.Matrix[float64]{})
	if err != nil {
		return nil, err
	}
	return r.model(KindRidge, s)
}

// model keeps the weights of the solution. For landmarks they become weights of kernel columns, R⁻¹w.
func (r *Ridge) model(k Kind, s *linalg.Solution) (*Model, error) {
	intercept := s.Intercept()
	if white := r.white(); white != nil {
		if err := white.weights(s.W); err != nil {
			return nil, err
		}
	}
	return &Model{Kind: k, Task: r.setup.Task, Outputs: r.setup.Outputs, Spec: r.setup.Spec, Omega: r.setup.Omega,
		Rows: s.N, Lambda: s.Lambda, Weights: s.W, Intercept: intercept}, nil
}

// ridgeModel is the model φ·w + intercept with the map of a setup.
func ridgeModel(s Setup, rows int64, lambda float64, w dense.Matrix[float64], intercept []float64) *Model {
	return &Model{Kind: KindRidge, Task: s.Task, Outputs: s.Outputs, Spec: s.Spec, Omega: s.Omega, Rows: rows,
		Lambda: lambda, Weights: w, Intercept: intercept}
}

// landmarkModel is the model Σ_j α_j κ(x, z_j) + b with landmarks z. Landmarks are stored embedded, as projections.
func landmarkModel(s Setup, z, alpha dense.Matrix[float64], intercept []float64, lambda float64, rows int64) *Model {
	spec := s.Spec
	spec.Family, spec.Coupling, spec.M = family.Landmarks{}, nil, z.Rows
	omega := dense.New[float64](z.Rows, spec.Kernel.Dim(spec.Dim))
	for i := range z.Rows {
		spec.Kernel.Embed(omega.Row(i), z.Row(i))
	}
	return &Model{Kind: KindRidge, Task: s.Task, Outputs: s.Outputs, Spec: spec, Omega: []coupling.Omega{{Rows: omega}},
		Rows: rows, Lambda: lambda, Weights: alpha, Intercept: intercept}
}

// Point describes one penalty λ, computed from the sums alone. RSS, GCV and LogEvidence are sums over outputs.
type Point struct {
	Lambda float64
	DF     float64 // trace of the smoother y → ŷ, intercept included
	RSS    float64 // residual sum of squares on the rows of the fit
	// GCV is n·RSS/(n−DF)², the generalised cross-validation estimate of the mean squared error (Golub, Heath & Wahba
	// 1979). It is +Inf if the features are singular up to rounding or DF reaches n.
	GCV float64
	// LogEvidence is the maximum of LogEvidence over noise variances; −Inf if the features are singular up to rounding.
	LogEvidence float64
	// Saturation is DF over the number of features. A process with as many degrees of freedom as features has used them
	// up: between the rows it cannot represent what the kernel allows, and its variance is too small. Random features
	// need several times the degrees of freedom of the kernel (Avron et al. 2017, arXiv:1804.09893, Theorem 7).
	// Measured against exact processes, variances of new observations are at least 0.7 of the true ones below
	// [Saturated]/2, and fall to half and less above [Saturated].
	Saturation float64
}

// Saturated is the Point.Saturation from which the variances of a Gaussian process are unreliable.
const Saturated = 0.25

// Path evaluates penalties λ > 0. Each takes one factorisation, 2F³/3 multiply-adds. Up to about fifty penalties this
// is faster than one tridiagonal form for all.
func (r *Ridge) Path(lambdas []float64) ([]Point, error) {
	if r.sums.N < 2 {
		return nil, fmt.Errorf("%d rows, choosing λ needs at least 2: %w", r.sums.N, ErrNoRows)
	}
	path := make([]Point, len(lambdas))
	var u dense.Matrix[float64]
	n := r.sums.Weight
	for i, lambda := range lambdas {
		if !(lambda > 0) {
			return nil, fmt.Errorf("λ = %g, want a positive number: %w", lambda, ErrSetup)
		}
		path[i] = Point{Lambda: lambda, GCV: math.Inf(1), LogEvidence: math.Inf(-1), DF: math.NaN(), RSS: math.NaN(),
			Saturation: math.NaN()}
		p := &path[i]
		s, err := r.solve(lambda, u)
		if errors.Is(err, ErrSingular) {
			continue
		}
		if err != nil {
			return nil, err
		}
		u = s.U
		trace, err := linalg.TraceInverse(u)
		if err != nil {
			return nil, err
		}
		p.DF = 1 + float64(r.features) - lambda*trace
		p.Saturation = p.DF / float64(r.features)
		p.RSS, p.LogEvidence = 0, 0
		for k := range r.setup.Outputs {
			p.RSS += s.RSS(k)
			if v := s.Noise(k); v > 0 {
				p.LogEvidence += s.LogEvidence(k, v)
			}
		}
		if left := n - p.DF; left > 1e-9*n {
			p.GCV = n * p.RSS / (left * left)
		}
	}
	return path, nil
}
