package special

import "math"

// Hyp0F1Log returns log 0F1(;b;t) = log Σ_k t^k/(k! (b)_k) for b > 0, t ≥ 0. With
// b = d/2 and t = |v|²|w|²/4 it is the positive-feature analogue of the Bessel
// kernel (docs/theory.md §1.2, 4.9).
func Hyp0F1Log(b, t float64) float64 {
	switch {
	case !(b > 0) || !(t >= 0):
		return math.NaN()
	case math.IsInf(t, 1):
		return t
	}
	x, nu := 2*math.Sqrt(t), b-1
	if x > 1e4 && 4*nu*nu < x {
		return lgamma(b) - nu*math.Log(x/2) + logBesselILarge(nu, x)
	}
	// The biggest term solves k(k+b) = t.
	mode := 2 * t / (b + math.Sqrt(b*b+4*t))
	return logSeries(
		func(k float64) float64 { return t / ((k + 1) * (k + b)) },
		mode,
		func(k float64) float64 { return k*math.Log(t) - lgamma(k+1) - logPochhammer(b, k) },
	)
}

// logBesselILarge is log I_ν(x) for x ≫ ν², by Hankel's expansion
// e^x/√(2πx) Σ_k (−1)^k Π_{j≤k} (4ν² − (2j−1)²)/(8xj).
func logBesselILarge(nu, x float64) float64 {
	term, rest := 1.0, 0.0
	for k := 1.0; k < 20; k++ {
		term *= -(4*nu*nu - (2*k-1)*(2*k-1)) / (8 * x * k)
		rest += term
		if math.Abs(term) < tailEps {
			break
		}
	}
	return x - math.Log(2*math.Pi*x)/2 + math.Log1p(rest)
}
