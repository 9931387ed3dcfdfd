package exec

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// A row term with a full matrix, xᵀQx, costs d² per row, as much as d projections. It is computed for a block of rows
// by one product in float64; a float32 product would lose the last digits of the exponent where |x| is large.

// noQuad is the index of a row term without a full matrix.
const noQuad = -1

// addQuad packs the full matrix of q, if it has one, and returns its index in s.quads. MulT multiplies by the transpose
// of a panel, so the transpose is packed.
func (s *Side[T]) addQuad(q *plan.Quadratic) int {
	if q.Quad.Dense.IsEmpty() {
		return noQuad
	}
	var p kern.Panel[float64]
	kern.Best[float64]().Pack(&p, plan.Transpose(q.Quad.Dense))
	s.quads = append(s.quads, p)
	return len(s.quads) - 1
}

// fillQuads computes the full quadratics of a block of rows into sc.quads, at index k·block + i. Every job calls it
// before the functions of a block, which read the results by termAt.
func (s *Side[T]) fillQuads(x dense.Matrix[T], sc *scratch[T]) {
	if len(s.quads) == 0 {
		return
	}
	n := x.Rows * s.dim
	sc.wide, sc.image = buf.Sized(sc.wide, n), buf.Sized(sc.image, n)
	sc.quads = buf.Sized(sc.quads, len(s.quads)*s.block)
	u := dense.Matrix[float64]{Rows: x.Rows, Cols: s.dim, Stride: s.dim, Data: sc.wide}
	for i := range x.Rows {
		ui := u.Row(i)
		for k, v := range x.Row(i) {
			ui[k] = float64(v)
		}
	}
	qu := dense.Matrix[float64]{Rows: x.Rows, Cols: s.dim, Stride: s.dim, Data: sc.image}
	tab := kern.Best[float64]()
	for k := range s.quads {
		tab.MulT(qu, u, &s.quads[k], nil)
		for i := range x.Rows {
			sc.quads[k*s.block+i] = dot4(u.Row(i), qu.Row(i))
		}
	}
}

// dot4 is x·y with four partial sums, so that an addition need not wait for the one before.
func dot4(x, y []float64) float64 {
	var a, b, c, d float64
	y = y[:len(x)]
	for len(x) >= 4 {
		a += x[0] * y[0]
		b += x[1] * y[1]
		c += x[2] * y[2]
		d += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += v * y[i]
	}
	return (a + b) + (c + d)
}

// rowAt is the row term of the leaf at row i of the block.
func (l *leaf[T]) rowAt(s *Side[T], x dense.Matrix[T], i int, sc *scratch[T]) float64 {
	return s.termAt(&l.row, l.quad, x, i, sc)
}

// outerAt is the outer row term at row i of the block.
func (s *Side[T]) outerAt(x dense.Matrix[T], i int, sc *scratch[T]) float64 {
	return s.termAt(&s.outer, s.outerQuad, x, i, sc)
}

// terms sets dst to q at the rows of the block. Most maps need only their norms, a few operations per row.
func (s *Side[T]) terms(dst []float64, q *plan.Quadratic, quad int, x dense.Matrix[T], sc *scratch[T]) {
	if quad != noQuad || q.Lin != nil || q.Quad.Diag != nil {
		for i := range dst {
			dst[i] = s.termAt(q, quad, x, i, sc)
		}
		return
	}
	for i, n := range sc.norms[:len(dst)] {
		dst[i] = q.Const
		if q.Quad.Gain != 0 {
			dst[i] += q.Quad.Gain * n
		}
	}
}

// termAt is q at row i of the block; quad is the index of its full matrix in s.quads, or noQuad.
func (s *Side[T]) termAt(q *plan.Quadratic, quad int, x dense.Matrix[T], i int, sc *scratch[T]) float64 {
	if quad == noQuad {
		return quadAt(q, x.Row(i), sc.norms[i])
	}
	v := q.Const + sc.quads[quad*s.block+i]
	for k, l := range q.Lin {
		v += l * float64(x.At(i, k))
	}
	return v
}

// constant reports whether q does not depend on its argument.
func constant(q *plan.Quadratic) bool { return q.Lin == nil && q.Quad.IsZero() }

// quadAt evaluates q at x, with norm2 = |x|², in float64 whatever the precision of x.
func quadAt[T dense.Float](q *plan.Quadratic, x []T, norm2 float64) float64 {
	s := q.Const
	for i, l := range q.Lin {
		s += l * float64(x[i])
	}
	switch {
	case !q.Quad.Dense.IsEmpty():
		for i, v := range x {
			var r float64
			for j, w := range q.Quad.Dense.Row(i) {
				r += w * float64(x[j])
			}
			s += r * float64(v)
		}
	case q.Quad.Diag != nil:
		for i, v := range x {
			s += q.Quad.Diag[i] * float64(v) * float64(v)
		}
	case q.Quad.Gain != 0:
		s += q.Quad.Gain * norm2
	}
	return s
}
