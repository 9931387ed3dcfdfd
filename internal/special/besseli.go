package special

import "math"

// LogI0 returns log I0(t), the modified Bessel function of order 0.
//
// t ≤ 20: the power series Σ (t/2)^{2k}/(k!)². Beyond: the asymptotic series
// t − ½ log 2πt + log Σ ((2k−1)!!)²/(k! (8t)^k), whose smallest term is about e^{−2t}.
func LogI0(t float64) float64 {
	t = math.Abs(t)
	if t <= 20 {
		q := t * t / 4
		return logSeriesForward(func(k float64) float64 { return q / ((k + 1) * (k + 1)) })
	}
	if math.IsInf(t, 1) {
		return t
	}
	term, rest := 1.0, 0.0
	for k := 1.0; k < 30; k++ {
		term *= (2*k - 1) * (2*k - 1) / (8 * t * k)
		rest += term
		if term < tailEps {
			break
		}
	}
	return t - math.Log(2*math.Pi*t)/2 + math.Log1p(rest)
}
