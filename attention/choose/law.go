package choose

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// weightLaw is the joint law of the estimated weights ŵ_j of the keys of one query, for a single projection. With m
// independent projections, covariances are divided by m.
type weightLaw interface {
	// At returns the covariance of ŵ_j/w_j and ŵ_k/w_k for query x and keys y, embedded by the kernel.
	At(x []float64, y dense.Matrix[float64]) func(j, k int) float64
}

// lawOf returns the law of a family for embedded inputs with dim columns. The error wraps theory.ErrNoClosedForm if
// there is none, as for hybrids, residual features and baselines.
func lawOf(f family.Family, dim int) (weightLaw, error) {
	form, err := family.Prepare(f, dim)
	if err != nil {
		return nil, err
	}
	zero := make([]float64, dim)
	if _, err := form.Form(kernel.Softmax, zero, zero); err != nil { // baselines estimate no kernel
		return nil, err
	}
	if m, ok := f.(interface{ Exponents() family.Exponents }); ok {
		e := m.Exponents()
		return discreteLaw{lambda: e.Lambda, p: e.P, shift: e.Shift}, nil
	}
	return newExponentialLaw(f, dim)
}
