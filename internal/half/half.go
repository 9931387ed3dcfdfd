// Package half converts numbers of 16 bits, IEEE 754 binary16 and bfloat16, from and to float32.
package half

import "math"

// Round rounds to half precision, to nearest even: numbers of 65520 and more become infinite.
func Round(x float32) uint16 {
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
	b += 0xfff + b>>13&1
	return sign | uint16((b-(112<<23))>>13)
}

// Float is a number in half precision as a float32, which holds every one of them.
func Float(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // frac·2⁻²⁴, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 31: // infinities and NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Brain is a bfloat16, the upper half of a float32.
func Brain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
