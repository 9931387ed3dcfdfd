package special

import "math"

const (
	// forwardLimit is the largest index of the biggest term that is still reached
	// by multiplying ratios from the first term. Beyond it the accumulated
	// rounding and the time argue for starting at the biggest term.
	forwardLimit = 5000
	rescale      = 1e280
	tailEps      = 1e-17
)

// logSeries returns log Σ_k T_k for a positive, unimodal series with T_0 = 1,
// ratio(k) = T_{k+1}/T_k and its biggest term near index mode; logTerm gives
// log T_k and is needed only for large modes.
func logSeries(ratio func(k float64) float64, mode float64, logTerm func(k float64) float64) float64 {
	if mode <= forwardLimit {
		return logSeriesForward(ratio)
	}
	return logSeriesFromMode(ratio, math.Floor(mode), logTerm)
}

// logSeriesForward sums from the first term and keeps 1 apart from the rest, so
// that a sum close to 1 has an accurate logarithm.
func logSeriesForward(ratio func(k float64) float64) float64 {
	term, rest, first, shift := 1.0, 0.0, 1.0, 0.0
	for k := 0.0; ; k++ {
		r := ratio(k)
		term *= r
		rest += term
		if rest > rescale {
			term, rest, first = term/rescale, rest/rescale, first/rescale
			shift++
		}
		if r < 1 && term <= tailEps*(1-r)*(rest+first) {
			break
		}
	}
	if shift == 0 {
		return math.Log1p(rest)
	}
	return math.Log(rest+first) + shift*math.Log(rescale)
}

// logSeriesFromMode sums outward from the biggest term, whose neighbours fall off
// like a Gaussian of width √mode.
func logSeriesFromMode(ratio func(k float64) float64, mode float64, logTerm func(k float64) float64) float64 {
	sum, term := 1.0, 1.0
	for k := mode; ; k++ {
		r := ratio(k)
		term *= r
		sum += term
		if r < 1 && term <= tailEps*(1-r)*sum {
			break
		}
	}
	term = 1
	for k := mode - 1; k >= 0; k-- {
		r := 1 / ratio(k)
		term *= r
		sum += term
		if r < 1 && term <= tailEps*(1-r)*sum {
			break
		}
	}
	return logTerm(mode) + math.Log(sum)
}

// logPochhammer returns log (a)_k = lgamma(a+k) − lgamma(a) for a > 0.
func logPochhammer(a, k float64) float64 { return lgamma(a+k) - lgamma(a) }

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
