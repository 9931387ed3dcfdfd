package plan

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// Eval returns the features of one row by plain loops in float64. It defines the meaning of a plan: a backend is
// correct if it agrees with Eval up to rounding. Eval need not be fast, and must stay simple enough to be checked by
// reading.
func (s Side) Eval(x []float64) []float64 {
	value, e := s.EvalLog(x)
	for f, v := range value {
		if v != 0 { // 0·exp(+Inf) would be NaN
			value[f] = v * math.Exp(e[f])
		}
	}
	return value
}

// EvalLog is Eval with feature f as value[f]·exp(e[f]), which does not overflow where the feature does. A feature of a
// block that its gate turns off is 0·exp(−Inf).
func (s Side) EvalLog(x []float64) (value, e []float64) {
	gate := s.gate(x)
	outer := s.Outer.at(x)
	n := s.OutDim(len(x))
	value, e = make([]float64, 0, n), make([]float64, 0, n)
	for _, b := range s.Blocks {
		rho, rhoE := []float64{1}, []float64{0}
		if b.Rho != None {
			rho, rhoE = s.Leaves[b.Rho].eval(x)
		}
		base, baseE := s.Leaves[b.Base].eval(x)
		for p := range rho {
			for k := range base {
				v, l := b.Coef*rho[p]*base[k], rhoE[p]+baseE[k]+outer
				if b.Gate != None && b.Gate != gate {
					v, l = 0, math.Inf(-1)
				}
				value, e = append(value, v), append(e, l)
			}
		}
	}
	return value, e
}

// gate is the index of the centre nearest to CentreLin·x, the first of equally near ones; None if there are no centres.
func (s Side) gate(x []float64) int {
	at, best := None, math.Inf(1)
	u := s.CentreLin.orIdentity(x)
	for c := range s.Centres.Rows {
		var d float64
		for l, v := range s.Centres.Row(c) {
			d += (u[l] - v) * (u[l] - v)
		}
		if d < best {
			at, best = c, d
		}
	}
	return at
}

// point is the input of a function for one row: u, and for every projection t = Ω·Mix·u, its bias and its phase θ.
type point struct {
	*Leaf
	u, t, bias, theta []float64
	row               float64 // Row(u)
}

// eval returns the features of one leaf as value·exp(e).
func (l *Leaf) eval(x []float64) (value, e []float64) {
	u := l.Lin.orIdentity(x)
	for i, c := range l.Shift {
		u[i] -= c
	}
	for i, v := range u {
		if l.Floor > 0 {
			u[i] = max(v, l.Floor)
		}
	}
	p := point{Leaf: l, u: u, t: l.project(l.Mix, u), theta: l.project(l.MixIm, u), bias: l.Bias, row: l.Row.at(u)}
	if p.bias == nil {
		p.bias = make([]float64, len(p.t))
	}
	phase := l.RowIm.at(u)
	for f := range p.theta {
		p.theta[f] += phase
		if l.BiasIm != nil {
			p.theta[f] += l.BiasIm[f]
		}
	}
	n := l.Features(len(x))
	value, e = make([]float64, 0, n), make([]float64, 0, n)
	table[l.Fn].eval(&p, func(v, exponent float64) { value, e = append(value, v), append(e, exponent) })
	return value, e
}

func evalExp(p *point, add adder) {
	for f, t := range p.t {
		add(1, t+p.bias[f]+p.row)
	}
}

func evalExpPM(p *point, add adder) {
	evalExp(p, add)
	for f, t := range p.t {
		add(1, -t+p.bias[f]+p.row)
	}
}

func evalSinCos(p *point, add adder) {
	for f, t := range p.t {
		add(math.Sin(p.theta[f]), t+p.bias[f]+p.row)
	}
	for f, t := range p.t {
		add(math.Cos(p.theta[f]), t+p.bias[f]+p.row)
	}
}

func evalComplex(p *point, add adder) {
	for f, t := range p.t {
		add(math.Cos(p.theta[f]), t+p.bias[f]+p.row)
	}
	for f, t := range p.t {
		v := math.Sin(p.theta[f])
		if p.Conj {
			v = -v
		}
		add(v, t+p.bias[f]+p.row)
	}
}

func evalSign(p *point, add adder) {
	for f, t := range p.t {
		sign := 1.0
		if t+p.bias[f] < 0 {
			sign = -1
		}
		add(sign, p.row)
	}
}

func evalReLU(p *point, add adder) {
	for f, t := range p.t {
		add(math.Exp(p.row)*max(0, t+p.bias[f])+p.Eps, 0)
	}
}

func evalELU(p *point, add adder) {
	for _, v := range p.u {
		if v > 0 {
			add(v+1, 0)
		} else {
			add(1, v)
		}
	}
}

// evalResidual switches at a = 1 as the backends do: above, e^a is taken out as the exponent, so that it cannot
// overflow.
func evalResidual(p *point, add adder) {
	add(1, 0)
	for _, v := range p.u {
		add(v, 0)
	}
	for f, t := range p.t {
		if a := t + p.row; a < 1 {
			add(math.Expm1(a)-t, p.bias[f])
		} else { // the same, with its exponential taken out
			add(1-(1+t)*math.Exp(-a), a+p.bias[f])
		}
	}
}

func evalMonomial(p *point, add adder) {
	for f := range p.t {
		v, exponent := 1.0, p.bias[f]+p.row
		for k, w := range p.Omega.Rows.Row(f) {
			if w == 0 {
				continue // 0⁰ = 1
			}
			if p.u[k] == 0 {
				v = 0
				continue
			}
			if p.u[k] < 0 && math.Mod(w, 2) != 0 {
				v = -v
			}
			exponent += w * math.Log(math.Abs(p.u[k]))
		}
		add(v, exponent)
	}
}

// evalColumns: features that White mixes are sums over landmarks, so they share the exponent of the largest one.
func evalColumns(p *point, add adder) {
	m := p.Omega.Rows.Rows
	value, e, top := make([]float64, m), make([]float64, m), math.Inf(-1)
	for f := range m {
		value[f], e[f] = p.Kernel.Factors(p.u, p.Omega.Rows.Row(f))
		top = max(top, e[f])
	}
	if p.White.IsEmpty() {
		for f, v := range value {
			add(v, e[f])
		}
		return
	}
	for g := range p.White.Cols {
		var sum float64
		for f, v := range value {
			sum += v * math.Exp(e[f]-top) * p.White.At(f, g)
		}
		add(sum, top)
	}
}

// project is Ω·mix·u, or zeros if mix is absent.
func (l *Leaf) project(mix Linear, u []float64) []float64 {
	t := make([]float64, l.Omega.Rows.Rows)
	if mix.IsZero() {
		return t
	}
	v := make([]float64, l.Omega.Rows.Cols)
	mix.Apply(v, u)
	for f := range t {
		t[f] = dense.Dot(l.Omega.Rows.Row(f), v)
	}
	return t
}

// orIdentity is l·x in new memory, or a copy of x if l is absent.
func (l Linear) orIdentity(x []float64) []float64 {
	if l.IsZero() {
		return append([]float64(nil), x...)
	}
	n := len(x)
	if !l.Dense.IsEmpty() {
		n = l.Dense.Rows
	}
	u := make([]float64, n)
	l.Apply(u, x)
	return u
}

// at is the value of q at u.
func (q Quadratic) at(u []float64) float64 {
	s := q.Const
	for i, c := range q.Lin {
		s += c * u[i]
	}
	if !q.Quad.IsZero() {
		qu := make([]float64, len(u))
		q.Quad.Apply(qu, u)
		s += dense.Dot(u, qu)
	}
	return s
}
