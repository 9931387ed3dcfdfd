//go:build arm64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// vectorNEON replaces the sums and the packing of a table.
func vectorNEON[T dense.Float](t *Table[T]) {
	t.ColSum = colSumNEON[T]
	t.MulV = mulVNEON[T]
	t.MulAdd = mulAddNEON[T]
	t.ExpSum = expSumNEON[T]
	t.FlushMax = flushMaxNEON[T]
	t.pack = packer[T]{rows: neonLanes[T](), cols: neonLanes[T](), kernel: func(dst []T, w dense.Matrix[T],
		blocks int) {
		stride := w.Stride * int(unsafe.Sizeof(T(0)))
		if is32[T]() {
			packNEONF32(asF32(&dst[0]), asF32(&w.Data[0]), stride, blocks)
		} else {
			packNEONF64(asF64(&dst[0]), asF64(&w.Data[0]), stride, blocks)
		}
	}}
}

// neonCallRows is the number of rows of cols elements for one call.
func neonCallRows[T dense.Float](cols int) int { return max(1, 8*neonVectors*neonLanes[T]()/cols) }

func colSumNEON[T dense.Float](dst []T, a dense.Matrix[T]) {
	neonCheck("a", a)
	if len(dst) != a.Cols {
		panic("kern: ColSum of different shapes")
	}
	if a.IsEmpty() {
		return
	}
	vectors := a.Cols / neonLanes[T]()
	whole := vectors * neonLanes[T]()
	step := neonCallRows[T](a.Cols)
	for i := 0; i < a.Rows && vectors > 0; i += step {
		rows, stride := min(step, a.Rows-i), a.Stride*int(unsafe.Sizeof(T(0)))
		if p := &a.Data[i*a.Stride]; is32[T]() {
			colSumNEONF32(asF32(&dst[0]), asF32(p), rows, vectors, stride)
		} else {
			colSumNEONF64(asF64(&dst[0]), asF64(p), rows, vectors, stride)
		}
	}
	if whole < a.Cols {
		colSum(dst[whole:], a.ColRange(whole, a.Cols))
	}
}

// mulVNEON sums whole vectors, then adds the products of the other elements in order.
func mulVNEON[T dense.Float](dst []T, a dense.Matrix[T], v []T) {
	neonCheck("a", a)
	if len(dst) != a.Rows || len(v) != a.Cols {
		panic("kern: MulV of different shapes")
	}
	clear(dst)
	if a.IsEmpty() {
		return
	}
	vectors := a.Cols / neonLanes[T]()
	whole := vectors * neonLanes[T]()
	step := neonCallRows[T](a.Cols)
	for i := 0; i < a.Rows && vectors > 0; i += step {
		rows, stride := min(step, a.Rows-i), a.Stride*int(unsafe.Sizeof(T(0)))
		if p := &a.Data[i*a.Stride]; is32[T]() {
			mulVNEONF32(asF32(&dst[i]), asF32(p), rows, vectors, stride, asF32(&v[0]))
		} else {
			mulVNEONF64(asF64(&dst[i]), asF64(p), rows, vectors, stride, asF64(&v[0]))
		}
	}
	if whole < a.Cols {
		for i := range dst {
			dst[i] += dense.Dot(a.Row(i)[whole:], v[whole:])
		}
	}
}

func mulAddNEON[T dense.Float](dst, a []T, f T) {
	lanes := neonLanes[T]()
	a = a[:len(dst)]
	for len(dst) >= lanes {
		v := min(len(dst)/lanes, 8*neonVectors)
		if is32[T]() {
			mulAddNEONF32(asF32(&dst[0]), asF32(&a[0]), v, float32(f))
		} else {
			mulAddNEONF64(asF64(&dst[0]), asF64(&a[0]), v, float64(f))
		}
		dst, a = dst[v*lanes:], a[v*lanes:]
	}
	mulAdd(dst, a, f)
}

func flushMaxNEON[T dense.Float](x []T) T {
	lanes := neonLanes[T]()
	for y := x; len(y) >= lanes; {
		v := min(len(y)/lanes, neonVectors)
		if is32[T]() {
			flushNEONF32(asF32(&y[0]), v)
		} else {
			flushNEONF64(asF64(&y[0]), v)
		}
		y = y[v*lanes:]
	}
	flushMax(x[len(x)/lanes*lanes:])
	return maxNEON(x)
}

// expSumNEON sums parts that are still in the first-level cache.
func expSumNEON[T dense.Float](dst []T, shift T) T {
	const part = 1024
	var s T
	for len(dst) > 0 {
		n := min(part, len(dst))
		expNEON(dst[:n], shift)
		if v := n / neonLanes[T](); v > 0 {
			if is32[T]() {
				s += T(sumNEONF32(asF32(&dst[0]), v))
			} else {
				s += T(sumNEONF64(asF64(&dst[0]), v))
			}
		}
		for _, v := range dst[n/neonLanes[T]()*neonLanes[T]() : n] {
			s += v
		}
		dst = dst[n:]
	}
	return s
}
