package coupling

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/rng"
)

// Structured is a stack of blocks diag(c) (S) H D_1 H D_2 … H D_k that multiplies a vector in O(n log n) per
// block. It describes the same rows as Omega.Rows; see [Transform].
type Structured struct {
	Dim, N int // inputs have Dim coordinates and are padded with zeros to N = 2^⌈log2 Dim⌉
	Rows   int // total number of rows; the last block may be cut
	Blocks []HDBlock
}

// HDBlock is one block of N rows.
type HDBlock struct {
	Signs   [][]float64 // Signs[i] is the diagonal of D_{i+1}; the last is applied first
	Norms   []float64   // c_i, N of them
	Simplex bool        // rows are S R instead of R
}

// paddedDim is n, the least power of two ≥ d.
func paddedDim(d int) int { return 1 << bits.Len(uint(d-1)) }

// defaultFactors is the number k of HD factors when K is 0 and HD products are used at all, see exactBelow.
const defaultFactors = 3

// exactBelow is the padded size n from which K = 0 means HD products; below it exact blocks are drawn. The relative
// bias of the Gaussian kernel at |z| = 2 along an axis, the worst direction, is −103 % at n = 4, −23 % at n = 8, −3.5 %
// at n = 16, −0.6 % at n = 32 (docs/theory.md §4.6), and nothing is gained by fast products of that size.
const exactBelow = 32

// drawsExact says that a structured coupling with K = k draws exact blocks in dimension dim.
func drawsExact(k, dim int) bool { return k == 0 && paddedDim(dim) < exactBelow }

// factors is the number of HD factors of K = k.
func factors(k int) int {
	if k == 0 {
		return defaultFactors
	}
	return k
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
	n := paddedDim(dim)
	s := &Structured{Dim: dim, N: n, Rows: m, Blocks: make([]HDBlock, (m+n-1)/n)}
	for i := range s.Blocks {
		signs := make([][]float64, k)
		for j := range signs {
			signs[j] = make([]float64, n)
			rng.Signs(signs[j], src)
		}
		s.Blocks[i] = HDBlock{Signs: signs, Norms: l.norms(n, n, src), Simplex: simplex}
	}
	return Omega{Rows: s.dense(), Fast: s}
}

// dense multiplies the unit vectors, so that the dense rows are the fast ones by construction; by the reference
// kernels, so that they are the same on every machine.
func (s *Structured) dense() dense.Matrix[float64] {
	w := dense.New[float64](s.Rows, s.Dim)
	t := NewTransform(s, kern.Reference[float64]())
	x, col, scratch := make([]float64, s.Dim), make([]float64, s.Rows), make([]float64, s.N)
	for j := range s.Dim {
		x[j] = 1
		t.Apply(col, x, scratch)
		x[j] = 0
		for i, v := range col {
			w.Set(i, j, v)
		}
	}
	return w
}

// checkPadding refuses fixed norms when inputs are padded: the first d coordinates of a vector uniform on the
// sphere of R^n are not uniform on a sphere of R^d.
func checkPadding(c Coupling, dim int, l Law) error {
	if l.Kind == Sphere && dim != paddedDim(dim) {
		return fmt.Errorf("coupling %s with %v marginals in dimension %d, which is not a power of two: %w",
			c.Name(), l, dim, ErrLaw)
	}
	return nil
}
