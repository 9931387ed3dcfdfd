package kernel

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// Kernels with heavy-tailed spectra. They suit rough functions, with steps and kinks, which the Gaussian kernel can
// only follow with a small bandwidth. Matérn kernels are functions of r = |u−v|,
//
//	κ_ν(r) = 2^{1−ν}/Γ(ν) a^ν K_ν(a),  a = √(2ν)·r,
//
// the characteristic functions of the multivariate t law with 2ν degrees of freedom (Rasmussen & Williams 2006, eqs
// 4.14-4.17). For half-integers ν they are a polynomial times e^{−a}. The Laplace kernel is a product over coordinates,
// the characteristic function of independent Cauchy coordinates (Rahimi & Recht 2007, Figure 1); it depends on the
// axes, and is matern12 in one dimension only.

// Exponential reports whether κ is the exponential of a quadratic form. All families estimate such kernels, and a
// factor exp(−|x|²/2) per row turns one into the other. The other kernels have random features by their spectra only
// (trig).
func (k Kind) Exponential() bool { return k == Gaussian || k == Softmax }

// Signed reports whether κ has negative values somewhere, so that it has no logarithm.
func (k Kind) Signed() bool { return k == Bessel }

// Matern is 2ν, the degrees of freedom of the spectral law of a Matérn kernel; 0 for other kernels.
func (k Kind) Matern() int {
	switch k {
	case Matern12:
		return 1
	case Matern32:
		return 3
	case Matern52:
		return 5
	}
	return 0
}

// Factors returns κ(u, v) as value·exp(exponent), where neither is out of range. It panics for the Bessel kernel.
func (k Kind) Factors(u, v []float64) (value, exponent float64) {
	if k.Exponential() {
		return 1, Kernel{Kind: k}.unitLog(u, v)
	}
	value, a := k.Decay(k.distance(u, v))
	return value, -a
}

// FactorsOf writes Factors of u and every row of z. On entry exponent holds the products u·z and squares the |z|². The
// Laplace kernel uses transposed instead, the columns of z as rows. It allocates nothing.
func (k Kind) FactorsOf(value, exponent, u []float64, z, transposed dense.Matrix[float64], squares []float64) {
	if k.Exponential() {
		for j := range value {
			value[j] = 1
		}
		if k == Gaussian {
			uu := dense.Norm2(u)
			for j, d := range exponent {
				exponent[j] = min(0, d-(uu+squares[j])/2)
			}
		}
		return
	}
	k.distances(exponent, u, z, transposed, dense.Norm2(u), squares)
	for j, r := range exponent {
		v, a := k.Decay(r)
		value[j], exponent[j] = v, -a
	}
}

// Decay returns κ as value·exp(−a) at a distance r: |u−v| for a Matérn kernel, Σ|u_l−v_l| for the Laplace kernel. It
// panics for other kernels.
func (k Kind) Decay(r float64) (value, a float64) {
	switch k {
	case Laplace, Matern12:
		return 1, r
	case Matern32:
		a = math.Sqrt(3) * r
		return 1 + a, a
	case Matern52:
		a = math.Sqrt(5) * r
		return 1 + a + a*a/3, a
	}
	panic("kernel: no decay of " + k.String())
}

// Slope is −κ′(r)/r·exp(a) of a Matérn kernel: the gradient of κ by u is −Slope·exp(−a)·(u−v). For matern12 it is
// infinite at r = 0, where that kernel has no gradient. It panics for other kernels.
func (k Kind) Slope(r float64) float64 {
	switch k {
	case Matern12:
		return 1 / r
	case Matern32:
		return 3
	case Matern52:
		return 5 * (1 + math.Sqrt(5)*r) / 3
	}
	panic("kernel: no slope of " + k.String())
}

// distance is the argument of Decay.
func (k Kind) distance(u, v []float64) float64 {
	if k != Laplace {
		return math.Sqrt(sqDist(u, v))
	}
	var s float64
	for i, a := range u {
		s += math.Abs(a - v[i])
	}
	return s
}

// cancels is the part of |u|²+|v|² below which a squared distance is computed from the difference. There the product
// form has lost half of its digits, which a kernel with a kink at r = 0 would show.
const cancels = 1e-7

// distances turns the inner products of u with the rows of v into the arguments of Decay. Distances of the Laplace
// kernel are not a function of products; they are summed by coordinate from transposed, the columns of v as rows.
func (k Kind) distances(dot, u []float64, v, transposed dense.Matrix[float64], uu float64, vv []float64) {
	if k == Laplace {
		kern.Best[float64]().AbsSums(dot, transposed, u)
		return
	}
	for j, d := range dot {
		all := uu + vv[j]
		sq := all - 2*d
		if sq < cancels*all {
			sq = sqDist(u, v.Row(j))
		}
		dot[j] = math.Sqrt(sq)
	}
}
