package coupling

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// Optimised minimises the conformity of each block numerically over the directions, for the norms drawn and one
// value v = |x+y| (SimRF section 3.2, eq 12; docs/theory.md §4.9):
//
//	minimise Σ_{i≠j} Φ(|w_i+w_j|²),  Φ(t) = 0F1(; d/2; v² t/4),  |w_i| = c_i ~ chi_d,
//
// by L-BFGS from the [SimplexPlus] solution, then rotates by an independent Haar matrix, so that each row is exactly
// N(0, I_d). It is a benchmark for the closed-form couplings: it costs hundreds of evaluations of d² terms per block
// and is best for one v only. d = 1: a block is one N(0,1) row, so it is then the same as IID. Under Sphere(r) all
// c_i = r.
type Optimised struct {
	V float64 `json:"v,omitempty"` // |x+y| to optimise for; 0 means 1
}

// Name is "optimised".
func (Optimised) Name() string { return "optimised" }

func (c Optimised) validate() error {
	if !(c.V >= 0) || math.IsInf(c.V, 0) {
		return fmt.Errorf("coupling optimised: V (\"v\") is %v, want a finite number > 0, or 0 for 1", c.V)
	}
	return nil
}

// Sample draws m rows in blocks of dim.
func (c Optimised) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	v := c.V
	v = cmp.Or(v, 1)
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		w := omega.BalancedSimplex(l.norms(dim, dim, src), defaultSweeps)
		omega.MinimiseConformity(w, v)
		omega.MulInto(block, w.RowRange(0, block.Rows), haarMatrix(dim, src))
	})}, nil
}
