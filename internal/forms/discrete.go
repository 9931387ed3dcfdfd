package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogRVPoisson returns the log relative variance of one Poisson(λ) projection,
//
//	rv = exp( λd + S/λ − 2xy ) − 1,  S = Σ_l x_l² y_l².
//
// CRT Thm 3.4. The best λ is √(S/d). At λ = 0 the limit is taken: 0 if S = 0 (the
// estimate is exact), infinite otherwise. For Poisson+ pass the shifted x and y.
func LogRVPoisson(d int, lambda, s, xy float64) float64 {
	if d < 1 || !(lambda >= 0) || !(s >= 0) {
		return math.NaN()
	}
	if lambda == 0 {
		if s == 0 {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}
	return logRVExponent(lambda*float64(d)+s/lambda, 2*xy)
}

// LogRVGeometric returns the log relative variance of one geometric projection
// with success probability p in (0, 1) and t_l = |x_l y_l|,
//
//	rv = exp( −d log p + Σ_l log I0(2 t_l/√(1−p)) − 2xy ) − 1.
//
// CRT Thm 3.5. For Geometric+ pass the shifted x and y.
func LogRVGeometric(p float64, t []float64, xy float64) float64 {
	if !(p > 0 && p < 1) {
		return math.NaN()
	}
	sum := -float64(len(t)) * math.Log(p)
	for _, tl := range t {
		if !(tl >= 0) {
			return math.NaN()
		}
		sum += special.LogI0(2 * tl / math.Sqrt(1-p))
	}
	return logRVExponent(sum, 2*xy)
}

// logRVExponent is log(e^{second − kernel} − 1). The difference is never negative
// for the moments of one pair; rounding may make it so when it is 0, and more than
// rounding means that the arguments belong to no pair.
func logRVExponent(second, kernel float64) float64 {
	diff := second - kernel
	if diff < 0 && -diff <= 1e-12*(math.Abs(second)+math.Abs(kernel)) {
		diff = 0
	}
	return special.LogExpm1(diff)
}
