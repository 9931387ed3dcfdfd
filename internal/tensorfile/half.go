package tensorfile

import "math"

// Half is a float16, IEEE 754 binary16, as a float32, which holds every one of them.
func Half(b uint16) float32 {
	sign := uint32(b>>15) << 31
	exponent, fraction := uint32(b>>10&0x1f), uint32(b&0x3ff)
	switch exponent {
	case 0: // fraction·2⁻²⁴, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 0x1f: // infinities and NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// Brain is a bfloat16, the upper half of a float32.
func Brain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
