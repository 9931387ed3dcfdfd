package coupling

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

// IID draws independent rows (docs/theory.md §4.1). It is defined for every law and is the baseline of all variance
// comparisons.
type IID struct{}

// Name is "iid".
func (IID) Name() string { return "iid" }

// Sample draws m independent rows. Sphere rows are normalised Gaussian vectors, t rows scaled ones; Poisson,
// geometric and Cauchy coordinates come from the quantile function of a uniform.
func (c IID) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, allLaws()); err != nil {
		return Omega{}, err
	}
	w := dense.New[float64](m, dim)
	switch l.Kind {
	case Normal:
		rng.Normals(w.Data, src)
	case Sphere:
		for i := range m {
			uniformDirection(w.Row(i), l.Param, src)
		}
	case Student:
		rng.Normals(w.Data, src)
		for i := range m {
			omega.Scale(w.Row(i), l.widen(src))
		}
	default:
		for i := range w.Data {
			w.Data[i] = l.quantile(rng.Open(src))
		}
	}
	return Omega{Rows: w}, nil
}

// uniformDirection fills row with a uniform point of the sphere of the given radius.
func uniformDirection(row []float64, radius float64, src rand.Source) {
	for {
		rng.Normals(row, src)
		// Zero has positive probability in floating point when d = 1; it has no direction.
		if n := math.Sqrt(dense.Norm2(row)); n > 0 {
			omega.Scale(row, radius/n)
			return
		}
	}
}
