//go:build arm64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

const (
	// neonPanel is the number of bytes of one input in a panel: two vectors.
	neonPanel = 32
	// neonRows is the height of the largest tile, which has 16 sums.
	neonRows = 8
	// neonInputs bounds the inputs of one pass: a panel takes 16 KiB of the first-level cache, a tile of x as much in
	// float32 and twice that in float64. Between passes the sums wait in dst, which does not change their bits.
	neonInputs = 512
	// neonGroup is the number of bytes of panels that are used by all rows in turn before the next ones: it fits in the
	// second-level cache of small cores.
	neonGroup = 128 << 10
	// neonWork bounds the multiply-adds of one call, since assembly cannot be preempted: 100 µs of float64 at one
	// vector per clock and 2 GHz.
	neonWork = 400_000
)

// neonTile is one call of a tile: rows × panels outputs start + x·wᵀ over d inputs. Row r of panel p starts from
// start[r·startRow + p·startPanel]. Strides are in elements.
type neonTile[T dense.Float] struct {
	dst, x, w, start                           *T
	ldd, ldx, wK, d, panelStride, rows, panels int
	startRow, startPanel                       int
}

// run covers 1 to 8 rows with tiles of 8, 4, 2 and 1.
func (t neonTile[T]) run() {
	for t.rows > 0 {
		rows := 1
		switch {
		case t.rows >= 8:
			rows = 8
		case t.rows >= 4:
			rows = 4
		case t.rows >= 2:
			rows = 2
		case t.panels >= 4:
			// A single row: four panels at a time, then the rest.
			more := t.panels % 4
			t.panels -= more
			t.call(-4)
			if more > 0 {
				t.dst = at(t.dst, t.panels*t.width())
				t.w = at(t.w, t.panels*t.panelStride)
				t.start = at(t.start, t.panels*t.startPanel)
				t.panels = more
				t.call(1)
			}
			return
		}
		t.call(rows)
		if t.rows -= rows; t.rows == 0 {
			return
		}
		t.dst, t.x, t.start = at(t.dst, rows*t.ldd), at(t.x, rows*t.ldx), at(t.start, rows*t.startRow)
	}
}

func (t *neonTile[T]) width() int { return neonPanel / int(unsafe.Sizeof(T(0))) }

// call runs the tile of that many rows; −4 is one row and panels in fours.
func (t *neonTile[T]) call(rows int) {
	if is32[T]() {
		dst, x, w, start := asF32(t.dst), asF32(t.x), asF32(t.w), asF32(t.start)
		switch rows {
		case 8:
			mulT8NEONF32(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
		case 4:
			mulT4NEONF32(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
		case 2:
			mulT2NEONF32(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
		case 1:
			mulT1NEONF32(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
		case -4:
			mulT1x4NEONF32(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
		}
		return
	}
	dst, x, w, start := asF64(t.dst), asF64(t.x), asF64(t.w), asF64(t.start)
	switch rows {
	case 8:
		mulT8NEONF64(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
	case 4:
		mulT4NEONF64(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
	case 2:
		mulT2NEONF64(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
	case 1:
		mulT1NEONF64(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
	case -4:
		mulT1x4NEONF64(dst, t.ldd, x, t.ldx, w, t.wK, t.d, t.panelStride, t.panels, start, t.startRow, t.startPanel)
	}
}

// at is p moved by i elements; the caller knows that they exist.
func at[T dense.Float](p *T, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), i*int(unsafe.Sizeof(T(0)))))
}

// mulTNEON is MulT. Every output is one chain start + x_0·w_0 + x_1·w_1 + … of fused multiply-adds, whatever tile,
// pass or batch it belongs to.
func mulTNEON[T dense.Float](dst, x dense.Matrix[T], w *Panel[T], bias []T) {
	neonCheck("dst", dst)
	neonCheck("x", x)
	width := neonPanel / int(unsafe.Sizeof(T(0)))
	n, d, m := x.Rows, x.Cols, w.Rows
	switch {
	case w.Width != width:
		panic("kern: panel packed for another table")
	case len(w.Data) < (m+width-1)/width*width*w.Cols:
		panic("kern: panel data too short")
	case d != w.Cols || dst.Cols != m || dst.Rows != n:
		panic("kern: MulT of different shapes")
	case bias != nil && len(bias) != m:
		panic("kern: bias of another length")
	}
	if n == 0 || m == 0 {
		return
	}
	if d == 0 {
		for i := range n {
			clear(dst.Row(i))
			copy(dst.Row(i), bias)
		}
		return
	}
	var zero [neonPanel / 4]T
	for k0 := 0; k0 < d; k0 += neonInputs {
		k := min(neonInputs, d-k0)
		group := min(max(1, neonGroup/(k*neonPanel)), max(1, neonWork/(k*width*neonRows)))
		for p0 := 0; p0*width < m; p0 += group {
			full := min(group, m/width-p0)
			tail := 0
			if full < group {
				tail = max(0, m-(p0+full)*width)
			}
			for i := 0; i < n; i += neonRows {
				t := neonTile[T]{
					x: &x.Data[i*x.Stride+k0], ldx: x.Stride, wK: width, d: k, panelStride: d * width,
					ldd: dst.Stride, rows: min(neonRows, n-i),
				}
				if full > 0 {
					j := p0 * width
					t.dst, t.w, t.panels = &dst.Data[i*dst.Stride+j], &w.Data[j*d+k0*width], full
					switch {
					case k0 > 0:
						t.start, t.startRow, t.startPanel = t.dst, dst.Stride, width
					case bias != nil:
						t.start, t.startRow, t.startPanel = &bias[j], 0, width
					default:
						t.start, t.startRow, t.startPanel = &zero[0], 0, 0
					}
					t.run()
				}
				if tail > 0 {
					j := (p0 + full) * width
					t.w, t.panels = &w.Data[j*d+k0*width], 1
					var b []T
					if k0 == 0 && bias != nil {
						b = bias[j:m]
					}
					t.runTail(dst, i, j, tail, k0 > 0, b)
				}
			}
		}
	}
}

// productNEON is Product: panels of s lie side by side, and its inputs a row apart.
func productNEON[T dense.Float](dst, x, s dense.Matrix[T], add bool) {
	neonCheck("dst", dst)
	neonCheck("x", x)
	neonCheck("s", s)
	n, d, m := dst.Rows, s.Rows, dst.Cols
	if n != x.Rows || x.Cols != d || m != s.Cols {
		panic("kern: Product of different shapes")
	}
	if n == 0 || m == 0 {
		return
	}
	if d == 0 {
		for i := 0; !add && i < n; i++ {
			clear(dst.Row(i))
		}
		return
	}
	width := neonPanel / int(unsafe.Sizeof(T(0)))
	full := m / width
	var zero [neonPanel / 4]T
	for k0 := 0; k0 < d; k0 += neonInputs {
		k := min(neonInputs, d-k0)
		resume := add || k0 > 0
		group := min(max(1, neonGroup/(k*neonPanel)), max(1, neonWork/(k*width*neonRows)))
		for p0 := 0; p0 < full; p0 += group {
			for i := 0; i < n; i += neonRows {
				t := neonTile[T]{
					x: &x.Data[i*x.Stride+k0], ldx: x.Stride, d: k, rows: min(neonRows, n-i),
					w: &s.Data[k0*s.Stride+p0*width], wK: s.Stride, panelStride: width, panels: min(group, full-p0),
					dst: &dst.Data[i*dst.Stride+p0*width], ldd: dst.Stride, start: &zero[0],
				}
				if resume {
					t.start, t.startRow, t.startPanel = t.dst, dst.Stride, width
				}
				t.run()
			}
		}
		if full*width < m {
			productTailNEON(dst, x, s, k0, k, full*width, resume)
		}
	}
}

// productTailNEON computes the columns from j on, fewer than a panel. They are packed: the vectors of a panel would
// reach past the end of s.
func productTailNEON[T dense.Float](dst, x, s dense.Matrix[T], k0, k, j int, resume bool) {
	width := neonPanel / int(unsafe.Sizeof(T(0)))
	var panel [neonInputs * neonPanel / 4]T
	packStrip(panel[:], width, s, k0, k, j, s.Cols-j)
	for i := 0; i < dst.Rows; i += neonRows {
		t := neonTile[T]{
			x: &x.Data[i*x.Stride+k0], ldx: x.Stride, d: k, rows: min(neonRows, dst.Rows-i),
			w: &panel[0], wK: width, panelStride: width, panels: 1,
		}
		t.runTail(dst, i, j, s.Cols-j, resume, nil)
	}
}

// runTail computes a panel of which only tail columns exist in a full tile beside dst, and copies those.
func (t neonTile[T]) runTail(dst dense.Matrix[T], i, j, tail int, resume bool, bias []T) {
	width := t.width()
	var out [neonRows * neonPanel / 4]T
	for r := range t.rows {
		if resume {
			copy(out[r*width:], dst.Data[(i+r)*dst.Stride+j:][:tail])
		} else {
			copy(out[r*width:], bias)
		}
	}
	t.dst, t.ldd = &out[0], width
	t.start, t.startRow, t.startPanel = t.dst, width, width
	t.run()
	for r := range t.rows {
		copy(dst.Data[(i+r)*dst.Stride+j:][:tail], out[r*width:])
	}
}

// neonCheck panics on a malformed matrix: assembly would read or write past its memory.
func neonCheck[T dense.Float](name string, m dense.Matrix[T]) {
	if err := m.Check(); err != nil {
		panic("kern: " + name + ": " + err.Error())
	}
}

// neonStrip is the number of rows of a and b in one pass of TMul.
const neonStrip = 64

// tMulNEON is TMul. Every element of dst is one chain of fused multiply-adds over the rows in order, as in Reference.
//
// Rows come in passes of 64. In each, 8 columns of a at a time are packed (a column walk over a would fall on few sets
// of the cache when its stride is a power of two) and meet all columns of b. Columns beyond the last full block of a
// or b are packed with zeros around them and summed beside dst.
func tMulNEON[T dense.Float](dst, a, b dense.Matrix[T]) {
	neonCheck("dst", dst)
	neonCheck("a", a)
	neonCheck("b", b)
	width := neonPanel / int(unsafe.Sizeof(T(0)))
	m, q := a.Cols, b.Cols
	if a.Rows != b.Rows || dst.Rows != m || dst.Cols != q {
		panic("kern: TMul of different shapes")
	}
	if a.Rows == 0 || m == 0 || q == 0 {
		return
	}
	blocks := q / width
	// One call does up to step blocks of b.
	const step = neonWork / (neonStrip * neonRows * neonPanel / 4)
	var strip [neonStrip * neonRows]T
	var right [neonStrip * neonPanel / 4]T
	var sums [neonRows * neonPanel / 4]T
	for i0 := 0; i0 < a.Rows; i0 += neonStrip {
		n := min(neonStrip, a.Rows-i0)
		tail := q - blocks*width
		if tail > 0 {
			packStrip(right[:], width, b, i0, n, blocks*width, tail)
		}
		for k := 0; k < m; k += neonRows {
			rows := min(neonRows, m-k)
			packStrip(strip[:], neonRows, a, i0, n, k, rows)
			if rows == neonRows {
				for j := 0; j < blocks; j += step {
					tMulTile(&dst.Data[k*dst.Stride+j*width], dst.Stride, &strip[0], &b.Data[i0*b.Stride+j*width],
						b.Stride, n, min(step, blocks-j))
				}
			} else {
				for j := 0; j < blocks; j++ {
					copyTile(sums[:], width, dst, k, rows, j*width, width, false)
					tMulTile(&sums[0], width, &strip[0], &b.Data[i0*b.Stride+j*width], b.Stride, n, 1)
					copyTile(sums[:], width, dst, k, rows, j*width, width, true)
				}
			}
			if tail > 0 {
				copyTile(sums[:], width, dst, k, rows, blocks*width, tail, false)
				tMulTile(&sums[0], width, &strip[0], &right[0], width, n, 1)
				copyTile(sums[:], width, dst, k, rows, blocks*width, tail, true)
			}
		}
	}
}

func tMulTile[T dense.Float](dst *T, ldd int, a, b *T, ldb, n, blocks int) {
	if is32[T]() {
		tMulNEONF32(asF32(dst), ldd, asF32(a), asF32(b), ldb, n, blocks)
	} else {
		tMulNEONF64(asF64(dst), ldd, asF64(a), asF64(b), ldb, n, blocks)
	}
}

// packStrip copies cols columns of x from j on, rows i0 to i0+n−1, to rows of width elements. What a row has beyond
// cols may hold anything: it only enters sums that are dropped.
func packStrip[T dense.Float](p []T, width int, x dense.Matrix[T], i0, n, j, cols int) {
	for i := range n {
		copy(p[i*width:(i+1)*width], x.Data[(i0+i)*x.Stride+j:][:cols])
	}
}

// copyTile copies rows × cols elements of dst at (k, j) to the tile, or back.
func copyTile[T dense.Float](tile []T, width int, dst dense.Matrix[T], k, rows, j, cols int, back bool) {
	for r := range rows {
		t, d := tile[r*width:][:cols], dst.Data[(k+r)*dst.Stride+j:][:cols]
		if back {
			copy(d, t)
		} else {
			copy(t, d)
		}
	}
}
