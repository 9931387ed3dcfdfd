package coupling

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// SimplexPlus is the norm-dependent coupling of SimRF section 3.4 (eqs 15-17; docs/theory.md §4.8). For the norms drawn
// it turns the directions until the rows of a block sum to (nearly) zero,
//
//	w_i ← −c_i (T − w_i)/|T − w_i|,  T = Σ_j w_j,  i = 1, …, d, repeatedly,
//
// starting from the simplex, and rotates the result by an independent Haar matrix. Each row is exactly N(0, I_d)
// because the rotation is independent of the norms; the sum minimises the leading term of the variance of positive
// features. d = 1: a block is one N(0,1) row, so it is then the same as IID. Under Sphere(r) the simplex already
// sums to zero and SimplexPlus equals [Simplex].
type SimplexPlus struct {
	Sweeps int `json:"sweeps,omitempty"` // largest number of sweeps over a block; 0 means 20
}

// Name is "simplexplus".
func (SimplexPlus) Name() string { return "simplexplus" }

// defaultSweeps is far more than needed: |T| falls by orders of magnitude per sweep.
const defaultSweeps = 20

func (c SimplexPlus) validate() error {
	if c.Sweeps < 0 {
		return fmt.Errorf("coupling simplexplus: Sweeps (\"sweeps\") is %d, want ≥ 1, or 0 for %d", c.Sweeps,
			defaultSweeps)
	}
	return nil
}

// Sample draws m rows in blocks of dim, with fresh norms for every block.
func (c SimplexPlus) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	sweeps := c.Sweeps
	sweeps = cmp.Or(sweeps, defaultSweeps)
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		w := omega.BalancedSimplex(l.norms(dim, dim, src), sweeps)
		omega.MulInto(block, w.RowRange(0, block.Rows), haarMatrix(dim, src))
	})}, nil
}
