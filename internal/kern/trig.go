package kern

import (
	"math"
	"math/bits"
)

// twoOverPi holds 1344 bits of 2/π after one word of zeros, the digits before the binary point.
var twoOverPi = [...]uint64{
	0,
	0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
	0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
	0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
	0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
	0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
	0xa9e391615ee61b08,
}

// sinCosLarge is sin x and cos x for |x| ≥ 1, to 2 ulp however large x is; ±Inf and NaN give NaN. It serves arguments
// that vector kernels do not reduce. math.Sincos would be faster, but near multiples of π it has no correct digits left
// (at 6381956970095103·2^797 the error is 10^14 ulp).
//
// The reduction is that of Payne and Hanek 1983: x = m·2^e, and only 192 bits of 2/π matter, those whose products with
// m·2^e are neither multiples of 4 nor below 2^-190. The product mod 4 gives the quadrant and a fraction that is good
// to 2^-137. In these units no float64 is closer than 2^-62 to an integer, so some 75 bits of the fraction are right,
// and its sum of two numbers keeps them.
func sinCosLarge(x float64) (sin, cos float64) {
	if x-x != 0 {
		return math.NaN(), math.NaN()
	}
	b := math.Float64bits(x)
	m := b&(1<<52-1) | 1<<52
	start := uint(b>>52&0x7ff) - 1075 + 62 // of the bits that matter, counted with the zeros: e − 2 + 64
	var f [3]uint64                        // 192 bits from there, high first
	for i := range f {
		w, s := start/64+uint(i), start%64
		f[i] = twoOverPi[w]<<s | twoOverPi[w+1]>>(64-s)
	}
	// m·f mod 2^192.
	h2, lo := bits.Mul64(m, f[2])
	h1, mid := bits.Mul64(m, f[1])
	mid, carry := bits.Add64(mid, h2, 0)
	hi := m*f[0] + h1 + carry
	quadrant := hi >> 62
	negative := hi>>61&1 == 1 // the fraction is at least ½: go to the next quadrant with a negative fraction
	hi &= 1<<62 - 1
	if negative {
		quadrant++
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		mid, borrow = bits.Sub64(0, mid, borrow)
		hi = (1<<62 - hi) - borrow
	}
	// Write the fraction as r + e. Halves of words are exact in float64; the rounding error of each sum is added to e.
	var r, e float64
	for i, w := range [...]uint64{hi >> 32, hi & 0xffffffff, mid >> 32, mid & 0xffffffff, lo >> 32, lo & 0xffffffff} {
		t := float64(w) * [...]float64{0x1p-30, 0x1p-62, 0x1p-94, 0x1p-126, 0x1p-158, 0x1p-190}[i]
		s := r + t
		e += t - (s - r)
		r = s
	}
	const piHi, piLo = 1.5707963267948966, 6.123233995736766e-17 // π/2
	p := r * piHi
	e = math.FMA(r, piHi, -p) + (r*piLo + e*piHi)
	if negative {
		p, e = -p, -e
	}
	s, c := math.Sincos(p) // |p| ≤ π/4: no reduction
	sin, cos = s+e*c, c-e*s
	switch quadrant & 3 {
	case 1:
		sin, cos = cos, -sin
	case 2:
		sin, cos = -sin, -cos
	case 3:
		sin, cos = -cos, sin
	}
	if x < 0 {
		sin = -sin
	}
	return sin, cos
}
