//go:build arm64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// targets lists the tables of arm64. Every arm64 CPU has NEON with fused multiply-add in both precisions, so there is
// nothing to ask.
func targets() tables {
	return tables{f32: []*Table[float32]{neon[float32]()}, f64: []*Table[float64]{neon[float64]()}}
}

// neon is the table of 128-bit vectors. Entries without a kernel stay those of Reference.
func neon[T dense.Float]() *Table[T] {
	t := Reference[T]()
	t.Name = "neon"
	t.Width = neonPanel / int(unsafe.Sizeof(T(0)))
	t.MulT = mulTNEON[T]
	t.TMul = tMulNEON[T]
	t.Product = productNEON[T]
	t.MulTExp = mulTExpNEON[T]
	t.MulTSinCos = mulTSinCosNEON[T]
	t.Exp = expNEON[T]
	t.Exp2 = exp2NEON[T]
	t.Log = logNEON[T]
	t.SinCos = sinCosNEON[T]
	t.Max = maxNEON[T]
	t.FWHT = fwhtNEON[T]
	t.Norm2 = norm2NEON[T]
	t.Mul = mulNEON[T]
	t.Scale = scaleNEON[T]
	vectorNEON(t)
	t.Scan = scanWith(scanNEON)
	// Not measured: two fused vector operations per clock at 2.5 GHz, half used, for 100 µs.
	t.Grain = 250_000 * neonLanes[T]()
	t.Structured = 60 // between plain Go and AVX2, whose vectors are twice as wide; not measured either
	return t
}

// is32 says which assembly function serves T. Calls are direct ones behind this branch rather than function values:
// through a value, every argument would escape to the heap.
func is32[T dense.Float]() bool { return unsafe.Sizeof(T(0)) == 4 }

func asF32[T dense.Float](p *T) *float32 { return (*float32)(unsafe.Pointer(p)) }
func asF64[T dense.Float](p *T) *float64 { return (*float64)(unsafe.Pointer(p)) }

// neonLanes is the number of elements of a vector.
func neonLanes[T dense.Float]() int { return 16 / int(unsafe.Sizeof(T(0))) }
