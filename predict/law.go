package predict

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/theory"
)

// Law is the joint law of the estimated weights ŵ_j of the keys of one query, for one projection.
type Law interface {
	// At fixes a query and keys, embedded by the kernel. The result is the covariance of ŵ_j/w_j and ŵ_k/w_k.
	At(x []float64, y dense.Matrix[float64]) func(j, k int) float64
}

// LawOf finds the law of a family for embedded inputs of dim columns; theory.ErrNoClosedForm if there is none here:
// hybrids, residual features, baselines.
func LawOf(f family.Family, dim int) (Law, error) {
	switch f := f.(type) {
	case family.Poisson:
		return discreteLaw{lambda: f.Lambda}, nil
	case family.PoissonPlus:
		return discreteLaw{lambda: f.Lambda, shift: f.Shift}, nil
	case family.Geometric:
		return discreteLaw{p: f.P}, nil
	case family.GeometricPlus:
		return discreteLaw{p: f.P, shift: f.Shift}, nil
	case family.LFK:
		return nil, theory.NoForm("learned feature kernel (not an estimator)")
	case family.Landmarks:
		return nil, theory.NoForm("columns of the kernel (not an estimator)")
	}
	return newExponentialLaw(f, dim)
}
