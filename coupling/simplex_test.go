package coupling_test

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// simplexRow is s_i by SimRF eq 9.
func simplexRow(i, d int) []float64 {
	n := float64(d)
	s := make([]float64, d)
	for j := range d - 1 {
		if i == d-1 {
			s[j] = 1 / math.Sqrt(n-1)
		} else {
			s[j] = -(math.Sqrt(n) + 1) / math.Pow(n-1, 1.5)
		}
	}
	if i < d-1 {
		s[i] += math.Sqrt(n / (n - 1))
	}
	return s
}

// The fast multiply is the matrix of eq 9.
func TestSimplexMultiplyIsEq9(t *testing.T) {
	for _, d := range []int{2, 3, 7, 64} {
		x := make([]float64, d)
		rng.Normals(x, rng.Stream(80))
		before := append([]float64(nil), x...)
		y := coupling.SimplexMultiply(x)
		for i := range d {
			if want := dense.Dot(simplexRow(i, d), x); math.Abs(y[i]-want) > 1e-13 {
				t.Errorf("d=%d: y[%d] = %v, want %v", d, i, y[i], want)
			}
			if x[i] != before[i] {
				t.Fatal("input changed")
			}
		}
	}
	if y := coupling.SimplexMultiply([]float64{3}); len(y) != 1 || y[0] != 3 {
		t.Errorf("d=1: %v, want the identity", y)
	}
	if y := coupling.SimplexMultiply(nil); len(y) != 0 {
		t.Errorf("d=0: %v", y)
	}
}

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

// d = 1: block couplings are iid. Rows are N(0,1) (TestMarginals) and uncorrelated, signs included.
func TestSimplexInOneDimensionIsIID(t *testing.T) {
	each(func(name string, c coupling.Coupling, info coupling.Info) {
		if info.Replaces || slices.Contains(info.Laws, coupling.Poisson) {
			return // other norms, or no blocks
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
