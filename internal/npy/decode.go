package npy

import (
	"encoding/binary"
	"math"

	"github.com/randfeat/randfeat/internal/kern"
)

// DecodeFloat32 decodes len(dst) elements of b: float32, or float16, which float32 represents exactly. b must
// be long enough; callers have checked the size.
func DecodeFloat32(dst []float32, b []byte, h Header) error {
	if h.Width == 2 {
		decodeHalf(dst, b, h.order)
		return nil
	}
	if h.native() {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return nil
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.BigEndian.Uint32(b[4*i:]))
	}
	return nil
}

// DecodeFloat64 decodes len(dst) float64 elements of b.
func DecodeFloat64(dst []float64, b []byte, h Header) error {
	if h.native() {
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
		return nil
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.BigEndian.Uint64(b[8*i:]))
	}
	return nil
}

// DecodeInt decodes integers of any width, and bools as 0 and 1. An unsigned number beyond int64 is an error.
func DecodeInt(dst []int64, b []byte, h Header) error {
	signed := h.Dtype == Int64 && h.descr[len(h.descr)-2] == 'i'
	for i := range dst {
		e := b[i*h.Width:]
		var u uint64
		switch h.Width {
		case 1:
			u = uint64(e[0])
		case 2:
			u = uint64(h.order.Uint16(e))
		case 4:
			u = uint64(h.order.Uint32(e))
		default:
			u = h.order.Uint64(e)
		}
		switch {
		case h.Dtype == Bool:
			u = min(u, 1) // NumPy treats any byte but 0 as true
		case signed:
			shift := 64 - 8*h.Width
			u = uint64(int64(u<<shift) >> shift)
		case u > math.MaxInt64:
			return Errorf(FaultOverflow, "the element %d is beyond int64", u)
		}
		dst[i] = int64(u)
	}
	return nil
}

// decodeHalf decodes float16.
func decodeHalf(dst []float32, b []byte, order binary.ByteOrder) {
	for i := range dst {
		dst[i] = kern.FromHalf(order.Uint16(b[2*i:]))
	}
}

// native reports whether the file is little-endian, for the fast loops.
func (h Header) native() bool { return h.order == binary.ByteOrder(binary.LittleEndian) }
