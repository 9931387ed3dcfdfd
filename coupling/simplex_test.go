package coupling_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/rng"
)

// Unit directions of a full block sum to zero, for the dense and (powers of two) the fast simplex.
func TestSimplexSumsToZero(t *testing.T) {
	for _, c := range []coupling.Coupling{coupling.Simplex{}, coupling.FastSimplex{}} {
		for _, d := range []int{2, 4, 16, 64} {
			o, err := c.Sample(2*d, d, coupling.Law{}, rng.Stream(81))
			if err != nil {
				t.Fatal(err)
			}
			u := unitRows(o.Rows)
			for b := range 2 {
				for j := range d {
					var sum float64
					for i := range d {
						sum += u.At(b*d+i, j)
					}
					if math.Abs(sum) > 1e-12 {
						t.Errorf("%s, d=%d, block %d: column %d sums to %g", c.Name(), d, b, j, sum)
					}
				}
			}
		}
	}
}

// d = 1: couplings of blocks are iid. Rows are N(0,1) (TestMarginals) and uncorrelated, signs included.
func TestSimplexInOneDimensionIsIID(t *testing.T) {
	each(func(name string, c coupling.Coupling, info coupling.Info) {
		if info.Replaces || !info.Blocks {
			return // other norms, or rows that depend on each other in another way
		}
		for _, bad := range blockFailures(c.Sample, 1, 1, 3000, true, rng.Stream(82)) {
			t.Errorf("%s: %s", name, bad)
		}
	})
	for _, c := range []coupling.Coupling{coupling.Simplex{}, coupling.FastSimplex{}, coupling.SimplexPlus{},
		coupling.Optimised{}} {
		if p := coupling.Pairs(c, 1); p.Kind != coupling.PairIndependent || !p.Exact {
			t.Errorf("%s: pair law %+v in one dimension", c.Name(), p)
		}
	}
}
