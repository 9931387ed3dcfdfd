//go:build arm64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// The NEON tiles that end with a function (_gen/neon tells how) are 8 rows high and have the bits of MulT followed by
// Exp, or by SinCos and Scale. So whatever is no such tile goes that way: the last rows, the columns beyond the last
// whole panel, products of more inputs than one pass has.
//
// Instructions for a vector of a tile, 4 float32 or 2 float64, after its product, and for one of the functions apart
// (no time can be measured under emulation):
//
//	       exp    apart   sin and cos   apart
//	f32    28.3   29.8    44.5          50.8
//	f64    38.4   40.0    56.7          64.0

// mulTExpNEON is MulTExp.
func mulTExpNEON[T dense.Float](dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
	checkShift(dst, shift)
	if dst.Rows != x.Rows {
		panic("kern: MulTExp of different shapes")
	}
	rows, cols := fusedNEON(dst, x, w, bias)
	if rows == 0 || cols == 0 {
		expApartNEON(dst, x, w, bias, shift)
		return
	}
	eachFusedNEON(x, w, bias, rows, cols, func(f fusedTile[T]) {
		out, s := &dst.Data[f.i*dst.Stride+f.j], &shift[f.i]
		if is32[T]() {
			mulExpNEONF32(asF32(out), dst.Stride, asF32(f.x), x.Stride, asF32(f.w), x.Cols, f.panelStride, f.panels,
				asF32(f.start), f.startPanel, asF32(s))
		} else {
			mulExpNEONF64(asF64(out), dst.Stride, asF64(f.x), x.Stride, asF64(f.w), x.Cols, f.panelStride, f.panels,
				asF64(f.start), f.startPanel, asF64(s))
		}
	})
	if cols < w.Rows {
		part, b := columnsFrom(w, bias, cols)
		expApartNEON(dst.RowRange(0, rows).ColRange(cols, w.Rows), x.RowRange(0, rows), &part, b, shift[:rows])
	}
	if rows < x.Rows {
		expApartNEON(dst.RowRange(rows, x.Rows), x.RowRange(rows, x.Rows), w, bias, shift[rows:])
	}
}

// mulTSinCosNEON is MulTSinCos.
func mulTSinCosNEON[T dense.Float](sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
	checkSinCos(sin, cos, x)
	neonCheck("cos", cos)
	rows, cols := fusedNEON(sin, x, w, bias)
	if rows == 0 || cols == 0 {
		sinCosApartNEON(sin, cos, x, w, bias, f)
		return
	}
	eachFusedNEON(x, w, bias, rows, cols, func(a fusedTile[T]) {
		s, c := &sin.Data[a.i*sin.Stride+a.j], &cos.Data[a.i*cos.Stride+a.j]
		var inside int
		if is32[T]() {
			inside = mulSinCosNEONF32(asF32(s), sin.Stride, asF32(c), cos.Stride, asF32(a.x), x.Stride, asF32(a.w),
				x.Cols, a.panelStride, a.panels, asF32(a.start), a.startPanel, asF32(&f))
		} else {
			inside = mulSinCosNEONF64(asF64(s), sin.Stride, asF64(c), cos.Stride, asF64(a.x), x.Stride, asF64(a.w),
				x.Cols, a.panelStride, a.panels, asF64(a.start), a.startPanel, asF64(&f))
		}
		if inside == 0 { // large arguments: all of the tile again
			part, b := columnsFrom(w, bias, a.j)
			part.Rows = a.panels * w.Width
			if b != nil {
				b = b[:part.Rows]
			}
			end := a.j + part.Rows
			sinCosApartNEON(sin.RowRange(a.i, a.i+neonRows).ColRange(a.j, end),
				cos.RowRange(a.i, a.i+neonRows).ColRange(a.j, end), x.RowRange(a.i, a.i+neonRows), &part, b, f)
		}
	})
	if cols < w.Rows {
		part, b := columnsFrom(w, bias, cols)
		sinCosApartNEON(sin.RowRange(0, rows).ColRange(cols, w.Rows), cos.RowRange(0, rows).ColRange(cols, w.Rows),
			x.RowRange(0, rows), &part, b, f)
	}
	if rows < x.Rows {
		sinCosApartNEON(sin.RowRange(rows, x.Rows), cos.RowRange(rows, x.Rows), x.RowRange(rows, x.Rows), w, bias, f)
	}
}

// expApartNEON and sinCosApartNEON are productThenExp and mulThenSinCos with direct calls: through function values,
// their arguments would escape to the heap.
func expApartNEON[T dense.Float](dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
	for i := 0; i < x.Rows; i += expRows {
		end := min(i+expRows, x.Rows)
		mulTNEON(dst.RowRange(i, end), x.RowRange(i, end), w, bias)
		for r := i; r < end; r++ {
			expNEON(dst.Row(r), shift[r])
		}
	}
}

func sinCosApartNEON[T dense.Float](sin, cos, x dense.Matrix[T], w *Panel[T], bias []T, f T) {
	for i := 0; i < x.Rows; i += oscillateRows {
		end := min(i+oscillateRows, x.Rows)
		mulTNEON(sin.RowRange(i, end), x.RowRange(i, end), w, bias)
		for r := i; r < end; r++ {
			s, c := sin.Row(r), cos.Row(r)
			sinCosNEON(s, c, s)
			if f != 1 {
				scaleNEON(s, f)
				scaleNEON(c, f)
			}
		}
	}
}

// fusedNEON is the number of rows and columns that whole tiles cover. It is 0 where there are none or where shapes are
// wrong, which MulT then says.
func fusedNEON[T dense.Float](dst, x dense.Matrix[T], w *Panel[T], bias []T) (rows, cols int) {
	neonCheck("dst", dst)
	neonCheck("x", x)
	width := neonPanel / int(unsafe.Sizeof(T(0)))
	switch {
	case w.Width != width, len(w.Data) < (w.Rows+width-1)/width*width*w.Cols:
	case x.Cols != w.Cols, dst.Cols != w.Rows, dst.Rows != x.Rows, bias != nil && len(bias) != w.Rows:
	case x.Cols == 0 || x.Cols > neonInputs:
	default:
		return x.Rows / neonRows * neonRows, w.Rows / width * width
	}
	return 0, 0
}

// fusedTile is one call: neonRows rows from i on, panels panels from column j on.
type fusedTile[T dense.Float] struct {
	i, j, panels, panelStride int
	x, w, start               *T
	startPanel                int
}

// neonZero starts sums that have no bias: one panel.
var neonZero [neonPanel / 8]uint64

// eachFusedNEON calls do for all tiles, in the order of mulTNEON.
func eachFusedNEON[T dense.Float](x dense.Matrix[T], w *Panel[T], bias []T, rows, cols int, do func(f fusedTile[T])) {
	width, d := w.Width, x.Cols
	group := min(max(1, neonGroup/(d*neonPanel)), max(1, neonWork/(d*width*neonRows))) * width
	for j := 0; j < cols; j += group {
		for i := 0; i < rows; i += neonRows {
			f := fusedTile[T]{i: i, j: j, panels: min(group, cols-j) / width, panelStride: d * width,
				x: &x.Data[i*x.Stride], w: &w.Data[j*d], start: (*T)(unsafe.Pointer(&neonZero))}
			if bias != nil {
				f.start, f.startPanel = &bias[j], width
			}
			do(f)
		}
	}
}

// columnsFrom is w and its bias from output j on, the first of a panel.
func columnsFrom[T dense.Float](w *Panel[T], bias []T, j int) (Panel[T], []T) {
	if bias != nil {
		bias = bias[j:]
	}
	return Panel[T]{Rows: w.Rows - j, Cols: w.Cols, Width: w.Width, Data: w.Data[j*w.Cols:]}, bias
}
