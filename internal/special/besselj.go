package special

import "math"

// BesselJ returns the normalised Bessel kernel (ORF Thm 2, eq 8)
//
//	j_{d/2−1}(z) = Γ(d/2) (2/z)^{d/2−1} J_{d/2−1}(z) = 0F1(;d/2;−z²/4),  j(0) = 1,
//
// for d ≥ 1: cos z, J0(z), sin(z)/z, … It underflows to 0 where BesselJLog does not.
func BesselJ(d int, z float64) float64 {
	m, e := besselKernel(d, math.Abs(z))
	return math.Ldexp(m, e)
}

// BesselJLog returns the same value by sign and logarithm.
func BesselJLog(d int, z float64) Signed {
	m, e := besselKernel(d, math.Abs(z))
	return SignedOf(m).Scale(float64(e) * math.Ln2)
}

// besselKernel returns j_{d/2−1}(z) as mant·2^exp. All methods but the power series
// rest on the recurrence of Λ_ν = Γ(ν+1)(2/z)^ν J_ν,
//
//	Λ_{ν−1} = Λ_ν − z²/(4ν(ν+1)) Λ_{ν+1},
//
// used upward for z > ν, where both solutions have the same size, and downward
// (Miller) for z ≤ ν, where Λ is the minimal one.
func besselKernel(d int, z float64) (mant float64, exp int) {
	nu := float64(d)/2 - 1
	switch {
	case d < 1 || math.IsNaN(z):
		return math.NaN(), 0
	case d == 1:
		return math.Cos(z), 0
	case math.IsInf(z, 1):
		return 0, 0
	case z*z <= 2*float64(d)+8:
		return besselSeries(float64(d)/2, z*z/4), 0
	case z > nu:
		return besselUp(d, z)
	}
	return besselDown(d, z)
}

// besselSeries is 0F1(;b;−q); in its range of use the terms lose under two digits.
func besselSeries(b, q float64) float64 {
	sum, term := 1.0, 1.0
	for k := 0.0; math.Abs(term) > tailEps; k++ {
		term *= -q / ((k + 1) * (k + b))
		sum += term
	}
	return sum
}

// besselStart returns the two lowest kernels of the parity of d, orders nu and nu+1:
// cos z and sin(z)/z for odd d, J0(z) and 2 J1(z)/z for even d.
func besselStart(d int, z float64) (nu, lo, hi float64) {
	if d%2 == 1 {
		sin, cos := math.Sincos(z)
		return -0.5, cos, sin / z
	}
	return 0, math.J0(z), 2 * math.J1(z) / z
}

func besselUp(d int, z float64) (mant float64, exp int) {
	nu, lo, hi := besselStart(d, z)
	target := float64(d)/2 - 1
	if nu == target {
		return lo, 0
	}
	for nu++; nu < target; nu++ {
		lo, hi = hi, (hi-lo)*(4*nu/z)*((nu+1)/z)
		if size := math.Abs(lo) + math.Abs(hi); size < 1e-100 {
			_, e := math.Frexp(size)
			lo, hi, exp = math.Ldexp(lo, -e), math.Ldexp(hi, -e), exp+e
		}
	}
	return hi, exp
}

func besselDown(d int, z float64) (mant float64, exp int) {
	target := float64(d)/2 - 1
	nuLo, lo, hi := besselStart(d, z)
	// Past the turning point the unwanted solution falls like e^{−(4/3)x^{3/2}} with
	// x = (ν−z)/(z/2)^{1/3}: x = 15 is far below rounding.
	start := target + math.Ceil(20+15*math.Cbrt(target))
	f, above, scale := 1.0, 0.0, 0 // Λ_ν and Λ_{ν+1}, up to a factor 2^scale·const
	for nu := start; nu > nuLo; nu-- {
		if nu == target {
			mant, exp = f, scale
		}
		f, above = f-z/(4*nu)*(z/(nu+1))*above, f
		if size := math.Abs(f) + math.Abs(above); size < 1e-100 || size > 1e100 {
			_, e := math.Frexp(size)
			f, above, scale = math.Ldexp(f, -e), math.Ldexp(above, -e), scale+e
		}
	}
	// Normalise on whichever of the two lowest orders is not near a zero.
	if math.Abs(lo) >= math.Abs(hi*z) {
		mant *= lo / f
	} else {
		mant *= hi / above
	}
	return mant, exp - scale
}
