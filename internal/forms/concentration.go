package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogBoundOrthogonalGain returns the log of a lower bound on the error that
// orthogonal blocks save with positive features, relative to e^{−2xx−2yy}:
//
//	Var_iid − Var_ort ≥ pf(m,d) (2/(d+2)) (e^{v²/2} − 1)² e^{−2xx−2yy}.
//
// CRT Thm 4.1, corrected: g carries C(|x|²+|y|²), and m > d replaces 1 − 1/m by pf.
// The exact saving is pf·exp(LogGapPRFOrthogonal).
func LogBoundOrthogonalGain(d, m int, v2 float64) float64 {
	if d < 1 || m < 1 {
		return math.NaN()
	}
	return math.Log(PairFraction(m, d)) + math.Log(2/(float64(d)+2)) + 2*special.LogExpm1(v2/2)
}

// LogSupOPRF returns log( sup_ω Z/K ) of one OPRF projection with real A ≤ 0,
//
//	sup Z/K = (1−4A)^{d/2} exp( v²/(8|A|) ).
//
// CRT Thm 4.2, corrected: the paper's separable bound omits (1−4A)^{d/2} and is
// weaker. A = 0 (the positive map) is unbounded, +Inf, unless v = 0.
func LogSupOPRF(d int, a, v2 float64) float64 {
	switch {
	case d < 1 || !(a <= 0) || !(v2 >= 0):
		return math.NaN()
	case v2 == 0:
		return float64(d) / 2 * math.Log1p(-4*a)
	}
	return float64(d)/2*math.Log1p(-4*a) + v2/(8*math.Abs(a))
}

// LogHoeffdingOPRF returns the log of Hoeffding's bound for m iid OPRF projections,
//
//	P( |Khat − K| ≥ eta K ) ≤ 2 exp( −2 m eta² / (sup Z/K)² ).
//
// CRT Thm 4.2 with the exponent of Hoeffding's inequality (the printed one is false
// for real A < 0). Values above 0 are vacuous.
func LogHoeffdingOPRF(d int, a, v2 float64, m int, eta float64) float64 {
	if m < 1 || !(eta >= 0) {
		return math.NaN()
	}
	if eta == 0 {
		return math.Ln2
	}
	return math.Ln2 - math.Exp(math.Log(2*float64(m))+2*math.Log(eta)-2*LogSupOPRF(d, a, v2))
}

// LogFeaturesHoeffding returns log m for the least m that Hoeffding's inequality
// needs so that, with probability at least 1 − fail, every one of pairs estimates
// has relative error below eta:
//
//	m = (sup Z/K)² log(2·pairs/fail) / (2 eta²).
//
// logSup is the largest LogSupOPRF among the pairs. pairs = 1 is CRT Thm 4.2;
// pairs = L² over all queries and keys of length L is the usable form of CRT
// Thm 4.3, whose printed constants are unreliable.
func LogFeaturesHoeffding(logSup, eta, fail float64, pairs int) (float64, error) {
	if err := checkAccuracy(eta, fail, pairs); err != nil {
		return math.NaN(), err
	}
	return 2*logSup + math.Log(math.Log(2*float64(pairs)/fail)/2) - 2*math.Log(eta), nil
}

// LogFeaturesChebyshev returns log m for the least m that Chebyshev's inequality
// needs for the same promise, from the largest log relative variance of one
// projection among the pairs: m = pairs·rv/(eta² fail). It holds for every map with
// finite variance, bounded or not, and for iid projections or any coupling that
// does not raise the error.
func LogFeaturesChebyshev(logRV, eta, fail float64, pairs int) (float64, error) {
	if err := checkAccuracy(eta, fail, pairs); err != nil {
		return math.NaN(), err
	}
	return logRV + math.Log(float64(pairs)/fail) - 2*math.Log(eta), nil
}

func checkAccuracy(eta, fail float64, pairs int) error {
	switch {
	case !(eta > 0):
		return DomainError("eta", eta, "eta > 0")
	case !(fail > 0 && fail < 1):
		return DomainError("fail", fail, "0 < fail < 1")
	case pairs < 1:
		return DomainError("pairs", pairs, "pairs ≥ 1")
	}
	return nil
}

// LogUpperTailOPRF returns the log of the one-sided Legendre bound for m OPRF
// projections with real A < 0,
//
//	P( Khat − K ≥ eta K ) ≤ exp( −m Leg(1+eta) ),  Leg(t) = sup_{u>0} ( ut − log E e^{uY} ),
//
// Y = Z/K. For iid projections it is Chernoff's bound. For orthogonal ones with
// m ≤ d it is CRT Thm 4.2, not re-proved here; no violation was seen in simulation.
// It is −Inf when 1 + eta is above the supremum of Y.
//
// Y = S e^{−2|A|X} with S its supremum and X noncentral chi-squared, so every
// moment is explicit and E e^{uY} is the positive series
//
//	Σ_n ((uS)^n/n!) (1+4n|A|)^{−d/2} exp( −2n|A|g²/(1+4n|A|) ),  g² = (1−4A)v²/(16A²).
func LogUpperTailOPRF(d int, a, v2 float64, m int, eta float64) float64 {
	if d < 1 || !(a < 0) || !(v2 >= 0) || m < 1 || !(eta >= 0) {
		return math.NaN()
	}
	if eta == 0 {
		return 0
	}
	logS := LogSupOPRF(d, a, v2)
	logT := math.Log1p(eta) - logS // the target t/S on the scale of Y/S in (0, 1]
	if logT > 0 {
		return math.Inf(-1)
	}
	y := newTiltedMoments(d, a, v2)
	// The derivative of log E e^{cY/S} grows from E Y/S = 1/S to 1: bisect on log c.
	lo, hi := -logS-40, math.Log(maxTilt)
	for range 80 {
		mid := (lo + hi) / 2
		if _, logMean := y.logMGF(math.Exp(mid)); logMean < logT {
			lo = mid
		} else {
			hi = mid
		}
	}
	// Every c > 0 gives a valid bound, so rounding and the cap on c are harmless.
	c := math.Exp(lo)
	logMGF, _ := y.logMGF(c)
	return math.Min(0, -float64(m)*(c*math.Exp(logT)-logMGF))
}

// maxTilt caps c = uS, hence the length of the series.
const maxTilt = 1e5

type tiltedMoments struct{ half, a, g2 float64 }

func newTiltedMoments(d int, a, v2 float64) tiltedMoments {
	return tiltedMoments{half: float64(d) / 2, a: -a, g2: (1 - 4*a) * v2 / (16 * a * a)}
}

// logMoment is log E (Y/S)^n.
func (y tiltedMoments) logMoment(n float64) float64 {
	w := 1 + 4*n*y.a
	return -y.half*math.Log(w) - 2*n*y.a*y.g2/w
}

// logMGF returns log E e^{cY/S} and the log of its derivative in c.
func (y tiltedMoments) logMGF(c float64) (logMGF, logMean float64) {
	// Σ_{n≥1} c^n/n! E(Y/S)^n apart from the leading 1, which dwarfs it for small c.
	logC := math.Log(c)
	last := int(c + 12*math.Sqrt(c) + 40)
	rest, slope := make([]float64, 0, last), make([]float64, 0, last)
	for i := 1; i <= last; i++ {
		n := float64(i)
		lg, _ := math.Lgamma(n + 1)
		t := n*logC - lg + y.logMoment(n)
		rest = append(rest, t)
		slope = append(slope, t+math.Log(n)-logC)
	}
	r := special.LogSumExp(rest...)
	if r < 0 {
		logMGF = math.Log1p(math.Exp(r))
	} else {
		logMGF = special.LogSumExp(0, r)
	}
	return logMGF, special.LogSumExp(slope...) - logMGF
}
