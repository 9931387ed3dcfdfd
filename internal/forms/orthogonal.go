package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// orthogonalPairs are two rows of independent norms at a right angle.
type orthogonalPairs struct{}

func (orthogonalPairs) kappa(shape Shape, d int, t float64) special.Signed {
	switch {
	case shape == Trigonometric && t <= seriesLimit:
		return special.SignedOf(pairSeries(d, t/2)).Scale(2 * math.Log(t/2))
	case shape == Trigonometric:
		return minusOne(special.KummerNegLog(d, t/2).Scale(t))
	}
	return special.Signed{Sign: -1, Log: LogGapPRFOrthogonal(d, t) - t}
}

func (orthogonalPairs) jointMSE(shape Shape, d, m int, t float64) (logMSE float64, ok bool) {
	if shape == Exponential || t > seriesLimit {
		return 0, false
	}
	return logCoshMSE(shape, d, m, t, 0), true
}

// seriesLimit is the largest t for the power series of kappa; beyond it the
// conformities themselves are far enough from e^{±t}.
const seriesLimit = 8

// minusOne subtracts 1 from a number given by sign and logarithm.
func minusOne(s special.Signed) special.Signed {
	switch {
	case s.Sign < 0:
		return special.Signed{Sign: -1, Log: special.LogSumExp(s.Log, 0)}
	case s.Log > 0:
		return special.Signed{Sign: 1, Log: special.LogExpm1(s.Log)}
	case s.Log < 0:
		return special.Signed{Sign: -1, Log: special.Log1mExp(s.Log)}
	}
	return special.Signed{Sign: 0, Log: math.Inf(-1)}
}

// pairTerms yields h_k = g_k u^{k−2}, k = 2, 3, …, of the expansion
//
//	e^{2u} 1F1(d; d/2; −u) = 1 + Σ_{k≥2} g_k u^k,
//	(k+1)(k+d/2) g_{k+1} = 3k g_k − 2 g_{k−1},  g_0 = 1, g_1 = 0,
//
// which follows from Kummer's equation, uG″ + (d/2 − 3u)G' + 2uG = 0 for the left
// side G. The constant and linear terms are gone, so kappa has no cancellation for
// small u. u = z²/2 is the trigonometric case and u = −v²/2 the exponential one.
func pairTerms(d int, u float64, yield func(k, h float64) bool) {
	b := float64(d) / 2
	prev, h := 0.0, -1/(1+b)
	for k := 2.0; yield(k, h); k++ {
		prev, h = h, (3*k*u*h-2*u*u*prev)/((k+1)*(k+b))
	}
}

// pairSeries returns Σ_{k≥2} g_k u^{k−2} = kappa/u² for orthogonal pairs.
func pairSeries(d int, u float64) float64 {
	sum, last := 0.0, math.Inf(1)
	pairTerms(d, u, func(k, h float64) bool {
		sum += h
		done := negligible(h, last, sum)
		last = h
		return !done && k < maxSeries
	})
	return sum
}

// maxSeries bounds the terms of a power series at |u| ≤ seriesLimit/2; about 60 are used.
const maxSeries = 200

// negligible tells whether two successive terms are below rounding; one alone may
// be near a sign change.
func negligible(term, last, sum float64) bool {
	return math.Abs(term)+math.Abs(last) <= 1e-18*math.Abs(sum)
}

// logCoshMSE is log( (cosh t − 1)/m + pf kappa ) for trigonometric (u = t/2) or
// hyperbolic (u = −t/2) features of orthogonal pairs and t ≤ seriesLimit, summed term by term:
//
//	Σ_{k≥2} ( [k even] 2^k/(k! m) + pf g_k ) u^k.
//
// With N = m·pf the k = 2 coefficient is ((d+2) − N)/(m (1+d/2)), as small as 3/(d+2)
// of its parts. excess is (kappa − kappa of orthogonal pairs)/u²:
// that of a simplex is positive at small t.
func logCoshMSE(shape Shape, d, m int, t, excess float64) float64 {
	u := t / 2
	if shape == Hyperbolic {
		u = -u
	}
	n, b := blockPairs(m, d), float64(d)/2
	sum, even, last := (2*(1+b)-n)/(1+b), 2.0, math.Inf(1) // m times the series over u²
	pairTerms(d, u, func(k, h float64) bool {
		if k == 2 {
			return true
		}
		term := n * h
		even *= 2 * u / k
		if int(k)%2 == 0 {
			term += even
		}
		sum += term
		done := negligible(term, last, sum)
		last = term
		return !done && k < maxSeries
	})
	sum += n * excess
	return math.Log(sum/float64(m)) + 2*math.Log(math.Abs(u))
}
