package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Columns: κ(u, ω_f) of landmarks ω, possibly times a matrix White. In float64 in every map: distances are differences
// of squares, and White is the inverse of a matrix that is nearly singular.

func columnsFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logColumns, vjp: (*leaf[T]).vjpColumns, prepare: (*leaf[T]).prepareColumns,
		explicit: true}
}

func (l *leaf[T]) prepareColumns() {
	tab := kern.Best[float64]()
	if l.Kernel == kernel.Laplace {
		l.columns = plan.Transpose(l.Omega.Rows)
	} else {
		tab.Pack(&l.powers, l.Omega.Rows)
	}
	l.squares = make([]float64, l.Omega.Rows.Rows)
	for f := range l.squares {
		l.squares[f] = tab.Norm2(l.Omega.Rows.Row(f))
	}
}

// factors writes κ of every landmark and row as value·exp(e + row): e ≤ 0, and 0 at the largest of a row.
func (l *leaf[T]) factors(value, e dense.Matrix[float64], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	tab := kern.Best[float64]()
	u := dense.Matrix[float64]{Rows: x.Rows, Cols: l.inner, Stride: l.inner, Data: sc.inputs}
	for i := range x.Rows {
		copy(u.Row(i), l.input(x.Row(i), sc))
	}
	if l.Kernel != kernel.Laplace {
		tab.MulT(e, u, &l.powers, nil)
	}
	for i := range x.Rows {
		ei := e.Row(i)
		l.Kernel.FactorsOf(value.Row(i), ei, u.Row(i), l.Omega.Rows, l.columns, l.squares)
		row[i] = tab.Max(ei)
		for f := range ei {
			ei[f] -= row[i]
		}
	}
}

// columnBlock is the room of a block of factors.
func (l *leaf[T]) columnBlock(rows int, sc *scratch[T]) (value, e dense.Matrix[float64]) {
	m := l.Omega.Rows.Rows
	of := func(data []float64) dense.Matrix[float64] {
		return dense.Matrix[float64]{Rows: rows, Cols: m, Stride: m, Data: data[:rows*m]}
	}
	return of(sc.columns), of(sc.columns[rows*m:])
}

func (l *leaf[T]) logColumns(_ *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	v, ex := l.columnBlock(x.Rows, sc)
	l.factors(v, ex, row, x, sc)
	if l.White.IsEmpty() {
		for i := range x.Rows {
			narrowInto(value.Row(i), v.Row(i))
			narrowInto(e.Row(i), ex.Row(i))
		}
		return
	}
	tab := kern.Best[float64]()
	tab.Exp(ex.Data, 0)
	tab.Mul(v.Data, ex.Data)
	out := dense.Matrix[float64]{Rows: x.Rows, Cols: l.width, Stride: l.width, Data: sc.mixed}
	tab.Product(out, v, l.White, false)
	for i := range x.Rows {
		narrowInto(value.Row(i), out.Row(i))
		clear(e.Row(i))
	}
}

func narrowInto[T dense.Float](dst []T, src []float64) {
	for i, v := range src {
		dst[i] = T(v)
	}
}

// vjpColumns: the gradient of κ(u, ω) is −Slope·exp(−a)·(u−ω) for a Matérn kernel, (ω−u)κ for the Gaussian one, ωκ for
// softmax, and a sign per coordinate for the Laplace kernel, 0 at its kinks. gv has the exponential in it.
func (l *leaf[T]) vjpColumns(_ *Backward[T], _ *leafGrad[T], dx, gv, _, _, x dense.Matrix[T], sc *scratch[T]) {
	v, e := l.columnBlock(x.Rows, sc)
	row := sc.terms[:x.Rows]
	if !l.White.IsEmpty() {
		l.factors(v, e, row, x, sc)
		kern.Best[float64]().Exp(e.Data, 0)
	}
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		clear(du)
		for f := range l.Omega.Rows.Rows {
			c := 0.0
			if l.White.IsEmpty() {
				c = float64(gv.At(i, f))
			} else {
				for g, w := range l.White.Row(f) {
					c += float64(gv.At(i, g)) * w
				}
				c *= e.At(i, f)
			}
			l.addGradient(du, c, u, l.Omega.Rows.Row(f))
		}
		l.backInput(dx.Row(i), du, u)
	}
}

// addGradient adds c times the gradient of κ(u, ω) by u over its exponential.
func (l *leaf[T]) addGradient(du []float64, c float64, u, omega []float64) {
	switch {
	case l.Kernel == kernel.Laplace:
		for k, w := range omega {
			switch {
			case u[k] > w:
				du[k] -= c
			case u[k] < w:
				du[k] += c
			}
		}
		return
	case l.Kernel == kernel.Softmax:
		axpy(du, c, omega)
		return
	case l.Kernel != kernel.Gaussian:
		var sq float64
		for k, w := range omega {
			sq += (u[k] - w) * (u[k] - w)
		}
		if sq == 0 {
			return
		}
		c *= l.Kernel.Slope(math.Sqrt(sq))
	}
	for k, w := range omega {
		du[k] -= c * (u[k] - w)
	}
}
