package exec

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// structured is a coupling.Structured in the precision of the map. Each sign vector carries the factor n^{-1/2} of its
// Hadamard matrix, so that nothing grows whatever the number of factors.
type structured[T dense.Float] struct {
	dim, n, rows int
	blocks       []structuredBlock[T]
}

type structuredBlock[T dense.Float] struct {
	signs   [][]T // applied in this order
	norms   []T
	simplex bool
}

func compileStructured[T dense.Float](s *coupling.Structured) *structured[T] {
	out := &structured[T]{dim: s.Dim, n: s.N, rows: s.Rows}
	root := 1 / math.Sqrt(float64(s.N))
	for _, b := range s.Blocks {
		c := structuredBlock[T]{norms: narrow[T](b.Norms), simplex: b.Simplex}
		for i := len(b.Signs) - 1; i >= 0; i-- {
			signs := narrow[T](b.Signs[i])
			for j := range signs {
				signs[j] *= T(root)
			}
			c.signs = append(c.signs, signs)
		}
		out.blocks = append(out.blocks, c)
	}
	return out
}

// apply writes Ω x; buf has length n.
func (s *structured[T]) apply(dst, x, buf []T, tab *kern.Table[T]) {
	for i := range s.blocks {
		b := &s.blocks[i]
		copy(buf, x)
		clear(buf[s.dim:])
		for _, signs := range b.signs {
			tab.Mul(buf, signs)
			tab.FWHT(buf)
		}
		if b.simplex {
			coupling.SimplexInPlace(buf)
		}
		out := dst[i*s.n : min((i+1)*s.n, s.rows)]
		copy(out, buf)
		tab.Mul(out, b.norms)
	}
}
