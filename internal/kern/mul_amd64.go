//go:build amd64 && !noasm

package kern

import "unsafe"

// target numbers the assembly functions.
type target int

const (
	avx512F32 target = iota
	avx512F64
	avx2F32
	avx2F64
)

// The largest tiles: 16 accumulators of AVX-512, 24 in pairs of panels, 12 of AVX2. Pairs issue fewer instructions for
// a multiply-add: 2 to 5 % faster on an idle core, 8 to 15 % on one whose other thread is busy. 14 rows of one panel
// gain 3 % at d = 64 and lose at d ≥ 256.
var (
	shapeAVX512F32 = shape{id: avx512F32, rows: 8, pairRows: 6, lanes: 16, size: 4}
	shapeAVX512F64 = shape{id: avx512F64, rows: 8, pairRows: 6, lanes: 8, size: 8}
	shapeAVX2F32   = shape{id: avx2F32, rows: 6, lanes: 8, size: 4}
	shapeAVX2F64   = shape{id: avx2F64, rows: 6, lanes: 4, size: 8}
)

// call is a switch rather than a function value: through a value, t would escape to the heap.
func (id target) call(t *tile) {
	switch id {
	case avx512F32:
		mulTileAVX512F32(t)
	case avx512F64:
		mulTileAVX512F64(t)
	case avx2F32:
		mulTileAVX2F32(t)
	case avx2F64:
		mulTileAVX2F64(t)
	}
}

// laneMasks holds eight set words, then eight clear ones: read from n words before the middle, it selects n lanes.
var laneMasks = [16]uint32{0: ^uint32(0), 1: ^uint32(0), 2: ^uint32(0), 3: ^uint32(0), 4: ^uint32(0), 5: ^uint32(0),
	6: ^uint32(0), 7: ^uint32(0)}

// mask selects the first n lanes of a vector: bits for AVX-512, the address of words for AVX2.
func (s shape) mask(n int) uintptr {
	if s.id == avx512F32 || s.id == avx512F64 {
		return 1<<n - 1
	}
	return uintptr(unsafe.Pointer(&laneMasks)) + uintptr(32-n*s.size)
}

// peakChains is the number of vectors in a round of the peak loops (_gen/mul).
const peakChains = 12

// peak runs rounds of multiply-adds on the registers of a table and returns their floating-point operations; 0 if the
// table is not of this target.
func peak(name string, double bool, rounds int) int {
	s := shape{}
	switch {
	case name == nameAVX512 && !double:
		s = shapeAVX512F32
		peakAVX512F32(rounds)
	case name == nameAVX512:
		s = shapeAVX512F64
		peakAVX512F64(rounds)
	case name == nameAVX2 && !double:
		s = shapeAVX2F32
		peakAVX2F32(rounds)
	case name == nameAVX2:
		s = shapeAVX2F64
		peakAVX2F64(rounds)
	}
	return 2 * s.lanes * peakChains * rounds
}
