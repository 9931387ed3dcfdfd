package forms

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/special"
)

// Shape is the dependence of an estimator on a projection, which decides the pair
// covariance.
type Shape int

const (
	// Exponential: positive, OPRF, DARK, and every GERF with s = +1; t is v².
	Exponential Shape = iota
	// Trigonometric: trig and every GERF with s = −1; t is z².
	Trigonometric
	// Hyperbolic: the "++" map; t is v².
	Hyperbolic
)

// String is the name of the shape.
func (s Shape) String() string {
	switch s {
	case Exponential:
		return "exponential"
	case Trigonometric:
		return "trigonometric"
	case Hyperbolic:
		return "hyperbolic"
	}
	return fmt.Sprintf("Shape(%d)", int(s))
}

// PairFraction returns pf, the number of ordered pairs of distinct projections that
// share a block, over m². With m = qd + r, 0 ≤ r < d:
//
//	pf = ( q d(d−1) + r(r−1) ) / m²,
//
// which is (m−1)/m for m ≤ d. It is 0 for m < 1 or d < 1.
func PairFraction(m, d int) float64 {
	return blockPairs(m, d) / float64(max(m, 1))
}

// blockPairs is m·pf, the mean number of block mates of a projection.
func blockPairs(m, d int) float64 {
	if m < 1 || d < 1 {
		return 0
	}
	q, r, n := float64(m/d), float64(m%d), float64(d)
	return (q*n*(n-1) + r*(r-1)) / float64(m)
}

// Kappa returns the relative covariance of two projections of one block, as a sign
// and log|kappa|:
//
//	Exponential    e^{−v²} rho − 1    ≤ 0
//	Trigonometric  e^{z²} rho' − 1    either sign
//	Hyperbolic     e^{−v²} rho″ − 1  either sign
//
// with the conformities of this package. For GERF it does not depend on A (derived,
// docs/theory.md §5.2), so a coupling gains the same absolute error for PRF and OPRF.
// Sign 0 means no covariance: independent projections, or t = 0. With d = 1 no
// block holds a pair and the error is ErrNoClosedForm.
func Kappa(shape Shape, law coupling.PairKind, d int, t float64) (sign int, logAbs float64, err error) {
	if err := checkPair(shape, law, d, t); err != nil {
		return 0, math.NaN(), err
	}
	if law == coupling.PairIndependent || t == 0 {
		return 0, math.Inf(-1), nil
	}
	if d == 1 {
		return 0, math.NaN(), &NoClosedFormError{
			fmt.Sprintf("the covariance of %v pairs in dimension 1: no block holds a pair", law)}
	}
	k := kappa(shape, law, d, t)
	return k.Sign, k.Log, nil
}

func checkPair(shape Shape, law coupling.PairKind, d int, t float64) error {
	switch {
	case shape < Exponential || shape > Hyperbolic:
		return DomainError("shape", shape, "a known Shape")
	case law < coupling.PairIndependent || law > coupling.PairSimplex:
		return DomainError("law", law, "a pair law with a closed form")
	case d < 1:
		return DomainError("d", d, "d ≥ 1")
	case !(t >= 0) || math.IsInf(t, 1):
		return DomainError("t", t, "0 ≤ t < ∞")
	}
	return nil
}

// kappa dispatches valid arguments with d ≥ 2 and t > 0.
func kappa(shape Shape, law coupling.PairKind, d int, t float64) special.Signed {
	simplex := law == coupling.PairSimplex
	switch {
	case shape == Exponential && simplex:
		return special.Signed{Sign: -1, Log: LogGapPRFSimplex(d, t) - t}
	case shape == Trigonometric:
		return kappaTrig(d, t, simplex)
	case shape == Hyperbolic && simplex:
		return kappaCoshSimplex(d, t)
	}
	return special.Signed{Sign: -1, Log: LogGapPRFOrthogonal(d, t) - t}
}

// seriesLimit is the largest t for the power series of kappa; beyond it the
// conformities themselves are far enough from e^{±t}.
const seriesLimit = 8

func kappaTrig(d int, t float64, simplex bool) special.Signed {
	u := t / 2
	switch {
	case t <= seriesLimit && simplex:
		return special.SignedOf(pairSeries(d, u) + simplexExcess(d, u)).Scale(2 * math.Log(u))
	case t <= seriesLimit:
		return special.SignedOf(pairSeries(d, u)).Scale(2 * math.Log(u))
	case simplex:
		return minusOne(rffSimplex(d, t).Scale(t))
	}
	return minusOne(special.KummerNegLog(d, u).Scale(t))
}

func kappaCoshSimplex(d int, t float64) special.Signed {
	// In few dimensions 1/(d−1) stretches the argument of the series, whose terms
	// then cancel; the conformity is also further from e^t there.
	if t <= 1 || (t <= seriesLimit && d >= 8) {
		u := -t / 2
		return special.SignedOf(pairSeries(d, u) + simplexExcess(d, u)).Scale(2 * math.Log(-u))
	}
	return minusOne(special.Signed{Sign: 1, Log: LogConformityCoshSimplex(d, t) - t})
}

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

// simplexExcess returns (kappa_simplex − kappa_orthogonal)/u² of trigonometric
// (u > 0) or hyperbolic (u < 0) features. With q = sin(phi)/(d−1),
//
//	E_phi[ cosh(2uq) − 1 ] + Σ_{k≥2} g_k u^k E_phi[ ½ Σ_± (1±q)^k e^{∓2uq} − 1 ].
func simplexExcess(d int, u float64) float64 {
	s, w := special.SinPower(d)
	n := len(s)
	q, up, down := make([]float64, n), make([]float64, n), make([]float64, n)
	sum := 0.0
	for i := range s {
		q[i] = s[i] / float64(d-1)
		up[i], down[i] = math.Log1p(q[i]), math.Log1p(-q[i])
		sh := q[i] * sinhc(u*q[i])
		sum += w[i] * 2 * sh * sh
	}
	last := math.Inf(1)
	pairTerms(d, u, func(k, h float64) bool {
		mean := 0.0
		for i := range w {
			mean += w[i] * (math.Expm1(k*up[i]-2*u*q[i]) + math.Expm1(k*down[i]+2*u*q[i])) / 2
		}
		sum += h * mean
		done := negligible(h*mean, last, sum)
		last = h * mean
		return !done && k < maxSeries
	})
	return sum
}

// sinhc is sinh(x)/x.
func sinhc(x float64) float64 {
	if math.Abs(x) < 1e-4 {
		return 1 + x*x/6
	}
	return math.Sinh(x) / x
}

// LogRelMSE returns the log relative mean squared error of m coupled projections,
//
//	log( rv/m + pf(m,d) kappa(t) ),
//
// SimRF Thm 3.2 with partial and repeated blocks (docs/theory.md §5.2). logRV is the log
// relative variance of one projection of the map used, and t is v² or z² according
// to shape. Where rv and kappa nearly cancel (trigonometric and hyperbolic features
// with m = d and small t) the combination is expanded jointly. logRV = +Inf gives
// +Inf. ErrDomain names logRV if it is too small to belong to the shape.
func LogRelMSE(shape Shape, law coupling.PairKind, d, m int, logRV, t float64) (float64, error) {
	if err := checkPair(shape, law, d, t); err != nil {
		return math.NaN(), err
	}
	if m < 1 {
		return math.NaN(), DomainError("m", m, "m ≥ 1")
	}
	if math.IsNaN(logRV) {
		return math.NaN(), DomainError("logRV", logRV, "a log relative variance")
	}
	iid := logRV - math.Log(float64(m))
	if law == coupling.PairIndependent || d == 1 || m == 1 || t == 0 || math.IsInf(logRV, 1) ||
		kappaIsNegligible(shape, d, logRV, t) {
		return iid, nil
	}
	if plain, base, ok := jointMSE(shape, law, d, m, t); ok {
		// rv = rv₀ + (rv − rv₀), where rv₀ of the plain map is part of base.
		if diff := logRV - plain; math.Abs(diff) < 0.05 {
			return base + math.Log1p(math.Exp(iid-diff-base)*math.Expm1(diff)), nil
		}
	}
	k := kappa(shape, law, d, t)
	ratio := float64(k.Sign) * blockPairs(m, d) * math.Exp(k.Log-logRV)
	if !(ratio > -1) {
		return math.NaN(), DomainError("logRV", logRV, fmt.Sprintf("a variance that %v pairs can have at t = %v", law,
			t))
	}
	return iid + math.Log1p(ratio), nil
}

// jointMSE returns the log relative variance of the plain map of the shape and the
// log relative error of m of its projections, in the ranges where the two parts of
// the error nearly cancel and are expanded together.
func jointMSE(shape Shape, law coupling.PairKind, d, m int, t float64) (plain, base float64, ok bool) {
	switch {
	case shape != Exponential && t <= seriesLimit:
		return logCoshMinus1(t), logCoshMSE(shape, law, d, m, t), true
	case shape == Exponential && law == coupling.PairSimplex && t <= 1:
		return LogRVPositive(t), logSimplexMSE(d, m, t), true
	}
	return 0, 0, false
}

// kappaIsNegligible spares the evaluation of kappa far out. For exponential shapes
// |kappa| ≤ 1. For trigonometric ones with z² > 1000 and d > z²/20 the modulus of rho'
// is below e^{−z²/8} (Laguerre bound e^{−z²/4} for even d), so kappa is below e^{−100}
// of rv; for z² > 1e7 rho' is at most 3 z^{−6}, below rounding.
func kappaIsNegligible(shape Shape, d int, logRV, t float64) bool {
	switch shape {
	case Exponential:
		return logRV > 80
	case Trigonometric:
		return t > 1000 && logRV > 0.98*t && (t > 1e7 || float64(d) > t/20)
	}
	return false
}

// logCoshMSE is log( (cosh t − 1)/m + pf kappa ) for trigonometric (u = t/2) or
// hyperbolic (u = −t/2) features and t ≤ seriesLimit, summed term by term:
//
//	Σ_{k≥2} ( [k even] 2^k/(k! m) + pf g_k ) u^k.
//
// With N = m·pf the k = 2 coefficient is ((d+2) − N)/(m (1+d/2)), as small as 3/(d+2)
// of its parts. A simplex adds its excess, positive at small t.
func logCoshMSE(shape Shape, law coupling.PairKind, d, m int, t float64) float64 {
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
	if law == coupling.PairSimplex {
		sum += n * simplexExcess(d, u)
	}
	return math.Log(sum/float64(m)) + 2*math.Log(math.Abs(u))
}

// logSimplexMSE is log( (e^t − 1)/m + pf kappa ) for positive features with simplex
// blocks and t ≤ 1. The linear term t·SimplexSmallV/m, 1/(2d) of its parts at m = d,
// is taken out exactly; with N = m·pf and q = sin(phi)/(d−1) what remains is
//
//	(e^t − 1 − t) + N t E[q] (1 − e^{−t}) − N e^{−t} (orthogonal gap + simplex gain of k ≥ 2).
func logSimplexMSE(d, m int, t float64) float64 {
	n := blockPairs(m, d)
	meanQ := math.Exp(2*special.LogHalfRatio(float64(d)/2)) / float64(d-1)
	gap := math.Exp(LogGapPRFOrthogonal(d, t)-math.Log(t)) + simplexGain(d, t, 2)
	rest := real(expm1ResidueOver(complex(t, 0), t)) - n*meanQ*math.Expm1(-t) - n*math.Exp(-t)*gap
	return math.Log((SimplexSmallV(d, m)+rest)/float64(m)) + math.Log(t)
}
