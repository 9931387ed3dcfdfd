package forms

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/optimize"
)

// BestPoisson returns the optimal λ* = √(S/d) of Poisson features (CRT after eq 11).
func BestPoisson(d int, s float64) float64 { return math.Sqrt(s / float64(d)) }

// BestGERF returns the A and the sign s that minimise log R_s, and the minimum, for data of dimension d with the means
// vPlus of |x+y|² and vMinus of |x−y|².
//
// The search runs over (u, b) with A = (1−e^u)/8 + ib, which satisfies Re(1−8A) > 0 for every u without a constraint.
// The objective is even in b, so b = 0 is always stationary and a descent that starts there never leaves the real line:
// some of the starts have b > 0. The closed form of OPRF, the best real A with s = 1, competes too and wins ties.
func BestGERF(d int, vPlus, vMinus float64) (a complex128, s int, logR float64) {
	starts := [][2]float64{{0, 0}, {0.5, 0}, {0.5, 0.1}, {1.5, 0.5}, {-0.5, 0.1}}
	logR = math.Inf(1)
	for _, sign := range []int{+1, -1} {
		v := vPlus
		if sign < 0 {
			v = vMinus
		}
		at := func(p []float64) complex128 { return complex(-math.Expm1(p[0])/8, p[1]) }
		objective := func(p []float64) float64 { return LogSecondGERF(d, at(p), sign, v) }
		for _, start := range starts {
			p := minimise(objective, start[:])
			if r := objective(p); r < logR {
				a, s, logR = at(p), sign, r
			}
		}
		if sign > 0 { // OPRF is the real optimum in closed form
			if ao := complex(AStar(d, v), 0); LogSecondGERF(d, ao, 1, v) <= logR {
				a, s, logR = ao, 1, LogSecondGERF(d, ao, 1, v)
			}
		}
	}
	if imag(a) != 0 && math.Abs(imag(a)) < 1e-7*cmplx.Abs(a) {
		a = complex(real(a), 0) // rounding of a real optimum; a complex A would double the number of features
	}
	return a, s, logR
}

// minimise runs at most 50 iterations of L-BFGS with gradients by central differences. If the line search fails, it
// returns the best point so far: the caller compares the values of all starts anyway.
func minimise(f func([]float64) float64, start []float64) []float64 {
	const h = 1e-6
	problem := optimize.Problem{Func: f, Grad: func(grad, p []float64) {
		q := append([]float64(nil), p...)
		for i := range q {
			q[i] = p[i] + h
			up := f(q)
			q[i] = p[i] - h
			grad[i] = (up - f(q)) / (2 * h)
			q[i] = p[i]
		}
	}}
	r, err := optimize.Minimize(problem, start, &optimize.Settings{MajorIterations: 50}, &optimize.LBFGS{})
	if r == nil || err != nil && r.X == nil {
		return start
	}
	return r.X
}
