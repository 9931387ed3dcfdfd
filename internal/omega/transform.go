package omega

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// Transform multiplies vectors by a [Structured] in O(k n log n) operations per block of n rows, in precision T. No
// other code does: the dense rows of an Omega are its products with unit vectors.
type Transform[T dense.Float] struct {
	dim, n, rows int
	blocks       []transformBlock[T]
	tab          *kern.Table[T]
}

type transformBlock[T dense.Float] struct {
	signs   [][]T // in the order they are applied
	norms   []T   // with the factor that the transforms lack
	simplex bool
}

// NewTransform prepares s for the kernels of a table.
//
// Hadamard transforms are left unnormalised, which costs nothing and keeps their additions exact in scale; the common
// factor n^{−k/2} is applied once, with the norms. |x| then grows by √n per transform. Before float32 could overflow,
// for large k, the factor so far is moved into the next signs.
func NewTransform[T dense.Float](s *Structured, tab *kern.Table[T]) *Transform[T] {
	const limit = 1 << 40
	t := &Transform[T]{dim: s.Dim, n: s.N, rows: s.Rows, tab: tab}
	for _, b := range s.Blocks {
		c := transformBlock[T]{norms: make([]T, len(b.Norms)), simplex: b.Simplex}
		growth := 1.0
		for i := len(b.Signs) - 1; i >= 0; i-- {
			f := T(1)
			if growth > limit {
				f, growth = T(1/growth), 1
			}
			signs := make([]T, s.N)
			for j, v := range b.Signs[i] {
				signs[j] = T(v) * f
			}
			c.signs = append(c.signs, signs)
			growth *= math.Sqrt(float64(s.N))
		}
		for j, v := range b.Norms {
			c.norms[j] = T(v * (1 / growth))
		}
		t.blocks = append(t.blocks, c)
	}
	return t
}

// Dim is the number of coordinates of an input.
func (t *Transform[T]) Dim() int { return t.dim }

// Scratch is the length of the scratch that Apply needs.
func (t *Transform[T]) Scratch() int { return t.n }

// Apply writes Ω x into dst: dst[i] is the product of row i of Omega.Rows with x. It allocates nothing. len(dst) must
// be the number of rows, len(x) that of the inputs and len(scratch) at least Scratch; wrong lengths panic. The contents
// of scratch are overwritten; it must not overlap dst or x.
func (t *Transform[T]) Apply(dst, x, scratch []T) {
	if len(dst) != t.rows || len(x) != t.dim || len(scratch) < t.n {
		panic(fmt.Sprintf("coupling: Apply with len(dst) = %d, len(x) = %d, len(scratch) = %d, want %d, %d, ≥ %d",
			len(dst), len(x), len(scratch), t.rows, t.dim, t.n))
	}
	buf := scratch[:t.n]
	for i := range t.blocks {
		b := &t.blocks[i]
		copy(buf, x)
		clear(buf[t.dim:])
		for _, signs := range b.signs {
			t.tab.Mul(buf, signs)
			t.tab.FWHT(buf)
		}
		if b.simplex {
			SimplexInPlace(buf)
		}
		out := dst[i*t.n : min((i+1)*t.n, t.rows)]
		copy(out, buf)
		t.tab.Mul(out, b.norms)
	}
}
