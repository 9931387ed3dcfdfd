package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Residual: 1, u, exp(Bias)·g with g = exp(a) − 1 − t and a = t + Row(u) (docs/theory.md §2.19). The constant and
// linear terms of a positive feature are exact; only the rest is random. g is computed in float64, because for small
// inputs it is a difference of nearly equal numbers: (expm1(a) − a) + Row(u).

func residualFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logResidual, explicit: true, biasApart: true}
}

// logResidual keeps the constant, the linear and the residual features at their own scales: e is the exponent of a
// residual feature if a ≥ 1 and Bias otherwise, and value is the remaining factor.
func (l *leaf[T]) logResidual(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	r := 1 + l.inner
	l.re.project(s, value.ColRange(r, value.Cols), x, sc)
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		quad := quadAt(&l.Row, u, dense.Norm2(u))
		row[i] = 0
		le, v := e.Row(i), value.Row(i)
		clear(le[:r])
		v[0] = 1
		for k, c := range u {
			v[1+k] = T(c)
		}
		for f, t := range v[r:] {
			a := float64(t) + quad
			if a < 1 {
				v[r+f] = T(expm1MinusArg(a) + quad)
				le[r+f] = T(l.biasAt(f))
			} else {
				v[r+f] = T(1 - (1+float64(t))*math.Exp(-a))
				le[r+f] = T(a + l.biasAt(f))
			}
		}
	}
}

// expm1MinusArg is e^t − 1 − t without cancellation near 0: the Taylor series for |t| ≤ 1/2, where expm1(t) − t would
// lose digits.
func expm1MinusArg(t float64) float64 {
	if math.Abs(t) > 0.5 {
		return math.Expm1(t) - t
	}
	term, sum := t*t/2, 0.0
	for k := 3; math.Abs(term) > 1e-18*math.Abs(sum); k++ {
		sum += term
		term *= t / float64(k)
	}
	return sum
}

// vjpResidual pulls cotangents back. gv is the cotangent of a feature times the exponential that logResidual took out.
//
//   - a < 1, only Bias taken out: the cotangents are (e^a − 1)·gv of t and e^a·gv of Row;
//   - a ≥ 1, e^a taken out as well: they are (1 − e^{−a})·gv of t and gv of Row.
func vjpResidual[T dense.Float](l *leaf[T], b *Backward[T], g *leafGrad[T], dx, gv, _, _, x dense.Matrix[T],
	sc *scratch[T]) {
	m, r := l.re.rows, 1+l.inner
	t := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
	l.re.project(b.side, t, x, sc)
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		row := quadAt(&l.Row, u, dense.Norm2(u))
		gi, ti := gv.Row(i), t.Row(i)
		for k := range du {
			du[k] = float64(gi[1+k])
		}
		var sum float64
		for f, tf := range ti {
			a, c := float64(tf)+row, float64(gi[r+f])
			if a < 1 {
				sum += c * math.Exp(a)
				// ti becomes the matrix of cotangents of t, which b.project reads below.
				ti[f] = T(c * math.Expm1(a))
			} else {
				sum += c
				ti[f] = T(-c * math.Expm1(-a))
			}
		}
		quadBack(&l.Row, du, sum, u, sc.vjp.acc[:len(u)])
		l.backInput(dx.Row(i), du, u)
	}
	b.project(dx, t, &g.re, sc)
}
