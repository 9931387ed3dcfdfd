package plan

import "fmt"

// Fn is the function a leaf applies to its projections.
type Fn int

// With t = Ω Mix u, e = t + Bias + Row(u) and θ = Ω MixIm u + BiasIm + RowIm(u), a leaf with m projections gives what
// Side.Eval says:
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
	Columns            // κ(u, ω_f) of Kernel; m. With White, these times White; as many as it has columns
	Fns                // the number of functions
)

// facts is what is true of a function whoever runs it: the interpreter and every backend read this one copy.
type facts struct {
	name string
	// features is the number of features of m projections of an input u with inner coordinates.
	features func(m, inner int) int
	// positive reports whether no feature of the leaf is negative, whatever the input.
	positive func(l *Leaf) bool
	// eval adds the features of one row in their order: the definition of the function.
	eval func(p *point, add adder)
}

// adder takes a feature as value·exp(exponent).
type adder func(value, exponent float64)

var table = [Fns]facts{
	Exp:      {"exp", single, always, evalExp},
	ExpPM:    {"exp±", double, always, evalExpPM},
	SinCos:   {"sincos", double, never, evalSinCos},
	Complex:  {"complex", double, never, evalComplex},
	Sign:     {"sign", single, never, evalSign},
	ReLU:     {"relu", single, func(l *Leaf) bool { return l.Eps >= 0 }, evalReLU},
	ELU:      {"elu", func(_, inner int) int { return inner }, always, evalELU},
	Residual: {"residual", func(m, inner int) int { return 1 + inner + m }, never, evalResidual},
	// A product of powers is a product of positive numbers only if the floor keeps them so.
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
