package machine

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
)

// gp holds the [Sums] of Gaussian-process regression. The sums are those of [Ridge]; only the model differs, because it
// has a variance. The noise maximises the evidence; [Ridge.GP] accepts a given noise.
type gp struct{ *Ridge }

// newGP returns the sums of no rows.
func newGP(s Setup) (*gp, error) {
	r, err := NewRidge(s)
	if err != nil {
		return nil, err
	}
	return &gp{r}, nil
}

// Merge adds the rows of another gp; see [Ridge.Merge].
func (g *gp) Merge(o Sums) error {
	other, ok := o.(*gp)
	if !ok {
		return otherSums(g, o)
	}
	return g.Ridge.Merge(other.Ridge)
}

// Model is the process of [Ridge.GP] with the noise that maximises the evidence.
func (g *gp) Model(lambda float64) (*Model, error) { return g.GP(lambda, nil) }

// GP is Gaussian-process regression with the prior of the features: f = φ·w + b, w ~ N(0, (v/λ) I), a flat prior on b,
// and noise of variance v. noise has one v per output; nil chooses those that maximise the evidence. Rasmussen &
// Williams, Gaussian Processes for Machine Learning, §2.1.2 and §2.7. With few features variances are too small: see
// [Point].Saturation.
func (r *Ridge) GP(lambda float64, noise []float64) (*Model, error) {
	s, noise, err := r.bayes(lambda, noise)
	if err != nil {
		return nil, err
	}
	m, err := r.model(KindGP, s)
	if err != nil {
		return nil, err
	}
	m.Noise, m.Centre = noise, s.Mu
	if r.setup.Weighted {
		m.Weight = s.Weight
	}
	m.Factor = dense.New[float64](r.features, r.features)
	if err := linalg.Inverse(m.Factor, s.U); err != nil || r.white() == nil {
		return m, err
	}
	// Landmarks: predictions compute kernel columns k, not φ. As rows φ = kR⁻¹, so (φ − μ)U⁻¹ = (k − μR)(R⁻¹U⁻¹):
	// the model keeps μR and R⁻¹U⁻¹.
	white := r.white()
	m.Centre = make([]float64, r.features)
	for i, v := range s.Mu {
		for j := i; j < r.features; j++ {
			m.Centre[j] += float64(v * white.r.At(i, j))
		}
	}
	return m, white.weights(m.Factor)
}

// LogEvidence is the log marginal likelihood of the model of GP, summed over outputs: the density of all contrasts of
// y, which do not depend on b (Rasmussen & Williams, eq. 2.45).
func (r *Ridge) LogEvidence(lambda float64, noise []float64) (float64, error) {
	s, noise, err := r.bayes(lambda, noise)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for k, v := range noise {
		sum += s.LogEvidence(k, v)
	}
	return sum, nil
}

// bayes validates the arguments of GP and LogEvidence and solves for λ. It returns a copy of noise, or the noise that
// maximises the evidence.
func (r *Ridge) bayes(lambda float64, noise []float64) (*linalg.Solution, []float64, error) {
	if r.setup.Task != Regression {
		return nil, nil, fmt.Errorf("gaussian process for %s, want %s: %w", r.setup.Task, Regression, ErrSetup)
	}
	if r.sums.N < 2 {
		return nil, nil, fmt.Errorf("%d rows, a Gaussian process needs at least 2: %w", r.sums.N, ErrNoRows)
	}
	if !(r.sums.Weight > 1) {
		return nil, nil, fmt.Errorf("rows of weight %g together, a Gaussian process needs more than 1, which one row has: %w",
			r.sums.Weight, ErrNoRows)
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
			noise = append(noise, s.Noise(k))
		}
		return s, noise, nil
	}
	if len(noise) != r.setup.Outputs {
		return nil, nil, fmt.Errorf("%d noise variances for %d outputs: %w", len(noise), r.setup.Outputs,
			dense.ErrShape)
	}
	for _, v := range noise {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil, nil, fmt.Errorf("noise variance %g, want a positive number: %w", v, ErrSetup)
		}
	}
	return s, append([]float64(nil), noise...), nil
}
