package rfx

import (
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas

	"github.com/randfeat/randfeat/internal/plan"
)

// point holds the arguments of a function for all rows. Absent terms, which are zero, are nil.
type point struct {
	u, t, theta *Node        // [batch, heads, length, ·]
	bias        *Node        // [1, heads or 1, 1, m]
	row         *Node        // [batch, heads, length, 1]
	omega       func() *Node // [heads or 1, m, inner]
	zeros       func() *Node // [batch, heads, length, m]
	project     func(u, w *Node) *Node
	conj        bool
	eps         float64
}

// functions are the graphs of the functions that plan.Side.Eval defines. Landmarks (plan.Columns) have none: NewMap
// refuses them.
var functions = [plan.Fns]func(p *point) Features{
	plan.Exp:      func(p *point) Features { return Features{Log: p.exponent(p.t)} },
	plan.ExpPM:    expPM,
	plan.SinCos:   sinCos,
	plan.Complex:  complexExp,
	plan.Sign:     sign,
	plan.ReLU:     relu,
	plan.ELU:      elu,
	plan.Residual: residual,
	plan.Monomial: monomial,
}

// rowInLog marks the functions in which the row is a term of every exponent and appears nowhere else. Only then it
// can be left out of the features of queries.
var rowInLog = [plan.Fns]bool{plan.Exp: true, plan.ExpPM: true, plan.SinCos: true, plan.Complex: true, plan.Sign: true,
	plan.Monomial: true}

// exponent returns t + bias + row for all projections.
func (p *point) exponent(t *Node) *Node { return p.full(sum(t, p.bias, p.row)) }

// full broadcasts n to all rows and projections. Nil means zeros.
func (p *point) full(n *Node) *Node {
	z := p.zeros()
	if n == nil {
		return z
	}
	return Add(n, z)
}

// twice returns features with two values per projection and the same exponent.
func twice(values []*Node, log *Node) Features {
	return Features{Value: Concatenate(values, -1), Log: Concatenate([]*Node{log, log}, -1)}
}

func expPM(p *point) Features {
	t := p.full(p.t)
	return Features{Log: Concatenate([]*Node{p.exponent(t), p.exponent(Neg(t))}, -1)}
}

func sinCos(p *point) Features {
	theta := p.full(p.theta)
	return twice([]*Node{Sin(theta), Cos(theta)}, p.exponent(p.t))
}

func complexExp(p *point) Features {
	theta := p.full(p.theta)
	im := Sin(theta)
	if p.conj {
		im = Neg(im)
	}
	return twice([]*Node{Cos(theta), im}, p.exponent(p.t))
}

func sign(p *point) Features {
	return Features{Value: SignPlusOrMinus(StopGradient(p.full(sum(p.t, p.bias)))), Log: p.full(p.row)}
}

func relu(p *point) Features {
	v := MaxScalar(p.full(sum(p.t, p.bias)), 0.0)
	if p.row != nil {
		v = Mul(v, Exp(p.row))
	}
	return Features{Value: AddScalar(v, p.eps), Log: ZerosLike(v)}
}

func elu(p *point) Features {
	return Features{Value: OnePlus(MaxScalar(p.u, 0.0)), Log: MinScalar(p.u, 0.0)}
}

// residual is 1, u, exp(bias)·(expm1(a) − t) with a = t + row. For large a the exponential moves into the exponent.
// expm1(a) is 2τ/(1−τ) with τ = tanh(a/2), which is accurate near zero and has a gradient.
func residual(p *point) Features {
	t := p.full(p.t)
	a := p.full(sum(p.t, p.row))
	small := LessThan(a, OnesLike(a))
	low := MinScalar(a, 1.0)
	tau := Tanh(MulScalar(low, 0.5))
	high := MaxScalar(a, 1.0)
	value := Where(small, Sub(Div(MulScalar(tau, 2), OneMinus(tau)), t), OneMinus(Mul(OnePlus(t), Exp(Neg(high)))))
	log := Where(small, ZerosLike(a), a)
	if p.bias != nil {
		log = Add(log, p.bias)
	}
	one := OnesLike(SliceAxis(p.u, -1, AxisElem(0)))
	return Features{
		Value: Concatenate([]*Node{one, p.u, value}, -1),
		Log:   Concatenate([]*Node{ZerosLike(one), ZerosLike(p.u), log}, -1),
	}
}

// monomial is exp(bias + row)·∏ u_l^{Ω_fl}. Logarithms of the moduli go into the exponent. The sign is the parity of
// negative factors, and the value is zero if a factor is.
func monomial(p *point) Features {
	omega := p.omega()
	zero := Equal(p.u, ZerosLike(p.u))
	log := Log(Where(zero, OnesLike(p.u), Abs(p.u)))
	dtype := p.u.DType()
	count := func(is, weights *Node) *Node { return StopGradient(p.project(ConvertDType(is, dtype), weights)) }
	odd := ModScalar(count(IsNegative(p.u), ModScalar(omega, 2)), 2)
	hits := count(zero, ConvertDType(IsPositive(omega), dtype))
	value := Mul(OneMinus(MulScalar(odd, 2)), ConvertDType(IsZero(hits), dtype))
	return Features{Value: value, Log: p.exponent(p.project(log, omega))}
}
