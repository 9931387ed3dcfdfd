//go:build arm64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// neonFWHT is the number of bytes that are transformed on their own before the levels across them: half of a small
// first-level cache.
const neonFWHT = 16 << 10

// fwhtNEON is FWHT: four levels per pass over the data, in the order of Reference, whose bits it gives.
func fwhtNEON[T dense.Float](x []T) {
	n := len(x)
	if n < 16 {
		FWHT(x)
		return
	}
	inner := min(n, neonFWHT/int(unsafe.Sizeof(T(0))))
	for i := 0; i < n; i += inner {
		if is32[T]() {
			fwhtBlockNEONF32(asF32(&x[i]), inner/16)
		} else {
			fwhtBlockNEONF64(asF64(&x[i]), inner/16)
		}
		fwhtLevels(x[i:i+inner], 16)
	}
	fwhtLevels(x, inner)
}

// fwhtLevels does the levels h, 2h, …, len(x)/2, with 16 or, in the last pass, fewer streams.
func fwhtLevels[T dense.Float](x []T, h int) {
	lanes := neonLanes[T]()
	for h < len(x) {
		radix := min(16, len(x)/h)
		block := radix * h
		// A call covers some blocks, or a part of one: assembly cannot be preempted.
		blocks := max(1, min(len(x), neonVectors*lanes)/block)
		count := min(h/lanes, neonVectors/radix)
		for i := 0; i < len(x); i += blocks * block {
			for j := 0; j < h; j += count * lanes {
				fwhtPass(&x[i+j], radix, h, count, blocks)
			}
		}
		h = block
	}
}

func fwhtPass[T dense.Float](x *T, radix, h, count, blocks int) {
	if is32[T]() {
		x := asF32(x)
		switch radix {
		case 2:
			fwhtPass2NEONF32(x, h, count, blocks)
		case 4:
			fwhtPass4NEONF32(x, h, count, blocks)
		case 8:
			fwhtPass8NEONF32(x, h, count, blocks)
		case 16:
			fwhtPass16NEONF32(x, h, count, blocks)
		}
		return
	}
	y := asF64(x)
	switch radix {
	case 2:
		fwhtPass2NEONF64(y, h, count, blocks)
	case 4:
		fwhtPass4NEONF64(y, h, count, blocks)
	case 8:
		fwhtPass8NEONF64(y, h, count, blocks)
	case 16:
		fwhtPass16NEONF64(y, h, count, blocks)
	}
}
