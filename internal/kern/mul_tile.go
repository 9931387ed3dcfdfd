//go:build amd64 && !noasm

package kern

import (
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// tile is the argument of the register tiles in assembly, which compute
//
//	c = init + a·b
//
// for tiles × rows rows of a and panels × 2 vectors of columns of b, over k ≥ 1 inputs. Strides are in bytes. The
// generated code depends on the order and the types of the fields (_gen/mul).
type tile struct {
	a, b, c, init unsafe.Pointer
	aRow, aK      uintptr // distance between rows of a, and between the inputs of a row
	bK, bPanel    uintptr // distance between the inputs of a panel, and between panels
	cRow          uintptr
	initRow       uintptr // 0 repeats one row: a bias starts all rows
	initPanel     uintptr // 0 repeats one panel: zeros start all panels
	k             int
	panels, tiles int     // at least 1; all panels of a tile come before the next tile
	rows          int     // rows of one tile
	kind          int     // which columns exist, see the kinds
	mask          uintptr // see shape.mask
	ahead         uintptr // distance from c of a tile to the lines that it prefetches
	scratch       [3]uintptr
}

// Kinds of tiles: full panels, or one panel with only its first columns.
const (
	fullPanels = iota
	twoMasked  // one panel, more than one vector of columns
	oneMasked  // one panel, at most one vector of columns
	widePanels // full panels in groups of wideGroup, for a single row; panels counts the groups
	pairPanels // full panels in pairs; panels counts the pairs
)

// wideGroup is the number of panels that a single row needs to keep the multipliers busy.
const wideGroup = 4

// shape describes the tiles of one target and precision.
type shape struct {
	id       target
	rows     int // height of the largest tile of one panel
	pairRows int // height of the largest tile of two panels, 0 if there are none
	lanes    int // elements of one vector; a panel is two vectors wide
	size     int // bytes of an element
}

func (s shape) width() int { return 2 * s.lanes }

const (
	// blockInputs bounds the inputs of one pass, so that some panels fit into blockBytes at any d. Between passes the
	// sums rest in dst. Values from 256 to 512 are equally fast; without both blocks speed falls by 40 % at d = 1024
	// and 60 % at d = 4096.
	blockInputs = 512
	// blockBytes is the size of the packed panels that are used for all rows before the next ones: half of a small
	// second-level cache.
	blockBytes = 512 << 10
	// pairFirst bytes of a pair of panels and blockFirst bytes of the rows of a fit together into a first-level cache
	// of 48 KiB.
	pairFirst  = 24 << 10
	blockFirst = 16 << 10
	// callWork bounds the multiply-adds of one call, because assembly cannot be preempted: 2M take 30 to 100 µs.
	callWork = 2 << 20
	// expBytes of outputs, and expTile rows at least, are computed before their exponentials are taken: they
	// stay in the first-level cache. The number of rows is a multiple of all tile heights.
	expBytes = 24 << 10
	expTile  = 24
)

// zeroInit starts accumulators that have no bias: zeros for one panel of the widest table.
var zeroInit [128]byte

// product is c = init + a·b with n rows, m columns and d ≥ 1 inputs; strides in bytes as in tile. With a shift it ends
// in the exponential exp(c − shift).
type product struct {
	a, b, c, init      unsafe.Pointer
	aRow, aK           uintptr
	bK, bPanel         uintptr
	cRow               uintptr
	initRow, initPanel uintptr
	n, d, m            int
	shift              unsafe.Pointer // one per row
}

// product computes p, blocked over inputs, columns and rows.
//
// An output is one chain of fused multiply-adds in the order of the inputs, started with its init. Between blocks of
// inputs the chain rests in c, where it loses nothing. So neither blocking nor tile shapes nor the number of rows nor
// even the width of the vectors changes a bit of any output.
func (s shape) product(p *product) {
	width := s.width()
	panelBytes := uintptr(width * s.size) // also the distance of panels in c
	t := tile{aRow: p.aRow, aK: p.aK, bK: p.bK, bPanel: p.bPanel, cRow: p.cRow,
		initRow: p.initRow, initPanel: p.initPanel}
	blocks := (p.d + blockInputs - 1) / blockInputs
	for block := range blocks {
		k0, k1 := block*p.d/blocks, (block+1)*p.d/blocks
		t.k = k1 - k0
		init := p.init
		if block > 0 {
			init, t.initRow, t.initPanel = p.c, p.cRow, panelBytes
		}
		group := max(1, blockBytes/(t.k*width*s.size)) // panels per block of columns
		for j := 0; j < p.m; j += group * width {
			cols := min(group*width, p.m-j)
			full, tail := cols/width, cols%width
			panel := uintptr(j / width)
			rows := max(s.rows, callWork/(t.k*cols))
			exp := p.shift != nil && block == blocks-1
			if exp {
				rows = min(rows, max(expTile, expBytes/(cols*s.size)/expTile*expTile))
			}
			for i := 0; i < p.n; i += rows {
				t.a = unsafe.Add(p.a, uintptr(i)*p.aRow+uintptr(k0)*p.aK)
				t.b = unsafe.Add(p.b, panel*p.bPanel+uintptr(k0)*p.bK)
				t.c = unsafe.Add(p.c, uintptr(i)*p.cRow+panel*panelBytes)
				t.init = unsafe.Add(init, uintptr(i)*t.initRow+panel*t.initPanel)
				done := 0 // panels computed so far
				if p.n == 1 && full >= wideGroup {
					t.kind, t.panels = widePanels, full/wideGroup
					s.id.call(&t)
					done = full / wideGroup * wideGroup
				}
				if pairs := full / 2; done == 0 && pairs > 0 && s.pairRows > 0 {
					t.kind, t.panels = pairPanels, pairs
					s.runPairs(t, min(rows, p.n-i))
					done = 2 * pairs
				}
				if done < full {
					next := t.skip(uintptr(done), panelBytes)
					next.kind, next.panels = fullPanels, full-done
					s.run(next, min(rows, p.n-i), s.rows)
				}
				if tail > 0 {
					last := t.skip(uintptr(full), panelBytes)
					last.kind, last.panels = oneMasked, 1
					if tail > s.lanes {
						last.kind = twoMasked
					}
					last.mask = s.mask((tail-1)%s.lanes + 1)
					s.run(last, min(rows, p.n-i), s.rows)
				}
				if exp {
					s.exponentiate(t.c, cols, unsafe.Add(p.shift, i*s.size), min(rows, p.n-i), int(p.cRow))
				}
			}
		}
	}
}

// exponentiate is target.exp in calls of bounded length.
func (s shape) exponentiate(c unsafe.Pointer, cols int, shift unsafe.Pointer, rows, stride int) {
	step := max(1, callElements/cols)
	for i := 0; i < rows; i += step {
		s.id.exp(unsafe.Add(c, i*stride), cols, unsafe.Add(shift, i*s.size), min(step, rows-i), stride)
	}
}

// runPairs covers rows rows of all pairs of panels. Short panels stay in the first-level cache for a block of rows, and
// the block of rows for all panels, so that only the outputs leave that cache.
func (s shape) runPairs(t tile, rows int) {
	height := s.pairRows
	block := blockFirst / (t.k * s.size) / height * height
	if 2*s.width()*t.k*s.size > pairFirst || rows < block {
		s.run(t, rows, height)
		return
	}
	pairs := t.panels
	t.panels = 1
	for i := 0; i < rows; i += block {
		part := t.below(i)
		for j := range pairs {
			s.run(part.skip(uintptr(2*j), uintptr(s.width()*s.size)), min(block, rows-i), height)
		}
	}
}

// below is t from row n on.
func (t *tile) below(n int) tile {
	next := *t
	next.a = unsafe.Add(t.a, uintptr(n)*t.aRow)
	next.c = unsafe.Add(t.c, uintptr(n)*t.cRow)
	next.init = unsafe.Add(t.init, uintptr(n)*t.initRow)
	return next
}

// skip is t from panel n on.
func (t *tile) skip(n, panelBytes uintptr) tile {
	next := *t
	next.b = unsafe.Add(t.b, n*t.bPanel)
	next.c = unsafe.Add(t.c, n*panelBytes)
	next.init = unsafe.Add(t.init, n*t.initPanel)
	return next
}

// run covers rows rows with tiles of nearly equal height, at most most: 9 rows become 5 and 4, because a tile of a
// single row cannot keep the multipliers busy.
func (s shape) run(t tile, rows, most int) {
	tiles := (rows + most - 1) / most
	// A tile that only writes prefetches its own lines of c. A tile that starts with the contents of c would have to
	// wait for them, so it prefetches the lines of the next tile.
	switch {
	case t.init != t.c:
		t.ahead = 0
	case t.panels == 1:
		t.ahead = uintptr(rows/tiles) * t.cRow
	case t.kind == pairPanels:
		t.ahead = 2 * t.initPanel
	default:
		t.ahead = t.initPanel
	}
	low, high := rows/tiles, rows%tiles // high is the number of tiles with one row more
	if high > 0 {
		t.rows, t.tiles = low+1, high
		s.id.call(&t)
		t = t.below(high * (low + 1))
	}
	t.rows, t.tiles = low, tiles-high
	s.id.call(&t)
}

// mulTTiled is MulT. x is not packed, because a tile reads its rows along the inputs only.
func mulTTiled[T dense.Float](s shape, dst, x dense.Matrix[T], w *Panel[T], bias []T) {
	if !checkMulT(s, dst, x, w, bias) {
		return
	}
	p := newMulT(s, dst, x, w, bias)
	s.product(&p)
}

// mulTExpTiled is MulTExp: parts of the product are exponentiated while they are in the first-level cache.
func mulTExpTiled[T dense.Float](s shape, exp func([]T, T), dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
	checkShift(dst, shift)
	if !checkMulT(s, dst, x, w, bias) {
		for i := range dst.Rows {
			exp(dst.Row(i), shift[i])
		}
		return
	}
	raceRead(asRow(shift))
	p := newMulT(s, dst, x, w, bias)
	p.shift = data(shift)
	s.product(&p)
}

// checkMulT panics on wrong shapes. It computes products without inputs or outputs itself and reports false for them.
func checkMulT[T dense.Float](s shape, dst, x dense.Matrix[T], w *Panel[T], bias []T) bool {
	checkView("dst", dst)
	checkView("x", x)
	width := s.width()
	switch n := (w.Rows + width - 1) / width * width * w.Cols; {
	case w.Width != width:
		panic("kern: panel packed for another table")
	case len(w.Data) < n:
		panic("kern: panel data too short")
	case x.Cols != w.Cols || dst.Cols != w.Rows || dst.Rows != x.Rows:
		panic("kern: MulT of different shapes")
	case bias != nil && len(bias) != w.Rows:
		panic("kern: bias of another length")
	}
	if dst.IsEmpty() {
		return false
	}
	if x.Cols == 0 {
		for i := range dst.Rows {
			clear(dst.Row(i))
			copy(dst.Row(i), bias)
		}
		return false
	}
	raceRead(x)
	raceWrite(dst)
	return true
}

func newMulT[T dense.Float](s shape, dst, x dense.Matrix[T], w *Panel[T], bias []T) product {
	width, size := s.width(), uintptr(s.size)
	p := product{
		a: data(x.Data), aRow: uintptr(x.Stride) * size, aK: size,
		b: data(w.Data), bK: uintptr(width) * size, bPanel: uintptr(width*w.Cols) * size,
		c: data(dst.Data), cRow: uintptr(dst.Stride) * size,
		init: unsafe.Pointer(&zeroInit),
		n:    x.Rows, d: x.Cols, m: w.Rows,
	}
	if bias != nil {
		p.init, p.initPanel = data(bias), uintptr(width)*size
	}
	return p
}

// tMulTiled is TMul: rows of a tile are columns of a, and the accumulators start with dst. Few columns, wide sums and
// the rest take different paths with the same chains, hence the same bits.
func tMulTiled[T dense.Float](s shape, dst, a, b dense.Matrix[T]) {
	checkView("dst", dst)
	checkView("a", a)
	checkView("b", b)
	if a.Rows != b.Rows || dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic("kern: TMul of different shapes")
	}
	if dst.IsEmpty() || a.Rows == 0 {
		return
	}
	raceRead(a)
	raceRead(b)
	raceWrite(dst)
	width, size := s.width(), uintptr(s.size)
	wide := dst.Cols
	if tail := wide % width; tail > 0 && tail <= s.lanes/2 && dst.Rows >= s.lanes && a.Rows >= thinInputs {
		wide -= tail
		tMulThin(s, dst.ColRange(wide, dst.Cols), a, b.ColRange(wide, dst.Cols))
	}
	if wide == 0 {
		return
	}
	dst, b = dst.ColRange(0, wide), b.ColRange(0, wide)
	if min(dst.Rows, dst.Cols)*s.size >= packFrom {
		tMulPacked(s, dst, a, b)
		return
	}
	for l := 0; l < a.Rows; l += sumInputs {
		c, cRow := data(dst.Data), uintptr(dst.Stride)*size
		s.product(&product{
			a: unsafe.Pointer(&a.Data[l*a.Stride]), aRow: size, aK: uintptr(a.Stride) * size,
			b: unsafe.Pointer(&b.Data[l*b.Stride]), bK: uintptr(b.Stride) * size, bPanel: uintptr(width) * size,
			c: c, cRow: cRow,
			init: c, initRow: cRow, initPanel: uintptr(width) * size,
			n: dst.Rows, d: min(sumInputs, a.Rows-l), m: wide,
		})
	}
}

const (
	// sumInputs is the number of rows of a and b summed at a time, so that the panels of b stay in the first-level
	// cache.
	sumInputs = 128

	// packFrom is the size in bytes of the rows of a and of b from which tMulPacked pays: half a page.
	packFrom = 2048
	// packInputs is the number of rows of a and b packed at a time.
	packInputs = 256
	// packRows bounds the columns of a packed at a time, a multiple of all tile heights. They are read once for every
	// group of panels of b.
	packRows = 3072
)

// packed is memory for packed operands: columns of a, which grow as needed, and a group of panels of b.
type packed struct {
	a []uint64
	b [blockBytes]byte
	_ [64]byte // room to align b
}

// panelsOf is the room for panels of b, aligned to 64 bytes.
func panelsOf[T dense.Float](buf *packed) []T {
	base := unsafe.Pointer(&buf.b)
	base = unsafe.Add(base, -uintptr(base)&63)
	return unsafe.Slice((*T)(base), len(buf.b)/int(unsafe.Sizeof(T(0))))
}

// tilesOf is the room for n elements of columns of a.
func tilesOf[T dense.Float](buf *packed, n int) []T {
	words := n * int(unsafe.Sizeof(T(0))) / 8
	if len(buf.a) <= words {
		buf.a = make([]uint64, words+1)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&buf.a[0])), n)
}

var packedPool = sync.Pool{New: func() any { return new(packed) }}

// tMulPacked is TMul for sums beyond the caches. Columns of a and b are then pages apart: read in place, every input of
// a tile would miss the first-level cache and the TLB. So tiles and panels are first copied together.
func tMulPacked[T dense.Float](s shape, dst, a, b dense.Matrix[T]) {
	buf := packedPool.Get().(*packed)
	defer packedPool.Put(buf)
	width, height := s.width(), s.height()
	pb := panelsOf[T](buf)
	group := len(pb) / packInputs / width * width // columns
	for l := 0; l < a.Rows; l += packInputs {
		n := min(packInputs, a.Rows-l)
		for i := 0; i < dst.Rows; i += packRows {
			rows := min(packRows, dst.Rows-i)
			pa := tilesOf[T](buf, n*((rows+height-1)/height*height))
			packColumns(pa, height, n, 0, a.RowRange(l, l+n).ColRange(i, i+rows))
			for j := 0; j < dst.Cols; j += group {
				cols := min(group, dst.Cols-j)
				packColumns(pb, width, n, 0, b.RowRange(l, l+n).ColRange(j, j+cols))
				s.sum(&packedSum{a: data(pa), b: data(pb), c: unsafe.Pointer(&dst.Data[i*dst.Stride+j]),
					cRow: uintptr(dst.Stride * s.size), k: n, rows: rows, cols: cols})
			}
		}
	}
}

const (
	// thinInputs is the number of inputs from which the two transpositions of tMulThin pay.
	thinInputs = 8
	// thinRows is the number of rows of dst computed at a time.
	thinRows = 128
	// thinCols is half the lanes of the widest vector.
	thinCols = 8
)

// tMulThin is TMul for a few columns, which would leave most lanes of a vector empty: it computes dstᵀ += bᵀ·a, with
// the same chains. The column of ones that sums features beside their products with values is such a case.
func tMulThin[T dense.Float](s shape, dst, a, b dense.Matrix[T]) {
	size := uintptr(s.size)
	var buf [thinCols * thinRows]T
	for i := 0; i < dst.Rows; i += thinRows {
		n := min(thinRows, dst.Rows-i)
		for j := range dst.Cols {
			for r := range n {
				buf[j*thinRows+r] = dst.At(i+r, j)
			}
		}
		c := unsafe.Pointer(&buf)
		s.product(&product{
			a: data(b.Data), aRow: size, aK: uintptr(b.Stride) * size,
			b: unsafe.Pointer(&a.Data[i]), bK: uintptr(a.Stride) * size, bPanel: uintptr(s.width()) * size,
			c: c, cRow: thinRows * size,
			init: c, initRow: thinRows * size, initPanel: uintptr(s.width()) * size,
			n: dst.Cols, d: a.Rows, m: n,
		})
		for j := range dst.Cols {
			for r := range n {
				dst.Set(i+r, j, buf[j*thinRows+r])
			}
		}
	}
}

func data[T dense.Float](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// checkView panics on a malformed matrix: assembly would read or write past its memory.
func checkView[T dense.Float](name string, m dense.Matrix[T]) {
	if err := m.Check(); err != nil {
		panic("kern: " + name + ": " + err.Error())
	}
}
