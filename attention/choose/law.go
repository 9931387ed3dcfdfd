package choose

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// weightLaw is the joint law of the estimated weights ŵ_j of the keys of one query, for one projection.
type weightLaw interface {
	// At fixes a query and keys, embedded by the kernel. The result is the covariance of ŵ_j/w_j and ŵ_k/w_k.
	At(x []float64, y dense.Matrix[float64]) func(j, k int) float64
}

// lawOf finds the law of a family for embedded inputs of dim columns; theory.ErrNoClosedForm if there is none here:
// hybrids, residual features, baselines.
func lawOf(f family.Family, dim int) (weightLaw, error) {
	form, err := family.Prepare(f, dim)
	if err != nil {
		return nil, err
	}
	zero := make([]float64, dim)
	if _, err := form.Form(kernel.Softmax, zero, zero); err != nil { // baselines are no estimators and say so
		return nil, err
	}
	if m, ok := f.(family.Monomial); ok {
		e := m.Exponents()
		return discreteLaw{lambda: e.Lambda, p: e.P, shift: e.Shift}, nil
	}
	return newExponentialLaw(f, dim)
}
