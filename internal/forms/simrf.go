package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogPairNormIID returns the log density of |ω_i + ω_j| at w > 0 for independent
// projections, w^{d−1} e^{−w²/4} / (2^{d−1} Γ(d/2)). SimRF Lemma 4.1.
func LogPairNormIID(d int, w float64) float64 {
	if d < 1 || !(w > 0) {
		return math.NaN()
	}
	n := float64(d)
	lg, _ := math.Lgamma(n / 2)
	return (n-1)*math.Log(w) - w*w/4 - (n-1)*math.Ln2 - lg
}

// LogPairNormAngle returns the log density of |ω_i + ω_j| at w > 0 for projections
// at a fixed angle with cosine c in (−1, 1),
//
//	(w^{2d−1}/(2^{d−2} Γ(d/2)²)) ∫_0^{π/2} (sin p cos p)^{d−1} e^{−w²/(2(1+c sin 2p))} (1 + c sin 2p)^{−d} dp.
//
// SimRF Lemma 4.2, eq 20. c = 0 is the chi law with 2d degrees of freedom.
func LogPairNormAngle(d int, w, c float64) float64 {
	if d < 1 || !(w > 0) || !(math.Abs(c) < 1) {
		return math.NaN()
	}
	n := float64(d)
	// φ = 2p: sin p cos p = sin(φ)/2, and [0, π] folds on [0, π/2].
	integral := special.LogIntegral(func(phi float64) float64 {
		s := math.Sin(phi)
		g := 1 + c*s
		return (n-1)*math.Log(s) - w*w/(2*g) - n*math.Log(g)
	}, math.Pi/2) - (n-1)*math.Ln2
	lg, _ := math.Lgamma(n / 2)
	return (2*n-1)*math.Log(w) - (n-2)*math.Ln2 - 2*lg + integral
}

// SimplexSmallV returns the coefficient of v² in m·MSE·e^{2xx+2yy} of positive
// features with simplex blocks, d ≥ 2,
//
//	1 − m·pf mu²/(d(d−1)),  mu = √2 Γ((d+1)/2)/Γ(d/2),
//
// against 1 for independent or orthogonal projections. SimRF §5.1, which states it
// for m = d only.
func SimplexSmallV(d, m int) float64 {
	if d < 2 || m < 1 {
		return math.NaN()
	}
	n, r := float64(d), float64(m%d)
	// mu²/d = e^{2·LogHalfRatio(d/2)}, so that 1 − mu²/d keeps its digits at m = d.
	unused := r * (n - r) / (float64(m) * (n - 1)) // 1 − m·pf/(d−1)
	return unused + (1-unused)*-math.Expm1(2*special.LogHalfRatio(n/2))
}

// RFFOrthogonalRatio returns the asymptotic ratio of the error of orthogonal to iid
// trigonometric features,
//
//	1 − m·pf z⁴ e^{−z²}/(d (1 − e^{−z²})²) + O(d^{−2}),
//
// without the remainder. SimRF Cor 4.6, stated for m ≤ d, where m·pf = m − 1.
func RFFOrthogonalRatio(d, m int, z2 float64) float64 {
	h := 1 / sinhc(z2/2)
	return 1 - blockPairs(m, d)/float64(d)*h*h
}

// PaddedKernel returns the target of structured blocks of size n > d whose rows
// wrongly got chi_d norms, 1F1(d/2; n/2; −z²/2), instead of e^{−z²/2}. n ≥ d ≥ 1.
// Derived in docs/theory.md §4.6.
func PaddedKernel(d, n int, z2 float64) float64 {
	if d < 1 {
		return math.NaN()
	}
	return special.Hyp1F1Neg(float64(d)/2, float64(n)/2, z2/2)
}
