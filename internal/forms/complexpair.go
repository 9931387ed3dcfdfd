package forms

import (
	"math"
	"math/cmplx"

	"github.com/randfeat/randfeat/internal/special"
)

// Complex-valued maps (GERF, complex exponential) have second moment
//
//	R = ½ ( Re e^{t1} + e^{t3} ),  |Re e^{t1}| ≤ e^{t3},  R ≥ 1,
//
// relative to the squared kernel.

// logHalfSum returns log R.
func logHalfSum(t1 complex128, t3 float64) float64 {
	return t3 - math.Ln2 + math.Log1p(math.Exp(real(t1)-t3)*math.Cos(imag(t1)))
}

// logHalfSumMinus1 returns log(R − 1). linear is Re t1 + t3, which the caller
// computes without cancellation: for trigonometric maps it vanishes, and R − 1 is
// of second order in t1 and t3.
func logHalfSumMinus1(t1 complex128, t3, linear float64) float64 {
	if t3 > 1 {
		return special.LogExpm1(logHalfSum(t1, t3))
	}
	if t3 == 0 {
		return math.Inf(-1)
	}
	// Over t3, so that second-order terms do not underflow.
	sum := linear/t3 + real(expm1ResidueOver(t1, t3)) + real(expm1ResidueOver(complex(t3, 0), t3))
	return math.Log(sum/2) + math.Log(t3)
}

// expm1ResidueOver returns (e^t − 1 − t)/s.
func expm1ResidueOver(t complex128, s float64) complex128 {
	if cmplx.Abs(t) > 1 {
		return (cmplx.Exp(t) - 1 - t) / complex(s, 0)
	}
	sum, term := complex128(0), t/complex(s, 0)
	for k := 2.0; k < 25; k++ {
		term *= t / complex(k, 0)
		sum += term
	}
	return sum
}
