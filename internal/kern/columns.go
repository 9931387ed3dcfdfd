package kern

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Columns is a matrix whose columns are packed once for their products with each other, which read every column as
// often as there are columns. The zero value is ready for Reset.
type Columns[T dense.Float] struct {
	a             dense.Matrix[T]
	height, width int // columns of a tile and of a panel; no height: a is read as it lies
	// Blocks of columnInputs rows, [block][tile][row][height] and [block][panel][row][width].
	tiles, panels dense.Matrix[T]
}

// columnInputs rows of a tile stay in the first-level cache, those of some panels in the second.
const columnInputs = 256

// Reset makes c the columns of a for products with t. They are packed afterwards, by Pack; a must stay as it is.
func (c *Columns[T]) Reset(t *Table[T], a dense.Matrix[T]) {
	if err := a.Check(); err != nil {
		panic("kern: Columns: " + err.Error())
	}
	c.a, c.height, c.width = a, t.columnRows, t.Width
	if c.height > 0 {
		c.tiles = buf.Shaped(c.tiles, a.Rows, roundUp(a.Cols, c.height))
		c.panels = buf.Shaped(c.panels, a.Rows, roundUp(a.Cols, c.width))
	}
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// ColumnUnit divides the first column of every part of Columns: it is a multiple of all tiles and panels. ColumnStep is
// one of all tiles, and divides the first of the columns i in AddGram.
const ColumnUnit, ColumnStep = 192, 48

// Blocks is the number of blocks of rows.
func (c *Columns[T]) Blocks() int { return (c.a.Rows + columnInputs - 1) / columnInputs }

// Pack packs columns lo to hi−1 of block b. Calls for different columns or blocks may run at the same time.
func (c *Columns[T]) Pack(b, lo, hi int) {
	checkPart(lo, hi, ColumnUnit, c.a.Cols)
	if c.height == 0 {
		return
	}
	k := b * columnInputs
	block := c.a.RowRange(k, min(k+columnInputs, c.a.Rows))
	packColumns(c.tiles.Data[k*c.tiles.Cols:], c.height, block, lo, hi, 0)
	packColumns(c.panels.Data[k*c.panels.Cols:], c.width, block, lo, hi, 0)
}

// packColumns copies columns lo to hi−1 of a to panels [panel][row][width] of the columns from origin on. What the last
// panel has beyond them is left as it was.
func packColumns[T dense.Float](dst []T, width int, a dense.Matrix[T], lo, hi, origin int) {
	step := a.Rows * width
	for r := range a.Rows {
		row := a.Row(r)[lo:hi]
		at := (lo-origin)*a.Rows + r*width
		if width == 6 { // a call of copy would take longer than the copy
			for ; len(row) >= 6; at += step {
				d := dst[at : at+6 : at+6]
				d[0], d[1], d[2], d[3], d[4], d[5] = row[0], row[1], row[2], row[3], row[4], row[5]
				row = row[6:]
			}
		}
		for ; len(row) > 0; at += step {
			row = row[copy(dst[at:at+width], row):]
		}
	}
}

// AddGram adds columns i to iEnd−1 times columns j to jEnd−1 to that part of dst, with the bits of TMul. Products of a
// column with earlier ones, below the diagonal, are left out or not: what is there is arbitrary.
func (t *Table[T]) AddGram(dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int) {
	checkPart(i, iEnd, ColumnStep, c.a.Cols)
	checkPart(j, jEnd, ColumnUnit, c.a.Cols)
	switch {
	case dst.Rows != c.a.Cols || dst.Cols != c.a.Cols:
		panic("kern: AddGram of different shapes")
	case c.height != t.columnRows || c.width != t.Width:
		panic("kern: columns packed for another table")
	case c.height == 0:
		t.TMul(dst.RowRange(i, iEnd).ColRange(j, jEnd), c.a.ColRange(i, iEnd), c.a.ColRange(j, jEnd))
	case i < iEnd && j < jEnd:
		t.addGram(dst, c, i, iEnd, j, jEnd)
	}
}

func checkPart(lo, hi, unit, n int) {
	if lo < 0 || lo > hi || hi > n || lo%unit != 0 {
		panic("kern: part of columns out of range")
	}
}
