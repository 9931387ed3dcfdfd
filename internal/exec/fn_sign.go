package exec

import "github.com/randfeat/randfeat/dense"

// Sign: exp(Row)·sgn(t + Bias), the coefficients of angular hybrids (docs/theory.md §2.10). sgn 0 = 1, so that no
// feature vanishes.

func signFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logSign, flat: true, rowFactor: true}
}

func (l *leaf[T]) logSign(s *Side[T], _, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	l.re.project(s, value, x, sc)
	for i := range x.Rows {
		v := value.Row(i)
		for f, t := range v {
			v[f] = 1
			if t < 0 {
				v[f] = -1
			}
		}
	}
	s.terms(row[:x.Rows], &l.row, l.quad, x, sc)
}

// vjpSign: a sign is constant wherever it has a derivative, so only the row term contributes.
func vjpSign[T dense.Float](l *leaf[T], b *Backward[T], g *leafGrad[T], dx, _, ge, _, x dense.Matrix[T],
	sc *scratch[T]) {
	b.rowTerm(&g.row, dx, ge, x, sc)
}
