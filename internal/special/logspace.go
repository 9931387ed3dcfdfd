package special

import "math"

// Log1mExp returns log(1 − e^x) for x ≤ 0 without cancellation at either end.
func Log1mExp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}

// LogSub returns log(e^a − e^b) for a ≥ b, −Inf when they are equal.
func LogSub(a, b float64) float64 {
	switch {
	case math.IsInf(b, -1):
		return a
	case math.IsInf(a, 1) && !math.IsInf(b, 1):
		return a
	case a == b:
		return math.Inf(-1)
	}
	return a + Log1mExp(b-a)
}

// LogExpm1 returns log(e^t − 1) for t ≥ 0, −Inf at 0.
func LogExpm1(t float64) float64 {
	if t < 1 {
		return math.Log(math.Expm1(t))
	}
	if math.IsInf(t, 1) {
		return t
	}
	return t + math.Log1p(-math.Exp(-t))
}

// LogCosh returns log cosh u for every finite u.
func LogCosh(u float64) float64 {
	u = math.Abs(u)
	if u < 0.5 {
		s := math.Sinh(u / 2)
		return math.Log1p(2 * s * s)
	}
	return u + math.Log1p(math.Exp(-2*u)) - math.Ln2
}

// LogSumExp returns log Σ e^{x_i}, −Inf for no arguments.
func LogSumExp(x ...float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	if math.IsInf(top, 0) || math.IsNaN(top) {
		return top
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// Signed is the number Sign·e^Log. Sign is −1, 0 or +1; Log is −Inf when Sign is 0.
type Signed struct {
	Sign int
	Log  float64
}

// SignedOf converts an ordinary number.
func SignedOf(x float64) Signed {
	switch {
	case x > 0:
		return Signed{1, math.Log(x)}
	case x < 0:
		return Signed{-1, math.Log(-x)}
	}
	return Signed{0, math.Inf(-1)}
}

// Value returns the number itself, which may overflow to ±Inf or underflow to 0.
func (s Signed) Value() float64 { return float64(s.Sign) * math.Exp(s.Log) }

// Scale returns e^shift times the number.
func (s Signed) Scale(shift float64) Signed {
	if s.Sign == 0 {
		return s
	}
	return Signed{s.Sign, s.Log + shift}
}

// SumSigned adds numbers given by sign and logarithm. Positive and negative terms
// are summed apart, so cancellation happens once, in the last subtraction.
func SumSigned(terms ...Signed) Signed {
	var pos, neg []float64
	for _, t := range terms {
		switch t.Sign {
		case 1:
			pos = append(pos, t.Log)
		case -1:
			neg = append(neg, t.Log)
		}
	}
	p, n := LogSumExp(pos...), LogSumExp(neg...)
	switch {
	case p > n:
		return Signed{1, LogSub(p, n)}
	case p < n:
		return Signed{-1, LogSub(n, p)}
	}
	return Signed{0, math.Inf(-1)}
}
