package plan

import "fmt"

// Fn is the function that a leaf applies to its projections.
type Fn int

// Let t = Ω·Mix·u, e = t + Bias + Row(u) and θ = Ω·MixIm·u + BiasIm + RowIm(u), each with one element per projection. A
// leaf with m projections gives, in this order:
const (
	Exp      Fn = iota // exp(e); m features
	ExpPM              // exp(+t + Bias + Row) then exp(−t + Bias + Row); 2m features
	SinCos             // exp(e)·sin θ then exp(e)·cos θ; 2m
	Complex            // exp(e)·cos θ then ±exp(e)·sin θ (minus where Conj); 2m
	Sign               // exp(Row)·sgn(t + Bias), sgn 0 = 1; m
	ReLU               // exp(Row)·max(0, t + Bias) + Eps; m
	ELU                // elu(u)+1; as many as u has coordinates, no projection
	Residual           // 1, u, exp(Bias)·(exp(t + Row) − 1 − t); 1 + dim u + m
	Monomial           // exp(Bias + Row)·∏_l u_l^{Ω_fl}, 0⁰ = 1; m
	Columns            // κ(u, ω_f) of Kernel; m. With White, the row of them times White; one per column of White
	Fns                // the number of functions
)

// facts are the properties of a function that every implementation shares: the interpreter and every backend read this
// one copy.
type facts struct {
	name string
	// features is the number of features for m projections and an input u of inner coordinates.
	features func(m, inner int) int
	// positive reports whether no feature of the leaf can be negative, whatever the input.
	positive func(l *Leaf) bool
	// eval defines the function: it adds the features of one row in their order.
	eval func(p *point, add adder)
}

// adder receives one feature as value·exp(exponent).
type adder func(value, exponent float64)

// table has one entry per function; a test checks that none is missing.
var table = [Fns]facts{
	Exp:      {"exp", single, always, evalExp},
	ExpPM:    {"exp±", double, always, evalExpPM},
	SinCos:   {"sincos", double, never, evalSinCos},
	Complex:  {"complex", double, never, evalComplex},
	Sign:     {"sign", single, never, evalSign},
	ReLU:     {"relu", single, func(l *Leaf) bool { return l.Eps >= 0 }, evalReLU},
	ELU:      {"elu", func(_, inner int) int { return inner }, always, evalELU},
	Residual: {"residual", func(m, inner int) int { return 1 + inner + m }, never, evalResidual},
	// A floor above 0 keeps every factor of the product positive.
	Monomial: {"monomial", single, func(l *Leaf) bool { return l.Floor > 0 }, evalMonomial},
	Columns:  {"columns", single, func(l *Leaf) bool { return l.White.IsEmpty() }, evalColumns},
}

func single(m, _ int) int { return m }
func double(m, _ int) int { return 2 * m }
func always(*Leaf) bool   { return true }
func never(*Leaf) bool    { return false }

func (f Fn) String() string {
	if f < 0 || f >= Fns {
		return fmt.Sprintf("Fn(%d)", int(f))
	}
	return table[f].name
}
