package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Columns: κ(u, ω_f) for landmarks ω_f, possibly multiplied by a matrix White (Nyström features). All of it runs in
// float64, also in float32 maps, for two reasons: distances |u|² − 2u·ω + |ω|² are differences of squares, and White is
// the inverse of a Cholesky factor that may be nearly singular.

func columnsFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logColumns, prepare: (*leaf[T]).prepareColumns,
		explicit: true}
}

// prepareColumns packs Ω for u·ω. The Laplace kernel sums |u_l − ω_l| instead, so it needs Ω by coordinate.
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

// factors writes κ(u_i, ω_f) as value·exp(e + row) with e ≤ 0 and e = 0 at the largest exponent of a row, so that
// exp(e) neither overflows nor loses the whole row. value and e are x.Rows × landmarks.
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

// columnBlock splits sc.columns into two matrices of rows × landmarks.
func (l *leaf[T]) columnBlock(rows int, sc *scratch[T]) (value, e dense.Matrix[float64]) {
	m := l.Omega.Rows.Rows
	of := func(data []float64) dense.Matrix[float64] {
		return dense.Matrix[float64]{Rows: rows, Cols: m, Stride: m, Data: data[:rows*m]}
	}
	return of(sc.columns), of(sc.columns[rows*m:])
}

// logColumns: without White a feature keeps its own exponent. With White a feature is a signed sum over landmarks, so
// the exponentials are taken first, relative to the largest of the row, and the row term carries the common scale.
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

// vjpColumns pulls cotangents back through κ. With a = √(2ν)|u−ω|, the gradient of κ(u, ω) by u is
//
//   - −Slope·exp(−a)·(u−ω) for a Matérn kernel,
//   - (ω−u)·κ for the Gaussian kernel,
//   - ω·κ for softmax,
//   - −sgn(u_l−ω_l)·κ in coordinate l for the Laplace kernel, 0 at its kinks.
//
// gv arrives multiplied by the exponential of the feature, which addGradient therefore leaves out. With White it is the
// cotangent of the mixed features: it is multiplied by Whiteᵀ, and each landmark's exponential is recomputed.
func vjpColumns[T dense.Float](l *leaf[T], _ *Backward[T], _ *leafGrad[T], dx, gv, _, _, x dense.Matrix[T],
	sc *scratch[T]) {
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

// addGradient adds to du c times the gradient of κ(u, ω) by u, divided by the exponential of κ.
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
		// At u = ω the direction u−ω vanishes: smooth Matérn kernels have gradient 0 there, and matern12 has a kink,
		// where 0 is a subgradient.
		if sq == 0 {
			return
		}
		c *= l.Kernel.Slope(math.Sqrt(sq))
	}
	for k, w := range omega {
		du[k] -= c * (u[k] - w)
	}
}
