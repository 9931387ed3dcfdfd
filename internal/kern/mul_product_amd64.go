//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// packProduct is the number of tiles of rows from which packing s pays in Product.
const packProduct = 4

// productTiled is Product: b of the tiles is s itself, whose panels lie side by side.
func productTiled[T dense.Float](sh shape, dst, x, s dense.Matrix[T], add bool) {
	checkView("dst", dst)
	checkView("x", x)
	checkView("s", s)
	if dst.Rows != x.Rows || x.Cols != s.Rows || dst.Cols != s.Cols {
		panic("kern: Product of different shapes")
	}
	if dst.IsEmpty() {
		return
	}
	raceRead(x)
	raceRead(s)
	raceWrite(dst)
	if x.Cols == 0 {
		for i := 0; !add && i < dst.Rows; i++ {
			clear(dst.Row(i))
		}
		return
	}
	size, panelBytes := uintptr(sh.size), uintptr(sh.width()*sh.size)
	p := product{
		a: data(x.Data), aRow: uintptr(x.Stride) * size, aK: size,
		b: data(s.Data), bK: uintptr(s.Stride) * size, bPanel: panelBytes,
		c: data(dst.Data), cRow: uintptr(dst.Stride) * size,
		init: unsafe.Pointer(&zeroInit),
		n:    dst.Rows, d: x.Cols, m: dst.Cols,
	}
	if add {
		p.init, p.initRow, p.initPanel = p.c, p.cRow, panelBytes
	}
	if s.Stride*sh.size >= packFrom && dst.Rows >= packProduct*sh.rows {
		productPacked(sh, &p, s)
		return
	}
	sh.product(&p)
}

// productPacked is p with the panels of s copied together first: rows of s that lie pages apart would share few sets of
// the first-level cache.
func productPacked[T dense.Float](sh shape, p *product, s dense.Matrix[T]) {
	buf := packedPool.Get().(*packed)
	defer packedPool.Put(buf)
	pb := panelsOf[T](buf)
	width, size := sh.width(), uintptr(sh.size)
	blocks := (s.Rows + blockInputs - 1) / blockInputs
	part := *p
	part.bK = uintptr(width) * size
	for block := range blocks {
		k0, k1 := block*s.Rows/blocks, (block+1)*s.Rows/blocks
		part.d = k1 - k0
		part.bPanel = uintptr(part.d) * part.bK
		part.a = unsafe.Add(p.a, uintptr(k0)*p.aK)
		part.b = data(pb)
		init := p.init
		if block > 0 {
			init, part.initRow, part.initPanel = p.c, p.cRow, part.bK
		}
		group := len(pb) / (part.d * width) * width
		for j := 0; j < s.Cols; j += group {
			part.m = min(group, s.Cols-j)
			packColumns(pb, width, k1-k0, 0, s.RowRange(k0, k1).ColRange(j, j+part.m))
			part.c = unsafe.Add(p.c, uintptr(j)*size)
			part.init = unsafe.Add(init, uintptr(j/width)*part.initPanel)
			sh.product(&part)
		}
	}
}
