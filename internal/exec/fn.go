package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

// fn is how this package runs one plan function. Each file fn_*.go holds the tables of one function, or of two that
// differ by an order or a sign. What holds for a function in every implementation is documented in package plan.
//
// The functions of a table see a block of rows x of a side s, whose norms and full quadratics are in sc.
type fn[T dense.Float] struct {
	// log writes the features as value·exp(e + row). The part that a row's exponents have in common goes to row, in
	// float64: it may be −10⁴, where a float32 exponent would keep only two digits after the point. A unit function
	// does not write value, a flat one does not write e; both may then be empty.
	log func(l *leaf[T], s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T])
	// run writes the features of leaf.run, where a fused kernel does it faster than log and an exponential; nil:
	// through log.
	run func(l *leaf[T], s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T],
		plain bool, outer []float64)
	// vjp adds to dx the contribution of the cotangents gv of value and ge of e; ge includes the cotangent of the row
	// term. value is what log wrote; gv and ge may be overwritten.
	vjp func(l *leaf[T], b *Backward[T], g *leafGrad[T], dx, gv, ge, value, x dense.Matrix[T], sc *scratch[T])
	// prepare, if not nil, completes a leaf that is otherwise compiled.
	prepare func(l *leaf[T])

	unit bool // features are exponentials: value is 1
	flat bool // features have no exponent of their own: e is 0
	// explicit functions work on u itself, in float64, and their row term remains one of u.
	explicit bool
	// rowFactor says that exp(Row) is a factor of every feature, so that the outer term of a side can join it.
	rowFactor bool
	// biasApart says that Bias is not added to the projections as they come: the function needs t without it.
	biasApart bool
}

// functions is the table of all plan functions. A function without an entry fails a test.
func functions[T dense.Float]() *[plan.Fns]fn[T] {
	return &[plan.Fns]fn[T]{
		plan.Exp:      expFn[T](),
		plan.ExpPM:    expPMFn[T](),
		plan.SinCos:   trigFn[T](),
		plan.Complex:  trigFn[T](),
		plan.Sign:     signFn[T](),
		plan.ReLU:     reluFn[T](),
		plan.ELU:      eluFn[T](),
		plan.Residual: residualFn[T](),
		plan.Monomial: monomialFn[T](),
		plan.Columns:  columnsFn[T](),
	}
}

// run writes the features of all rows of x, divided by exp(scale[i]), and the scales. outer[i] is a log factor of row
// i. With plain the features are written themselves, undivided, and the scales are of no use.
func (l *leaf[T]) run(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T],
	plain bool, outer []float64) {
	if l.fn.run != nil {
		l.fn.run(l, s, dst, scale, x, sc, plain, outer)
		return
	}
	if l.fn.flat {
		l.fn.log(l, s, dense.Matrix[T]{}, dst, scale, x, sc)
	} else {
		e := dense.Matrix[T]{Rows: x.Rows, Cols: l.width, Stride: l.width, Data: sc.exponents}
		l.fn.log(l, s, e, dst, scale, x, sc)
		for i := range x.Rows {
			ei, v := e.Row(i), dst.Row(i)
			for f, c := range v {
				if c == 0 { // its exponent is that of other factors, and must not decide the scale
					ei[f] = T(math.Inf(-1))
				}
			}
			scale[i] += exponentiate(s, ei)
			s.tab.Mul(v, ei)
		}
	}
	s.settle(dst, scale, plain, outer)
}

// settle ends a run: the outer terms join the scales, and plain features are multiplied by them.
func (s *Side[T]) settle(dst dense.Matrix[T], scale []float64, plain bool, outer []float64) {
	for i, o := range outer {
		scale[i] += o
		if plain && scale[i] != 0 {
			s.tab.Scale(dst.Row(i), T(math.Exp(scale[i])))
		}
	}
}

// log writes the features of a leaf as value·exp(e + row); an empty value is allowed for unit functions.
func (l *leaf[T]) log(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	l.fn.log(l, s, e, value, row, x, sc)
	switch {
	case l.fn.unit:
		for i := range value.Rows {
			fill(value.Row(i), 1)
		}
	case l.fn.flat:
		zero(e)
	}
}

// exponentiate replaces exponents by exp(e − max) and returns max.
func exponentiate[T dense.Float](s *Side[T], e []T) float64 {
	m := finiteMax(s.tab.Max(e))
	s.tab.Exp(e, m)
	return float64(m)
}

// finiteMax makes a row of −Inf one of zeros with maximum 0.
func finiteMax[T dense.Float](m T) T {
	if math.IsInf(float64(m), -1) {
		return 0
	}
	return m
}

// input writes u = max(Lin·x − Shift, Floor) in float64.
func (l *leaf[T]) input(x []T, sc *scratch[T]) []float64 {
	for i, v := range x {
		sc.x[i] = float64(v)
	}
	u := sc.u[:l.inner]
	l.Lin.Apply(u, sc.x)
	for i, c := range l.Shift {
		u[i] -= c
	}
	if l.Floor > 0 {
		for i, v := range u {
			u[i] = max(v, l.Floor)
		}
	}
	return u
}

// backInput adds Linᵀ·du to a row of dx. A coordinate at its floor does not move.
func (l *leaf[T]) backInput(dx []T, du, u []float64) {
	if l.Floor > 0 {
		for k, v := range u {
			if v <= l.Floor {
				du[k] = 0
			}
		}
	}
	switch {
	case !l.Lin.Dense.IsEmpty():
		for k, g := range du {
			for c, w := range l.Lin.Dense.Row(k) {
				dx[c] += T(g * w)
			}
		}
	case l.Lin.Diag != nil:
		for k, g := range du {
			dx[k] += T(g * l.Lin.Diag[k])
		}
	default:
		for k, g := range du {
			dx[k] += T(g * l.Lin.Gain)
		}
	}
}

func (l *leaf[T]) biasAt(f int) float64 {
	if l.Bias == nil {
		return 0
	}
	return l.Bias[f]
}

func addBias[T dense.Float](e, bias []T) {
	for f, b := range bias {
		e[f] += b
	}
}

func fill[T dense.Float](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}

func zero[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		clear(m.Row(i))
	}
}
