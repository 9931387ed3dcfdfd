package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// Monomial: exp(Bias + Row)·∏_l u_l^{ω_l}, with 0⁰ = 1 (CRT 3.2, docs/theory.md §2.6), computed as sign and logarithm.
// The exponent is a sum of many logarithms with weights up to dozens, so it is computed in float64 in every map.

func monomialFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logMonomial, prepare: (*leaf[T]).prepareMonomial,
		explicit: true}
}

// prepareMonomial packs Ω, because log|∏ u^ω| = Ω·log|u| is a matrix product.
func (l *leaf[T]) prepareMonomial() { kern.Best[float64]().Pack(&l.powers, l.Omega.Rows) }

// logMonomial writes as e the log modulus relative to the largest of the row, and as value the sign. A feature that is
// zero has value 0 and, as e, the exponent of its other factors: vjpMonomial needs it. Zero coordinates enter with
// log|u| = 0 for that reason.
func (l *leaf[T]) logMonomial(_ *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	tab := kern.Best[float64]()
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		logs := sc.logs[:len(u)]
		for k, v := range u {
			logs[k] = 0
			if v != 0 {
				logs[k] = math.Log(math.Abs(v))
			}
		}
		powers := sc.powers[:l.Omega.Rows.Rows]
		tab.MulT(oneRow(powers), oneRow(logs), &l.powers, l.Bias)
		top := tab.Max(powers)
		row[i] = top + quadAt(&l.Row, u, tab.Norm2(u))
		le, v := e.Row(i), value.Row(i)
		neg, zero := split(u, sc.at)
		for f, a := range powers {
			le[f] = T(a - top)
			sign, zeros := l.signAt(f, neg, zero)
			if zeros > 0 {
				sign = 0
			}
			v[f] = T(sign)
		}
	}
}

func oneRow(v []float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
}

// split lists the negative coordinates of u at the front of at and the zero ones at its end. They alone decide the sign
// of every monomial, so signAt need not look at the others.
func split(u []float64, at []int) (neg, zero []int) {
	n, z := 0, len(at)
	for k, v := range u {
		switch {
		case v < 0:
			at[n] = k
			n++
		case v == 0:
			z--
			at[z] = k
		}
	}
	return at[:n], at[z:]
}

// signAt returns the sign of monomial f without its zero factors, and the total power of these factors.
func (l *leaf[T]) signAt(f int, neg, zero []int) (sign, zeros float64) {
	omega := l.Omega.Rows.Row(f)
	var power float64
	for _, k := range neg {
		power += omega[k]
	}
	for _, k := range zero {
		zeros += omega[k]
	}
	if int64(power)&1 == 1 {
		return -1, zeros
	}
	return 1, zeros
}

// vjpMonomial: ∂/∂u_l of ∏ u^ω is ω_l/u_l times the product. Where u_l = 0 the derivative is not 0 only for ω_l = 1 and
// no other zero factor. It is then the product of the other factors, whose exponent logMonomial kept and gv includes.
func vjpMonomial[T dense.Float](l *leaf[T], _ *Backward[T], _ *leafGrad[T], dx, gv, ge, _, x dense.Matrix[T],
	sc *scratch[T]) {
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		clear(du)
		neg, zero := split(u, sc.at)
		var sum float64
		for f := range l.Omega.Rows.Rows {
			e := float64(ge.At(i, f))
			sum += e
			sign, zeros := l.signAt(f, neg, zero)
			for k, w := range l.Omega.Rows.Row(f) {
				switch {
				case w == 0:
				case u[k] != 0:
					du[k] += e * w / u[k]
				case w == 1 && zeros == 1:
					du[k] += float64(gv.At(i, f)) * sign
				}
			}
		}
		quadBack(&l.Row, du, sum, u, sc.vjp.acc[:len(u)])
		l.backInput(dx.Row(i), du, u)
	}
}
