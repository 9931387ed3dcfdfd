package weights

import (
	"encoding/binary"
	"math"

	"github.com/randfeat/randfeat/internal/kern"
)

// Decode converts len(dst) numbers of a type to float32. It is the reference for the types. Every product is rounded
// to float32 before it is added, as in ggml's plain C code (ggml-quants.c, dequantize_row_*); other order of
// rounding would change bits.
func Decode(dst []float32, src []byte, t Type) {
	numbers, bytes := t.Block()
	blocks := len(dst) / numbers
	src = src[:blocks*bytes]
	switch t {
	case F32:
		for len(dst) >= 4 && len(src) >= 16 { // four at a time: the compiler drops the bounds checks
			dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
			dst[1] = math.Float32frombits(binary.LittleEndian.Uint32(src[4:]))
			dst[2] = math.Float32frombits(binary.LittleEndian.Uint32(src[8:]))
			dst[3] = math.Float32frombits(binary.LittleEndian.Uint32(src[12:]))
			dst, src = dst[4:], src[16:]
		}
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = halfAt(src[2*i:])
		}
	case BF16:
		for i := range dst {
			dst[i] = kern.FromBrain(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		decode := decoders[t]
		for i := range blocks {
			decode(dst[i*numbers:][:numbers], src[i*bytes:][:bytes])
		}
	}
}

var decoders = [types]func(dst []float32, src []byte){Q8_0: decodeQ8_0, Q4_0: decodeQ4_0, Q4_1: decodeQ4_1,
	Q5_0: decodeQ5_0, Q5_1: decodeQ5_1, Q4_K: decodeQ4_K, Q5_K: decodeQ5_K, Q6_K: decodeQ6_K}

func halfAt(b []byte) float32 { return kern.FromHalf(binary.LittleEndian.Uint16(b)) }

func decodeQ8_0(dst []float32, src []byte) {
	scale := halfAt(src)
	for i, b := range src[2:34] {
		dst[i] = scale * float32(int8(b))
	}
}

// decodeQ4_0: the low nibbles hold the first half of a block.
func decodeQ4_0(dst []float32, src []byte) {
	scale := halfAt(src)
	for i, b := range src[2:18] {
		dst[i] = scale * float32(int(b&15)-8)
		dst[16+i] = scale * float32(int(b>>4)-8)
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	scale, least := halfAt(src), halfAt(src[2:])
	for i, b := range src[4:20] {
		dst[i] = float32(scale*float32(b&15)) + least
		dst[16+i] = float32(scale*float32(b>>4)) + least
	}
}

// fifth returns the fifth bits of 32 numbers.
func fifth(src []byte) (high [32]byte) {
	bits := binary.LittleEndian.Uint32(src)
	for i := range high {
		high[i] = byte(bits>>i&1) << 4
	}
	return high
}

// decodeQ5_0: like Q4_0, with four bytes of fifth bits before the nibbles.
func decodeQ5_0(dst []float32, src []byte) {
	scale, high := halfAt(src), fifth(src[2:])
	for i, b := range src[6:22] {
		dst[i] = scale * float32(int(b&15|high[i])-16)
		dst[16+i] = scale * float32(int(b>>4|high[16+i])-16)
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	scale, least, high := halfAt(src), halfAt(src[2:]), fifth(src[4:])
	for i, b := range src[8:24] {
		dst[i] = float32(scale*float32(b&15|high[i])) + least
		dst[16+i] = float32(scale*float32(b>>4|high[16+i])) + least
	}
}

// decodeQ5_K: like Q4_K, with 32 bytes of fifth bits before the nibbles: bit b of byte i belongs to number i of block
// b.
func decodeQ5_K(dst []float32, src []byte) {
	scale, least := halfAt(src), halfAt(src[2:])
	packed, high, nibbles := src[4:16], src[16:48], src[48:176]
	for b := range 8 {
		s, m := scaleQ4_K(packed, b)
		ds, dm := scale*float32(s), least*float32(m)
		shift := 4 * uint(b&1)
		for i, v := range nibbles[b/2*32:][:32] {
			dst[32*b+i] = float32(ds*float32(v>>shift&15|high[i]>>b&1<<4)) - dm
		}
	}
}

// decodeQ4_K: a super-block is 8 blocks of 32 numbers, each with a scale and a minimum of 6 bits. 64 numbers share
// 32 bytes: the low nibbles are the first 32, the high nibbles the others.
func decodeQ4_K(dst []float32, src []byte) {
	scale, least := halfAt(src), halfAt(src[2:])
	packed, nibbles := src[4:16], src[16:144]
	for b := range 8 {
		s, m := scaleQ4_K(packed, b)
		ds, dm := scale*float32(s), least*float32(m)
		shift := 4 * uint(b&1)
		for i, v := range nibbles[b/2*32:][:32] {
			dst[32*b+i] = float32(ds*float32(v>>shift&15)) - dm
		}
	}
}

// scaleQ4_K unpacks the scale and the minimum of block b. The first four blocks have them in the low 6 bits of bytes
// b and b+4. The others have their low 4 bits in byte b+4 and their upper 2 bits at the top of bytes b−4 and b.
func scaleQ4_K(packed []byte, b int) (scale, least byte) {
	if b < 4 {
		return packed[b] & 63, packed[b+4] & 63
	}
	return packed[b+4]&15 | packed[b-4]>>6<<4, packed[b+4]>>4 | packed[b]>>6<<4
}

// decodeQ6_K: a super-block is two halves of 128 numbers. In each half, numbers i, i+32, i+64 and i+96 share two
// bytes of low nibbles and one byte of upper pairs. 16 numbers share a scale.
func decodeQ6_K(dst []float32, src []byte) {
	scale := halfAt(src[208:])
	for h := range 2 {
		low, high, scales := src[64*h:][:64], src[128+32*h:][:32], src[192+8*h:][:8]
		for q := range 4 {
			for i := range 32 {
				v := low[32*(q&1)+i] >> (4 * uint(q>>1)) & 15
				v |= high[i] >> (2 * uint(q)) & 3 << 4
				s := scale * float32(int8(scales[2*q+i/16]))
				dst[128*h+32*q+i] = s * float32(int(v)-32)
			}
		}
	}
}
