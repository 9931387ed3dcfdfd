package special

import "math"

// LogHyp1F1 returns log 1F1(a;b;t) = log Σ_k (a)_k t^k/((b)_k k!) for a ≥ 0, b > 0,
// t ≥ 0, where every term is positive.
func LogHyp1F1(a, b, t float64) float64 {
	switch {
	case !(a >= 0) || !(b > 0) || !(t >= 0):
		return math.NaN()
	case a == 0 || t == 0:
		return 0
	case math.IsInf(t, 1):
		return t
	}
	if c := a * math.Abs(b-a); t > 1e9 && t > 20*(1+c) {
		return logHyp1F1Large(a, b, t)
	}
	// The biggest term solves t(k+a) = (k+b)(k+1).
	p := t - b - 1
	mode := math.Max(0, (p+math.Sqrt(math.Max(0, p*p+4*(t*a-b))))/2)
	return logSeries(
		func(k float64) float64 { return t / (k + 1) * ((k + a) / (k + b)) },
		mode,
		func(k float64) float64 {
			return k*math.Log(t) - lgamma(k+1) + logPochhammer(a, k) - logPochhammer(b, k)
		},
	)
}

// logHyp1F1Large is the expansion Γ(b)/Γ(a) e^t t^{a−b} Σ_n (1−a)_n (b−a)_n/(n! t^n)
// for t ≫ a|b−a| (DLMF 13.7.1).
func logHyp1F1Large(a, b, t float64) float64 {
	term, rest := 1.0, 0.0
	for n := 0.0; n < 40; n++ {
		term *= (1 - a + n) * (b - a + n) / ((n + 1) * t)
		rest += term
		if math.Abs(term) < tailEps {
			break
		}
	}
	return t + (a-b)*math.Log(t) + lgamma(b) - lgamma(a) + math.Log1p(rest)
}

// LogKummerPos returns log 1F1(d; d/2; t), t ≥ 0: the conformity of orthogonal
// pairs (SimRF Thm 4.3) at t = v²/2.
func LogKummerPos(d int, t float64) float64 {
	return LogHyp1F1(float64(d), float64(d)/2, t)
}

// Hyp1F1Neg returns 1F1(a;b;−t) for 0 ≤ a ≤ b and t ≥ 0, where Kummer's
// transformation e^{−t} 1F1(b−a;b;t) has only positive terms.
func Hyp1F1Neg(a, b, t float64) float64 {
	if !(a >= 0) || !(a <= b) {
		return math.NaN()
	}
	return math.Exp(LogHyp1F1(b-a, b, t) - t)
}
