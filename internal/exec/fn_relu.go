package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// ReLU: exp(Row)·max(0, t + Bias) + Eps (docs/theory.md §2.17). Eps is added after exp(Row) is multiplied, so the row
// term is not a factor of the features: it is applied to them directly and the row scale is 1.

func reluFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logReLU, flat: true}
}

func (l *leaf[T]) logReLU(s *Side[T], _, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	l.re.project(s, value, x, sc)
	for i := range x.Rows {
		c := T(math.Exp(l.rowAt(s, x, i, sc)))
		v := value.Row(i)
		for f, t := range v {
			v[f] = c*max(0, t) + T(l.Eps)
		}
		row[i] = 0
	}
}

// vjpReLU takes the derivative at t = 0 as 0. It recomputes t, because log did not keep the sign of a clipped feature.
func vjpReLU[T dense.Float](l *leaf[T], b *Backward[T], g *leafGrad[T], dx, gv, _, _, x dense.Matrix[T],
	sc *scratch[T]) {
	s, v := b.side, &sc.vjp
	m := l.re.rows
	t := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
	l.re.project(s, t, x, sc)
	sums := v.sums[:x.Rows]
	for i := range x.Rows {
		c := T(math.Exp(l.rowAt(s, x, i, sc)))
		gi := gv.Row(i)
		var sum T
		for f, a := range t.Row(i) {
			if a <= 0 {
				gi[f] = 0
				continue
			}
			gi[f] *= c
			sum += gi[f] * a
		}
		sums[i] = sum
	}
	g.row.add(dx, sums, x, v.tmp, s.tab)
	b.project(dx, gv, &g.re, sc)
}
