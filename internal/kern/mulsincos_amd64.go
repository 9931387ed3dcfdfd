//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// fusedSinCos sets MulTSinCos. Largest errors of sine and cosine with f = 1, |t| ≤ 10⁵, in ulp (mulsincos_test.go
// measures and bounds them): 1.54 in float32, over every 29th argument, 1.49 in float64. AVX-512 and AVX2 have the same
// operations, and so the same bits.
func fusedSinCos[T dense.Float](t *Table[T], s shape) {
	t.MulTSinCos = func(sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
		mulTSinCosTiled(s, sin, cos, x, w, bias, f)
	}
}

// sinCosFactors are the coefficients of the kernel times f: f, −f/2, −f·C₃, those of the sine, those of the cosine,
// each alone for AVX-512 and as a vector for AVX2. The kernel's generator (_gen/mul) writes them, from the polynomials
// of _gen/approx.
type sinCosFactors[T dense.Float] struct {
	f      T
	kernel [15 * 4]uint64 // 15 of the vectors of AVX2
}

func (c *sinCosFactors[T]) set(s shape, f T) {
	from := coefficients32[:]
	if s.size == 8 {
		from = coefficients64[:]
	}
	copies := 1
	if s.id == avx2F32 || s.id == avx2F64 {
		copies = s.lanes
	}
	c.f = f
	to := unsafe.Slice((*T)(unsafe.Pointer(&c.kernel)), copies*len(from))
	for i := range to {
		to[i] = T(from[i/copies] * float64(f))
	}
}

// apply writes f·sin t and f·cos t; t may be sin or cos. Groups with a |t| > trigLimit, or NaN, go through the kernel
// with zeros in its place, which is then computed in Go: its neighbours get the bits they always get.
func (c *sinCosFactors[T]) apply(id target, sin, cos, t []T) {
	sin, cos = sin[:len(t)], cos[:len(t)]
	for len(t) > 0 {
		n := c.call(id, sin, cos, t, min(len(t), callElements))
		if n == 0 {
			var large [64]T // as many as the kernel looks at together
			n = copy(large[:], t)
			for i, v := range large[:n] {
				if !(v <= trigLimit && v >= -trigLimit) {
					v = 0
				}
				sin[i] = v
			}
			c.call(id, sin, cos, sin, n)
			for i, v := range large[:n] {
				if !(v <= trigLimit && v >= -trigLimit) {
					s, k := sinCosLarge(float64(v))
					sin[i], cos[i] = T(s*float64(c.f)), T(k*float64(c.f))
				}
			}
		}
		sin, cos, t = sin[n:], cos[n:], t[n:]
	}
}

// call is a switch and not a function value: through one, c would escape to the heap.
func (c *sinCosFactors[T]) call(id target, sin, cos, t []T, n int) int {
	s, k, a, f := data(sin), data(cos), data(t), unsafe.Pointer(&c.kernel)
	switch id {
	case avx512F32:
		return mulSinCosAVX512F32((*float32)(s), (*float32)(k), (*float32)(a), n, (*float32)(f))
	case avx512F64:
		return mulSinCosAVX512F64((*float64)(s), (*float64)(k), (*float64)(a), n, (*float64)(f))
	case avx2F32:
		return mulSinCosAVX2F32((*float32)(s), (*float32)(k), (*float32)(a), n, (*float32)(f))
	}
	return mulSinCosAVX2F64((*float64)(s), (*float64)(k), (*float64)(a), n, (*float64)(f))
}

// oscillationTile is the argument of the tiles that end with sine and cosine: tiles × rows rows of a and panels × 2
// vectors of columns of b, over k ≥ 1 inputs. Strides are in bytes. The generated code depends on the order of the
// fields (_gen/mul).
type oscillationTile struct {
	a, b, sin, cos, init                    unsafe.Pointer
	aRow, bPanel, sinRow, cosRow, initPanel uintptr
	k, panels, tiles, rows                  int
	masks                                   [2]uintptr       // columns of the last panel
	large                                   int              // set if a |t| > trigLimit was met
	_                                       [4]uintptr       // scratch of the assembly
	_                                       [8 * 2 * 64]byte // arguments of one tile
	factors                                 [15 * 4]uint64   // of a sinCosFactors
}

// mulTSinCosTiled is MulTSinCos.
func mulTSinCosTiled[T dense.Float](s shape, sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
	checkSinCos(sin, cos, x)
	checkView("cos", cos)
	if sin.IsEmpty() {
		return
	}
	raceWrite(cos)
	var c sinCosFactors[T]
	c.set(s, f)
	if x.Rows == 1 || x.Cols > blockInputs || x.Cols == 0 {
		// A single row is faster as a wide product, and many inputs need several passes.
		for i := 0; i < x.Rows; i += oscillateRows {
			end := min(i+oscillateRows, x.Rows)
			mulTTiled(s, sin.RowRange(i, end), x.RowRange(i, end), w, bias)
			for r := i; r < end; r++ {
				c.apply(s.id, sin.Row(r), cos.Row(r), sin.Row(r))
			}
		}
		return
	}
	if !checkMulT(s, sin, x, w, bias) {
		return
	}
	width, size := s.width(), uintptr(s.size)
	p := newMulT(s, sin, x, w, bias)
	t := oscillationTile{aRow: p.aRow, bPanel: p.bPanel, sinRow: p.cRow, cosRow: uintptr(cos.Stride) * size,
		initPanel: p.initPanel, k: p.d, factors: c.kernel}
	group := max(1, blockBytes/(p.d*width*s.size)) * width // columns
	for j := 0; j < p.m; j += group {
		cols := min(group, p.m-j)
		t.panels = (cols + width - 1) / width
		last := cols - (t.panels-1)*width
		t.masks = [2]uintptr{s.mask(min(last, s.lanes)), s.mask(max(last-s.lanes, 0))}
		if last == width && s.id != avx512F32 && s.id != avx512F64 {
			t.masks = [2]uintptr{} // AVX2 stores through masks only where it must
		}
		rows := max(s.rows, callWork/(p.d*cols)/s.rows*s.rows)
		for i := 0; i < p.n; i += rows {
			t.a = unsafe.Add(p.a, uintptr(i)*p.aRow)
			t.b = unsafe.Add(p.b, uintptr(j/width)*p.bPanel)
			t.init = unsafe.Add(p.init, uintptr(j/width)*p.initPanel)
			t.sin = unsafe.Pointer(&sin.Row(i)[j])
			t.cos = unsafe.Pointer(&cos.Row(i)[j])
			end := min(i+rows, p.n)
			t.run(s, end-i)
			if t.large != 0 {
				t.large = 0
				part := Panel[T]{Rows: cols, Cols: w.Cols, Width: w.Width, Data: w.Data[j*w.Cols:]}
				var b []T
				if bias != nil {
					b = bias[j : j+cols]
				}
				redoLarge(s, sin.RowRange(i, end).ColRange(j, j+cols), cos.RowRange(i, end).ColRange(j, j+cols),
					x.RowRange(i, end), &part, b, f)
			}
		}
	}
}

// run covers rows rows with tiles of nearly equal height, as shape.run does.
func (t *oscillationTile) run(s shape, rows int) {
	tiles := (rows + s.rows - 1) / s.rows
	low, high := rows/tiles, rows%tiles // high tiles have one row more
	if high > 0 {
		t.rows, t.tiles = low+1, high
		t.call(s.id)
		done := uintptr(high * (low + 1))
		t.a = unsafe.Add(t.a, done*t.aRow)
		t.sin = unsafe.Add(t.sin, done*t.sinRow)
		t.cos = unsafe.Add(t.cos, done*t.cosRow)
	}
	t.rows, t.tiles = low, tiles-high
	t.call(s.id)
}

func (t *oscillationTile) call(id target) {
	switch id {
	case avx512F32:
		mulSinCosTileAVX512F32(t)
	case avx512F64:
		mulSinCosTileAVX512F64(t)
	case avx2F32:
		mulSinCosTileAVX2F32(t)
	case avx2F64:
		mulSinCosTileAVX2F64(t)
	}
}

// redoLarge replaces the results of projections beyond trigLimit, which the tiles got wrong.
func redoLarge[T dense.Float](s shape, sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
	var buf [512]T
	width := s.width()
	for j := 0; j < w.Rows; j += len(buf) {
		cols := min(len(buf), w.Rows-j)
		part := Panel[T]{Rows: cols, Cols: w.Cols, Width: width, Data: w.Data[j*w.Cols:]}
		var b []T
		if bias != nil {
			b = bias[j : j+cols]
		}
		for i := range x.Rows {
			t := dense.Matrix[T]{Rows: 1, Cols: cols, Stride: cols, Data: buf[:cols]}
			mulTTiled(s, t, x.RowRange(i, i+1), &part, b)
			for l, v := range t.Data {
				if v > trigLimit || v < -trigLimit {
					si, co := sinCosLarge(float64(v))
					sin.Row(i)[j+l], cos.Row(i)[j+l] = T(si*float64(f)), T(co*float64(f))
				}
			}
		}
	}
}
