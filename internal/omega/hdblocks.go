package omega

import (
	"math/bits"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
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

// PaddedDim is n, the least power of two ≥ d.
func PaddedDim(d int) int { return 1 << bits.Len(uint(d-1)) }

// Dense returns the rows as a matrix. It multiplies the unit vectors by the fast transform, so both forms agree by
// construction, and it uses the reference kernels, so the rows are the same on every machine.
func (s *Structured) Dense() dense.Matrix[float64] {
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
