package coupling

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

// defaultFactors is the number k of HD factors if K is 0 and HD products are used; see exactBelow.
const defaultFactors = 3

// exactBelow is the padded size n from which K = 0 means HD products; below it exact blocks are drawn. The relative
// bias of the Gaussian kernel at |z| = 2 along an axis, the worst direction, is −103 % at n = 4, −23 % at n = 8, −3.5 %
// at n = 16 and −0.6 % at n = 32 (docs/theory.md §4.6), and fast products gain nothing at these sizes.
const exactBelow = 32

// drawsExact reports whether a structured coupling with K = k draws exact blocks in dimension dim.
func drawsExact(k, dim int) bool { return k == 0 && omega.PaddedDim(dim) < exactBelow }

// factors is the effective number of HD factors for K = k.
func factors(k int) int {
	return cmp.Or(k, defaultFactors)
}

// maxFactors bounds K: beyond a handful of factors nothing improves, and a typo should not fill the memory.
const maxFactors = 64

func checkFactors(name string, k int) error {
	if k < 0 || k > maxFactors {
		return fmt.Errorf("coupling %s: K (\"k\") is %d, want 1 to %d, or 0 for %d (exact blocks below n = %d)",
			name, k, maxFactors, defaultFactors, exactBelow)
	}
	return nil
}

// sampleStructured draws the blocks of Hadamard and FastSimplex. Norms are those of dimension n, not d: only then
// is the restriction of a row to d coordinates (nearly) N(0, I_d).
func sampleStructured(m, dim, k int, simplex bool, l Law, src rand.Source) Omega {
	n := omega.PaddedDim(dim)
	s := &omega.Structured{Dim: dim, N: n, Rows: m, Blocks: make([]omega.HDBlock, (m+n-1)/n)}
	for i := range s.Blocks {
		signs := make([][]float64, k)
		for j := range signs {
			signs[j] = make([]float64, n)
			rng.Signs(signs[j], src)
		}
		s.Blocks[i] = omega.HDBlock{Signs: signs, Norms: l.norms(n, n, src), Simplex: simplex}
	}
	return Omega{Rows: s.Dense(), Fast: s}
}

// checkPadding refuses fixed norms when inputs are padded: the first d coordinates of a vector uniform on the
// sphere of R^n are not uniform on a sphere of R^d.
func checkPadding(c Coupling, dim int, l Law) error {
	if l.Kind == Sphere && dim != omega.PaddedDim(dim) {
		return fmt.Errorf("coupling %s with %v marginals in dimension %d, which is not a power of two: %w",
			c.Name(), l, dim, ErrLaw)
	}
	return nil
}
