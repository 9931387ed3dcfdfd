package forms

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// LogVarMatern returns the log variance of cos ω·z for ω of the t law with 2ν degrees of freedom (1, 3 or 5) and
// a = √(2ν)·|z|, [derived] from ½(1 + κ(2z)) − κ(z)². With t = 2a and P the regularised incomplete gamma function it is
//
//	½ P(1,t),  ½ P(3,t),  ½ (P(5,t) + t⁴e^{−t}/36)
//
// for ν = 1/2, 3/2, 5/2, where nothing cancels. The first is also that of independent Cauchy coordinates, the Laplace
// kernel, with a = Σ|z_l|.
func LogVarMatern(freedom int, a float64) float64 {
	t := 2 * a
	v := mathext.GammaIncReg(float64(freedom), t)
	if freedom == 5 {
		v += t * t * math.Exp(-t) * t * t / 36
	}
	return math.Log(v / 2)
}
