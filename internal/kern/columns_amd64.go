//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// packedSum is c += aᵀ·b of packed columns: tiles of height columns of a one after the other, panels of width columns
// of b one after the other, each with k rows.
type packedSum struct {
	a, b, c       unsafe.Pointer
	cRow          uintptr
	k, rows, cols int
	// upper leaves out panels below the diagonal: row r of c meets the diagonal in column r + below.
	upper bool
	below int
}

// height is the number of columns of a in a tile of packedSum.
func (s shape) height() int {
	if s.pairRows > 0 {
		return s.pairRows
	}
	return s.rows
}

// sum computes p. A tile of a stays in the first-level cache while the panels of b come from the second.
func (s shape) sum(p *packedSum) {
	width, height, size := s.width(), s.height(), uintptr(s.size)
	panelBytes := uintptr(width) * size // also the distance of panels in c
	t := tile{aRow: size, aK: uintptr(height) * size, bK: panelBytes, bPanel: uintptr(p.k) * panelBytes, cRow: p.cRow,
		initRow: p.cRow, initPanel: panelBytes, k: p.k}
	full, tail := p.cols/width, p.cols%width
	for row := 0; row < p.rows; row += height {
		t.a = unsafe.Add(p.a, uintptr(row*p.k)*size)
		t.rows = min(height, p.rows-row)
		first := 0 // first panel that is not entirely below the diagonal
		if p.upper {
			first = min(max(0, row+p.below)/width, full)
		}
		run := func(kind, at, panels int) {
			t.kind, t.panels, t.tiles = kind, panels, 1
			t.b = unsafe.Add(p.b, uintptr(at)*t.bPanel)
			t.c = unsafe.Add(p.c, uintptr(row)*p.cRow+uintptr(at)*panelBytes)
			t.init = t.c
			// The sums of the next tile are fetched while those of this one are computed.
			t.ahead = panelBytes
			if kind == pairPanels {
				t.ahead = 2 * panelBytes
			}
			s.id.call(&t)
		}
		if pairs := (full - first) / 2; pairs > 0 && s.pairRows > 0 {
			run(pairPanels, first, pairs)
			first += 2 * pairs
		}
		if first < full {
			run(fullPanels, first, full-first)
		}
		if tail > 0 {
			t.mask = s.mask((tail-1)%s.lanes + 1)
			kind := oneMasked
			if tail > s.lanes {
				kind = twoMasked
			}
			run(kind, full, 1)
		}
	}
}

// addGramTiled is AddGram: tiles and panels are the same columns in two layouts.
func addGramTiled[T dense.Float](s shape, dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int) {
	checkView("dst", dst)
	raceWrite(dst.RowRange(i, iEnd).ColRange(j, jEnd))
	for k := 0; k < c.rows; k += columnInputs {
		n := min(columnInputs, c.rows-k)
		s.sum(&packedSum{
			a: unsafe.Pointer(&c.tiles.Data[k*c.tiles.Cols+i*n]),
			b: unsafe.Pointer(&c.panels.Data[k*c.panels.Cols+j*n]),
			c: unsafe.Pointer(&dst.Data[i*dst.Stride+j]), cRow: uintptr(dst.Stride * s.size),
			k: n, rows: iEnd - i, cols: jEnd - j, upper: true, below: i - j,
		})
	}
}
