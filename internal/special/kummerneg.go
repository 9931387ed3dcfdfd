package special

import (
	"math"
	"math/big"
)

// KummerNeg returns 1F1(d; d/2; −t), t ≥ 0: the conformity of orthogonal pairs of
// trigonometric features (SimRF Thm 4.5) at t = z²/2. It underflows to 0 where
// KummerNegLog does not.
func KummerNeg(d int, t float64) float64 { return KummerNegLog(d, t).Value() }

// KummerNegLog returns 1F1(d; d/2; −t) by sign and logarithm. Relative accuracy is
// near machine precision except next to a zero.
//
// By Kummer's transformation the value is e^{−t} 1F1(−d/2; d/2; t). Even d: the
// last factor is a Laguerre polynomial, by its three-term recurrence. Odd d: the
// large-t expansion where it holds, else the alternating series in extended
// precision (up to half a second near t = 4e4 with d = 4095; microseconds for t < 100).
func KummerNegLog(d int, t float64) Signed {
	switch {
	case d < 1 || !(t >= 0):
		return Signed{0, math.NaN()}
	case math.IsInf(t, 1):
		return Signed{0, math.Inf(-1)}
	case t <= 0.5:
		return Signed{1, logKummerNegSmall(d, t)}
	case d%2 == 0:
		return kummerNegEven(d/2, t)
	case kummerNegIsAlgebraic(d, t):
		return kummerNegLarge(d, t)
	}
	return kummerNegBig(d, t)
}

// logKummerNegSmall sums the defining series, whose terms decrease for t ≤ 1/2.
func logKummerNegSmall(d int, t float64) float64 {
	a, b := float64(d), float64(d)/2
	term, rest := 1.0, 0.0
	for k := 0.0; math.Abs(term) > tailEps*math.Abs(rest); k++ {
		term *= -t / (k + 1) * ((k + a) / (k + b))
		rest += term
	}
	return math.Log1p(rest)
}

// kummerNegEven evaluates M_k = 1F1(−k; n; t), proportional to the Laguerre
// polynomial L_k^{(n−1)}(t), up to k = n from
//
//	(k+n) (M_{k+1} − M_k) = k (M_k − M_{k−1}) − t M_k.
//
// M is the dominant solution before the first zero and of neutral growth in the
// oscillatory range; past the last zero it is the polynomial, again dominant.
func kummerNegEven(n int, t float64) Signed {
	m, delta, exp := 1.0, 0.0, 0
	for k := 0; k < n; k++ {
		delta = (float64(k)*delta - t*m) / float64(k+n)
		m += delta
		if size := math.Abs(m) + math.Abs(delta); size > 1e3 || size < 1e-3 {
			_, e := math.Frexp(size)
			m, delta, exp = math.Ldexp(m, -e), math.Ldexp(delta, -e), exp+e
		}
	}
	return SignedOf(m).Scale(float64(exp)*math.Ln2 - t)
}

// kummerNegIsAlgebraic says whether the expansion of kummerNegLarge holds to
// double precision: the exponentially small companion Γ(b)/Γ(a) e^{−t} t^{a−b} must
// be below the algebraic part Γ(b)/Γ(b−a) t^{−a} by e^{−40}.
func kummerNegIsAlgebraic(d int, t float64) bool {
	a, b := float64(d), float64(d)/2
	if t < 60 || t < 6*a {
		return false
	}
	companion := -t + (2*a-b)*math.Log(t) - lgamma(a) + lgamma(b-a)
	return companion < -40
}

// kummerNegLarge is Γ(b)/Γ(b−a) t^{−a} Σ_s (a)_s (a−b+1)_s/(s! t^s), a = d, b = d/2,
// d odd (DLMF 13.7.2). For even d the leading factor vanishes.
func kummerNegLarge(d int, t float64) Signed {
	a, b := float64(d), float64(d)/2
	lg, sign := math.Lgamma(b - a)
	term, rest := 1.0, 0.0
	for s := 0.0; term > tailEps*(1+rest) && s < t; s++ {
		term *= (a + s) * (a - b + 1 + s) / ((s + 1) * t)
		rest += term
	}
	return Signed{sign, lgamma(b) - lg - a*math.Log(t) + math.Log1p(rest)}
}

// kummerNegBig sums 1F1(−d/2; d/2; t) in extended precision. Its terms reach e^t
// and its value may be as small as e^{−t}, which costs 2t/ln 2 < 2.9t bits.
func kummerNegBig(d int, t float64) Signed {
	prec := uint(128 + 2.9*t)
	newFloat := func() *big.Float { return new(big.Float).SetPrec(prec) }
	sum, term := newFloat().SetInt64(1), newFloat().SetInt64(1)
	tt, f := newFloat().SetFloat64(t), newFloat()
	for k := int64(0); ; k++ {
		num, den := 2*k-int64(d), (2*k+int64(d))*(k+1)
		term.Mul(term, tt)
		term.Mul(term, f.SetInt64(num))
		term.Quo(term, f.SetInt64(den))
		sum.Add(sum, term)
		shrinking := num > 0 && t*float64(num) < 0.9*float64(den)
		if shrinking && sum.MantExp(nil)-term.MantExp(nil) > 64 {
			break
		}
	}
	return Signed{sum.Sign(), LogBig(sum) - t}
}

// LogBig returns log|x| of an extended-precision number, −Inf at 0.
func LogBig(x *big.Float) float64 {
	if x.Sign() == 0 {
		return math.Inf(-1)
	}
	m := new(big.Float)
	e := x.MantExp(m)
	f, _ := m.Float64()
	return math.Log(math.Abs(f)) + float64(e)*math.Ln2
}
