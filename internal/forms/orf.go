package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// ORF' uses unit-norm rows of a Haar matrix, p of them (in blocks of d when p > d).
// Its target is the Bessel kernel j = j_{d/2−1}, not the Gaussian one.

// ORFMean returns the mean of the ORF' estimator at distance z, j_{d/2−1}(z).
// ORF Thm 2, eq 8.
func ORFMean(d int, z float64) float64 { return special.BesselJ(d, z) }

// ORFBias returns j_{d/2−1}(z) − e^{−z²/2}, the bias of ORF' as an estimator of the
// Gaussian kernel. ORF Thm 2.
func ORFBias(d int, z float64) float64 {
	if z*z > 1 || d < 1 {
		return special.BesselJ(d, z) - math.Exp(-z*z/2)
	}
	// Σ_{k≥1} ((−z²/2)^k/k!) ( 1/Π_{j<k}(d+2j) − 1 ), free of the common 1.
	sum, power, prod := 0.0, 1.0, 1.0
	for k := 1.0; k < 20; k++ {
		power *= -z * z / (2 * k)
		prod /= float64(d) + 2*(k-1)
		sum += power * (prod - 1)
	}
	return sum
}

// LogVarORFPrime returns the log variance of the ORF' estimator,
//
//	Var = v1/p + pf(p,d) cov,
//	v1 = (1 + j(2z))/2 − j(z)²,  cov = j(√2 z) − j(z)².
//
// ORF Thm 4, eq 11 for p ≤ d, with pf for more blocks. For z² ≤ 2d it is summed as
// a power series whose brackets cancel analytically: at p a multiple of d the
// variance is only O(z⁸). In dimension 1 it is 0.
func LogVarORFPrime(d, p int, z float64) float64 {
	switch {
	case d < 1 || p < 1 || math.IsNaN(z):
		return math.NaN()
	case d == 1 || z == 0:
		return math.Inf(-1)
	case z*z <= 2*float64(d):
		return logVarORFPrimeSeries(d, p, z)
	}
	j, j2, jr := special.BesselJ(d, z), special.BesselJ(d, 2*z), special.BesselJ(d, math.Sqrt2*z)
	v1 := (1+j2)/2 - j*j
	return math.Log(v1/float64(p) + PairFraction(p, d)*(jr-j*j))
}

// logVarORFPrimeSeries sums, with N = p·pf and r = p mod d,
//
//	p Var = Σ_{k≥2} ((−z²/2)^k/(k! (d/2)_k)) [ 2^{k−1} − 1 − (1+N) expm1(S_k) ],
//	S_k = Σ_{j<k} log1p((k−1−j)/(d+2j)).
//
// The brackets of k = 2, 3 are r(d−r)/(pd) and three times that.
func logVarORFPrimeSeries(d, p int, z float64) float64 {
	dim, mates := float64(d), 1+blockPairs(p, d)
	r := float64(p % d)
	low := r * (dim - r) / (float64(p) * dim)
	q := -z * z / 2
	coef := 1 / (dim / 2 * (dim/2 + 1)) / 2 // over q²
	sum := 0.0
	for k := 2; k < 400; k++ {
		var bracket float64
		switch k {
		case 2:
			bracket = low
		case 3:
			bracket = 3 * low
		default:
			bracket = math.Exp2(float64(k-1)) - 1 - mates*math.Expm1(orfExponent(d, k))
		}
		sum += coef * bracket
		if k > 4 && math.Abs(coef*bracket) <= 1e-18*math.Abs(sum) {
			break
		}
		coef *= q / (float64(k+1) * (dim/2 + float64(k)))
	}
	return math.Log(sum/float64(p)) + 2*math.Log(-q)
}

// orfExponent is S_k of logVarORFPrimeSeries.
func orfExponent(d, k int) float64 {
	s := 0.0
	for j := range k {
		s += math.Log1p(float64(k-1-j) / float64(d+2*j))
	}
	return s
}

// ORFConstants are the constants of the sharp inequalities of ORF'.
type ORFConstants struct {
	B, C        float64 // b_d (d ≥ 2) and c_d (d ≥ 5) of Prop 3; NaN below
	Alpha, Beta float64 // alpha_d and beta_d of Prop 6 (d ≥ 2); NaN below
}

// ORFConstantsOf returns
//
//	b_d = 2^{1/4} d^{3/4} √(1 − 4/(2√2 d^{3/2} − d)),
//	c_d = √(d²/4 − 1) √(1 − 8/(d² − 2d − 4)),
//	alpha_d = (d/2)^{3/4},  beta_d = ½ √(d²/4 − 1).
//
// ORF Props 3 and 6.
func ORFConstantsOf(d int) ORFConstants {
	c := ORFConstants{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	n := float64(d)
	if d >= 2 {
		c.B = math.Sqrt(math.Sqrt(2*n*n*n)) * math.Sqrt(1-4/(2*math.Sqrt2*n*math.Sqrt(n)-n))
		c.Alpha = math.Pow(n/2, 0.75)
		c.Beta = math.Sqrt(n*n/4-1) / 2
	}
	if d >= 5 {
		c.C = math.Sqrt(n*n/4-1) * math.Sqrt(1-8/(n*n-2*n-4))
	}
	return c
}

// KernelRange returns max(b_d, c_d): for 0 ≤ z up to it ORFKernelBounds hold.
// ORF Prop 3.
func (c ORFConstants) KernelRange() float64 {
	if math.IsNaN(c.C) {
		return c.B
	}
	return math.Max(c.B, c.C)
}

// VarianceRange returns max(b_d, c_d)/2, the range of z for ORFVarianceBounds. The
// paper prints the range of Prop 3, where eq 12 fails (for example d = p = 4):
// eq 12 uses Prop 3 at 2z.
func (c ORFConstants) VarianceRange() float64 { return c.KernelRange() / 2 }

// ImprovementRange returns max(alpha_d, beta_d): for z up to it and any 2 ≤ p ≤ d
// the variance of ORF' is at most that of random Fourier features, LogVarRFF.
// ORF Prop 6. (The two estimators have different targets.)
func (c ORFConstants) ImprovementRange() float64 { return math.Max(c.Alpha, c.Beta) }

// ORFKernelBounds returns e^{−z²/2} ≤ j_{d/2−1}(z) ≤ e^{−z²/(2d)}, valid for
// 0 ≤ z ≤ KernelRange. ORF Prop 3, eq 9.
func ORFKernelBounds(d int, z float64) (lo, hi float64) {
	return math.Exp(-z * z / 2), math.Exp(-z * z / (2 * float64(d)))
}

// ORFVarianceBounds returns bounds on the variance of ORF' with p ≤ d projections,
// valid for 0 ≤ z ≤ VarianceRange: eq 9 applied at z, √2 z and 2z in eq 11,
//
//	(1 + e^{−2z²})/(2p)   + (1−1/p) e^{−z²}   − e^{−z²/d} ≤ Var,
//	(1 + e^{−2z²/d})/(2p) + (1−1/p) e^{−z²/d} − e^{−z²}   ≥ Var.
//
// ORF eq 12. The lower bound may be negative.
func ORFVarianceBounds(d, p int, z float64) (lo, hi float64) {
	narrow, wide := -z*z, -z*z/float64(d)
	part := func(a, b float64) float64 { // (1 + e^{2a})/(2p) + (1−1/p) e^a − e^b
		first := (math.Expm1(2*a)/2 - math.Expm1(a)) / float64(p)
		return first + math.Expm1(a) - math.Expm1(b)
	}
	return part(narrow, wide), part(wide, narrow)
}

// ORFFirstZero returns the first positive zero of j_{d/2−1}, which is the first zero
// of J_{d/2−1}: π/2, 2.4048…, π, … for d = 1, 2, 3. ORF Prop 3.
func ORFFirstZero(d int) float64 {
	if d < 1 {
		return math.NaN()
	}
	if d == 1 {
		return math.Pi / 2
	}
	n := float64(d)
	// The zero is above both bounds, and the next zero more than two steps further.
	lo := math.Max(math.Sqrt(math.Sqrt(2*n*n*n)), math.Sqrt(n*n/4-1))
	step := math.Max(1, math.Cbrt(n/2)) / 2
	hi := lo + step
	for special.BesselJLog(d, hi).Sign > 0 {
		lo, hi = hi, hi+step
	}
	for range 100 {
		mid := (lo + hi) / 2
		if mid <= lo || mid >= hi {
			break
		}
		if special.BesselJLog(d, mid).Sign > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
