package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// ELU: elu(u) + 1, that is u + 1 above 0 and e^u below (docs/theory.md §2.17). It has no projection: one feature per
// coordinate of u.

func eluFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logELU, flat: true, explicit: true}
}

func (l *leaf[T]) logELU(_ *Side[T], _, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	for i := range x.Rows {
		v := value.Row(i)
		for k, u := range l.input(x.Row(i), sc) {
			if u > 0 {
				v[k] = T(u + 1)
			} else {
				v[k] = T(math.Exp(u))
			}
		}
		row[i] = 0
	}
}

func vjpELU[T dense.Float](l *leaf[T], _ *Backward[T], _ *leafGrad[T], dx, gv, _, value, x dense.Matrix[T],
	sc *scratch[T]) {
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		for k, c := range u {
			du[k] = float64(gv.At(i, k))
			if c <= 0 {
				du[k] *= float64(value.At(i, k)) // e^u
			}
		}
		l.backInput(dx.Row(i), du, u)
	}
}
