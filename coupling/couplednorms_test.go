package coupling_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// Partners have norms at opposite quantiles, F(c_{2i}) + F(c_{2i+1}) = 1, and the pairs are independent of each other.
// Independent norms are no partners.
func TestCoupledNorms(t *testing.T) {
	for _, c := range []struct {
		coupling   coupling.Coupling
		dim, block int // block: rows, and the dimension of the norms
		coupled    bool
	}{
		{coupling.CoupledOrthogonal{}, 5, 5, true},
		{coupling.CoupledOrthogonal{}, 512, 512, true},
		{coupling.CoupledHadamard{}, 5, 5, true},
		{coupling.CoupledHadamard{}, 64, 64, true},
		{coupling.Orthogonal{}, 5, 5, false},
		{coupling.Hadamard{}, 64, 64, false},
	} {
		o, err := c.coupling.Sample(2*c.block, c.dim, coupling.Law{}, rng.Stream(7))
		if err != nil {
			t.Fatal(err)
		}
		worst, first := 0.0, -1.0
		for block := range 2 {
			for i := 0; i+1 < c.block; i += 2 {
				u := make([]float64, 2)
				for j := range u {
					u[j] = mathext.GammaIncReg(float64(c.block)/2, dense.Norm2(o.Rows.Row(block*c.block+i+j))/2)
				}
				worst = max(worst, math.Abs(u[0]+u[1]-1))
				if u[0] == first {
					t.Errorf("%s, d = %d: two pairs share the quantile %v", c.coupling.Name(), c.dim, first)
				}
				first = u[0]
			}
		}
		if got := worst < 1e-9; got != c.coupled {
			t.Errorf("%s, d = %d: sums of quantiles are up to %g from 1", c.coupling.Name(), c.dim, worst)
		}
	}
}
