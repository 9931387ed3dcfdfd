package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

// SinCos and Complex: a modulus exp(e) times the sine and cosine of a phase θ (docs/theory.md §2.1, §2.4). SinCos
// writes the sines first, Complex the cosines. Conj negates the sines of Complex (the imaginary part).

func trigFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logTrig, run: (*leaf[T]).runTrig,
		prepare: (*leaf[T]).prepareTrig, rowFactor: true}
}

// prepareTrig decides whether the fused kernel MulTSinCos applies. Conj means nothing for SinCos and is cleared there.
func (l *leaf[T]) prepareTrig() {
	l.Conj = l.Conj && l.Fn == plan.Complex
	l.pureTrig = !l.Conj && !l.hasModulus() && l.im.isDense() && constant(&l.rowIm) && l.rowIm.Const == 0
}

// hasModulus reports whether the exponents differ between features.
func (l *leaf[T]) hasModulus() bool { return !l.re.absent() || l.re.bias != nil }

// sinCos says which half of a feature row holds the sines and which the cosines.
func (l *leaf[T]) sinCos(first, second []T) (sin, cos []T) {
	if l.Fn == plan.Complex {
		return second, first
	}
	return first, second
}

// runTrig chooses among three paths: the fused kernel (pureTrig), waves times a modulus per feature, and waves alone,
// whose modulus is the row term only.
func (l *leaf[T]) runTrig(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T],
	plain bool, outer []float64) {
	s.terms(scale[:x.Rows], &l.row, l.quad, x, sc)
	switch {
	case l.pureTrig:
		l.pure(s, dst, scale, x, plain)
	case l.hasModulus():
		m := l.re.rows
		l.waves(s, dst, x, sc)
		mod := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
		l.re.project(s, mod, x, sc)
		for i := range x.Rows {
			scale[i] += exponentiate(s, mod.Row(i))
			s.tab.Mul(dst.Row(i)[:m], mod.Row(i))
			s.tab.Mul(dst.Row(i)[m:], mod.Row(i))
		}
	default:
		l.waves(s, dst, x, sc)
	}
	s.settle(dst, scale, plain, outer)
}

// pure is runTrig without a modulus or a phase of the row: the kernel applies sine and cosine as it finishes the
// projection. A factor that all rows share (m^{-1/2}) costs plain features nothing here; settle would need another
// pass.
func (l *leaf[T]) pure(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], plain bool) {
	m := l.im.rows
	sin, cos := dst.ColRange(0, m), dst.ColRange(m, 2*m)
	if l.Fn == plan.Complex {
		sin, cos = cos, sin
	}
	f := T(1)
	if plain && constant(&l.row) {
		f = T(math.Exp(l.row.Const))
		clear(scale[:x.Rows])
	}
	s.tab.MulTSinCos(sin, cos, x, &l.im.w, l.im.bias, f)
}

// waves writes the sines and cosines without their modulus. The phase of a row may be large (GERF: c·|x|²). It is
// reduced modulo 2π in float64, where the remainder is exact, before it is added to the phases of the features in T.
func (l *leaf[T]) waves(s *Side[T], dst, x dense.Matrix[T], sc *scratch[T]) {
	m := l.im.rows
	l.im.project(s, dst.ColRange(0, m), x, sc)
	for i := range x.Rows {
		first, second := dst.Row(i)[:m], dst.Row(i)[m:]
		if phase := T(math.Remainder(quadAt(&l.rowIm, x.Row(i), sc.norms[i]), 2*math.Pi)); phase != 0 {
			for f := range first {
				first[f] += phase
			}
		}
		sin, cos := l.sinCos(first, second)
		s.tab.SinCos(sin, cos, first)
		if l.Conj {
			s.tab.Scale(second, -1)
		}
	}
}

// logTrig writes the exponent of the modulus as e, the same for sine and cosine of a projection, and the sine and
// cosine as value.
func (l *leaf[T]) logTrig(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	m := l.re.rows
	l.waves(s, value, x, sc)
	l.re.project(s, e.ColRange(0, m), x, sc)
	for i := range x.Rows {
		copy(e.Row(i)[m:], e.Row(i)[:m])
	}
	s.terms(row[:x.Rows], &l.row, l.quad, x, sc)
}

// vjpTrig handles modulus and phase one after the other. Sine and cosine share their exponent, so fold adds the two
// halves of ge; phases turns the two halves of gv into the cotangents of θ.
func vjpTrig[T dense.Float](l *leaf[T], b *Backward[T], g *leafGrad[T], dx, gv, ge, value, x dense.Matrix[T],
	sc *scratch[T]) {
	m := l.re.rows
	b.rowTerm(&g.row, dx, ge, x, sc)
	fold(ge, m, 1)
	b.project(dx, ge.ColRange(0, m), &g.re, sc)
	l.phases(gv, value)
	theta := gv.ColRange(0, m)
	b.project(dx, theta, &g.im, sc)
	b.rowTerm(&g.rowIm, dx, theta, x, sc)
}

// phases replaces the first half of gv by the cotangents of the phases.
func (l *leaf[T]) phases(gv, value dense.Matrix[T]) {
	m := gv.Cols / 2
	// (sin, cos) has the derivative (cos, −sin); (cos, ±sin) has (∓ the second, ± the first).
	sign := T(1)
	if l.Fn == plan.Complex && !l.Conj {
		sign = -1
	}
	for i := range gv.Rows {
		g, v := gv.Row(i), value.Row(i)
		for f := range m {
			g[f] = sign * (g[f]*v[m+f] - g[m+f]*v[f])
		}
	}
}
