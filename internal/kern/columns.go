package kern

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Columns is a matrix whose columns are packed once for products with each other (AddGram). Such products read every
// column as often as there are columns, so packing pays. The zero value is ready for Reset.
type Columns[T dense.Float] struct {
	rows, cols    int
	height, width int // columns of a tile and of a panel; height 0 means one panel of all columns and no tiles
	// Both copies are cut into blocks of columnInputs rows: [block][tile][row][height] and [block][panel][row][width].
	tiles, panels dense.Matrix[T]
	pack          func(c *Columns[T], first int, a dense.Matrix[T])
}

// columnInputs is the number of rows of a block: a tile of it stays in the first-level cache, some panels in the
// second.
const columnInputs = 256

// Reset makes room for rows×cols elements and products with table t. Pack then fills it.
func (c *Columns[T]) Reset(t *Table[T], rows, cols int) {
	c.rows, c.cols, c.height, c.width, c.pack = rows, cols, t.columnRows, t.Width, t.packColumns
	if c.height > 0 {
		c.tiles = buf.Shaped(c.tiles, rows, roundUp(cols, c.height))
	} else {
		c.width = max(1, cols)
	}
	c.panels = buf.Shaped(c.panels, rows, roundUp(cols, c.width))
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// ColumnUnit is a multiple of all tiles and panels: the first column of every part of Columns must be a multiple of it.
// ColumnStep is a multiple of all tiles: the first of the columns i in AddGram must be a multiple of it.
const ColumnUnit, ColumnStep = 192, 48

// Rows is the number of rows.
func (c *Columns[T]) Rows() int { return c.rows }

// Pack stores a as the rows from first on. Concurrent calls are safe for disjoint rows.
func (c *Columns[T]) Pack(first int, a dense.Matrix[T]) { c.pack(c, first, a) }

// storeRows is Pack.
func storeRows[T dense.Float](c *Columns[T], first int, a dense.Matrix[T]) {
	if err := a.Check(); err != nil {
		panic("kern: Columns: " + err.Error())
	}
	if first < 0 || first+a.Rows > c.rows || a.Cols != c.cols {
		panic("kern: rows of Columns out of range")
	}
	for a.Rows > 0 {
		k := first / columnInputs * columnInputs
		n := min(columnInputs, c.rows-k) // of the block
		part := a.RowRange(0, min(a.Rows, k+n-first))
		if c.height > 0 {
			packColumns(c.tiles.Data[k*c.tiles.Cols:], c.height, n, first-k, part)
		}
		packColumns(c.panels.Data[k*c.panels.Cols:], c.width, n, first-k, part)
		a, first = a.RowRange(part.Rows, a.Rows), first+part.Rows
	}
}

// packColumns copies a to rows at, at+1, … of panels [panel][row][width] that have n rows. Columns of the last panel
// beyond those of a are left as they were.
func packColumns[T dense.Float](dst []T, width, n, at int, a dense.Matrix[T]) {
	step := n * width
	for lo := 0; lo < a.Cols; lo += ColumnUnit { // some panels at a time, whose lines stay in the first-level cache
		hi := min(lo+ColumnUnit, a.Cols)
		if width > ColumnUnit {
			hi = a.Cols
		}
		for r := range a.Rows {
			row := a.Row(r)[lo:hi]
			at := lo*n + (at+r)*width
			if width == 6 { // for six elements a call of copy takes longer than the copy
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
		if width > ColumnUnit {
			return
		}
	}
}

// Stripe returns a packed view of stripe s: its first column lo, and at most most rows from first on. There are no rows
// after the last row, and none for a stripe that does not exist.
func (c *Columns[T]) Stripe(s, first, most int) (lo int, m dense.Matrix[T]) {
	width := c.width
	if c.height == 0 {
		width = min(width, ColumnUnit)
	}
	if lo = s * width; lo >= c.cols || first >= c.rows {
		return lo, m
	}
	k := first / columnInputs * columnInputs
	n := min(columnInputs, c.rows-k) // rows of the block
	m = dense.Matrix[T]{Rows: min(most, k+n-first), Cols: min(width, c.cols-lo), Stride: c.width}
	at := k*c.panels.Cols + lo/c.width*c.width*n + (first-k)*c.width + lo%c.width
	m.Data = c.panels.Data[at : at+(m.Rows-1)*m.Stride+m.Cols]
	return lo, m
}

// Stripes is the number of stripes.
func (c *Columns[T]) Stripes() int {
	width := c.width
	if c.height == 0 {
		width = min(width, ColumnUnit)
	}
	return (c.cols + width - 1) / width
}

// addGram checks the arguments of AddGram and computes it by tiles, or by TMul where t has none.
func addGram[T dense.Float](t *Table[T], dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int) {
	checkPart(i, iEnd, ColumnStep, c.cols)
	checkPart(j, jEnd, ColumnUnit, c.cols)
	switch {
	case dst.Rows != c.cols || dst.Cols != c.cols:
		panic("kern: AddGram of different shapes")
	case c.height != t.columnRows || c.height > 0 && c.width != t.Width:
		panic("kern: columns packed for another table")
	case c.height == 0: // the only panel is the matrix itself
		t.TMul(dst.RowRange(i, iEnd).ColRange(j, jEnd), c.panels.ColRange(i, iEnd), c.panels.ColRange(j, jEnd))
	case i < iEnd && j < jEnd:
		t.gramTiles(dst, c, i, iEnd, j, jEnd)
	}
}

func checkPart(lo, hi, unit, n int) {
	if lo < 0 || lo > hi || hi > n || lo%unit != 0 {
		panic("kern: part of columns out of range")
	}
}
