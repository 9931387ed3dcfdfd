package kern

import "math"

// ToHalf rounds x to half precision, to the nearest number and to even in case of a tie. Numbers of magnitude 65520 and
// more become infinite, and every NaN becomes the same quiet NaN with the sign of x.
func ToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520
		return sign | 0x7c00
	case b < 0x38800000: // below the smallest normal number: units of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*0x1p24))
	}
	// The exponents' biases are 127 and 15, which differ by 112, and 13 bits of the fraction are dropped. A carry of
	// the rounding runs into the exponent, as it should; the second case has excluded one that reaches infinity.
	b += 0xfff + b>>13&1
	return sign | uint16((b-(112<<23))>>13)
}

// FromHalf converts a half-precision number to float32, which represents all of them exactly.
func FromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // frac·2⁻²⁴, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 31: // infinities and NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// FromBrain converts a bfloat16, which is the upper half of a float32.
func FromBrain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
