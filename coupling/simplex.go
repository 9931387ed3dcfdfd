package coupling

import (
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// Simplex draws blocks of d rows that point to the corners of a randomly rotated simplex (SimRF eqs 8-9,
// docs/theory.md §4.7):
//
//	block = diag(c) S R,  c_i ~ chi_d independent,  R Haar,  s_i·s_j = −1/(d−1).
//
// Each row is exactly N(0, I_d). Among couplings whose directions do not depend on the norms it has the
// least variance for positive features (SimRF section 3), but it is worse than [Orthogonal] for hyperbolic and (small
// |x−y|) trigonometric ones. d = 1: a block is one N(0,1) row, so Simplex is then the same as IID. Under Sphere(r) all
// c_i = r.
type Simplex struct{}

// Name is "simplex".
func (Simplex) Name() string { return "simplex" }

// Sample draws m rows in blocks of dim.
func (c Simplex) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		r := haarMatrix(dim, src)
		omega.SimplexRows(r)
		for i := range block.Rows {
			copy(block.Row(i), r.Row(i))
		}
		omega.ScaleRows(block, l.norms(block.Rows, dim, src))
	})}, nil
}
