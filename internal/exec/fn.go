package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

// fn is the implementation of one plan function by this package. Each file fn_*.go holds the table of one function, or
// of two that differ by an order or a sign. Properties that hold for a function in every implementation are documented
// in package plan.
//
// The functions of a table receive a block of rows x of a side s. Before they are called, sc.norms holds |x_i|² of
// these rows and sc.quads their full quadratics (fillQuads).
type fn[T dense.Float] struct {
	// log writes the features as value·exp(e + row). The common part of a row's exponents goes to row, in float64: it
	// may be −10⁴, where a float32 exponent would keep only two digits after the point. A unit function does not write
	// value, a flat one does not write e; the caller may then pass an empty matrix.
	log func(l *leaf[T], s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T])
	// run writes features and scales as leaf.run documents. It is set where a fused kernel is faster than log followed
	// by an exponential; nil selects that general path.
	run func(l *leaf[T], s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T],
		plain bool, outer []float64)
	// prepare, if not nil, runs once at the end of compileLeaf and completes the leaf.
	prepare func(l *leaf[T])

	// unit: features are exponentials and value is 1 everywhere.
	unit bool
	// flat: features have no exponent of their own and e is 0 everywhere.
	flat bool
	// explicit functions need u itself, in float64 (leaf.input). Their row term stays a function of u and is not
	// composed with Lin and Shift.
	explicit bool
	// rowFactor: exp(Row) is a factor of every feature, so the outer term of a side can join it.
	rowFactor bool
	// biasApart: the function needs t without Bias, so Bias is kept in leaf.bias instead of re.bias.
	biasApart bool
}

// functions is the table of all plan functions. A test fails if a function has no entry.
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

// run writes the features of all rows of x divided by exp(scale[i]), and sets scale. outer[i] is a further log factor
// of row i, in the scale or, with plain, in the features. With plain the features are not divided by anything, and
// scale holds nothing of use afterwards.
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
				// A feature that is 0 keeps the exponent of its other factors. That exponent must not decide the scale
				// of the row, or the features that are not 0 could underflow.
				if c == 0 {
					ei[f] = T(math.Inf(-1))
				}
			}
			scale[i] += exponentiate(s, ei)
			s.tab.Mul(v, ei)
		}
	}
	s.settle(dst, scale, plain, outer)
}

// settle ends a run: it adds the outer terms to the scales and, with plain, multiplies the features by exp(scale).
func (s *Side[T]) settle(dst dense.Matrix[T], scale []float64, plain bool, outer []float64) {
	for i, o := range outer {
		scale[i] += o
		if plain && scale[i] != 0 {
			s.tab.Scale(dst.Row(i), T(math.Exp(scale[i])))
		}
	}
}

// log writes the features of a leaf as value·exp(e + row), and also writes the parts that unit and flat functions leave
// out. An empty value is allowed for unit functions.
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

// exponentiate replaces the exponents of a row by exp(e − max) and returns max. The largest feature becomes 1, so
// nothing overflows and at least one feature keeps full precision.
func exponentiate[T dense.Float](s *Side[T], e []T) float64 {
	m := finiteMax(s.tab.Max(e))
	s.tab.Exp(e, m)
	return float64(m)
}

// finiteMax replaces a maximum of −Inf, the maximum of a row of zeros, by 0. exp(−Inf − 0) is then 0, where exp(−Inf +
// Inf) would be NaN.
func finiteMax[T dense.Float](m T) T {
	if math.IsInf(float64(m), -1) {
		return 0
	}
	return m
}

// input returns u = max(Lin·x − Shift, Floor) in float64, in scratch that the next call overwrites.
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

// backInput adds Linᵀ·du to a row of dx. A coordinate at its floor is constant in x, so its cotangent is dropped. du is
// overwritten.
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

// biasAt is Bias[f] in float64, 0 if there is none.
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
