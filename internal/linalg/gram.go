package linalg

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Gram adds products of features, aᵀ·a. It keeps two packed copies of a between calls. The zero value is ready and
// serves one call at a time.
type Gram[T dense.Float] struct{ columns kern.Columns[T] }

// packGrain is the number of elements whose packing, which is memory-bound, pays for waking a goroutine; packRows is
// the number of rows packed at a time.
const packGrain, packRows = 40_000, 32

// Add adds the upper triangle of aᵀ·a to dst; elements below the diagonal are arbitrary. The rows of a are added one
// after the other, so the bits do not depend on how rows are divided among calls.
func (g *Gram[T]) Add(tab *kern.Table[T], dst, a dense.Matrix[T]) {
	if dst.Rows != a.Cols || dst.Cols != a.Cols {
		panic("linalg: Gram of different shapes")
	}
	g.columns.Reset(tab, a.Rows, a.Cols)
	par.For((a.Rows+packRows-1)/packRows, 1+packGrain/(1+a.Cols*packRows), func(p, end int) {
		g.columns.Pack(p*packRows, a.RowRange(p*packRows, min(end*packRows, a.Rows)))
	})
	n, work := gramParts(a.Cols), 1+a.Rows*kern.ColumnUnit*kern.ColumnStep
	par.For(n, 1+tab.Grain/work, func(p, end int) {
		for p < end {
			next := min(end, p/gramSteps*gramSteps+gramSteps)
			if rows, cols := gramPart(p, next, dst.Rows); rows[0] < rows[1] {
				tab.AddGram(dst, &g.columns, rows[0], rows[1], cols[0], cols[1])
			}
			p = next
		}
	})
}

// The upper triangle is divided into tiles, and a tile into gramSteps parts of some of its rows. A triangle of 2048
// columns has only 66 tiles, so few that one tile more or less per goroutine would matter at the end.
const gramSteps = kern.ColumnUnit / kern.ColumnStep

// gramParts is the number of parts of a triangle with the given number of columns; some are empty.
func gramParts(cols int) int {
	n := (cols + kern.ColumnUnit - 1) / kern.ColumnUnit
	return gramSteps * n * (n + 1) / 2
}

// gramPart returns the rows and columns of parts p to end−1, which must be of one tile; there may be no rows.
func gramPart(p, end, n int) (rows, cols [2]int) {
	const unit, step = kern.ColumnUnit, kern.ColumnStep
	row, col := upperPair(p / gramSteps)
	first := row*unit + p%gramSteps*step
	last := min(first+(end-p)*step, (row+1)*unit, n)
	return [2]int{min(first, last), last}, [2]int{col * unit, min((col+1)*unit, n)}
}

// gramDeal hands out the parts of a triangle: whole tiles first, whose parts read the same packed columns from the
// second-level cache of one core, and single parts at the end, so that workers finish together. Dealing all parts of a
// tile to different cores would fetch its columns once per core.
type gramDeal struct{ tiles, whole int } // number of tiles, and how many of them are handed out whole

// dealGram divides a triangle of the given columns for a number of workers.
func dealGram(cols, workers int) gramDeal {
	d := gramDeal{tiles: gramParts(cols) / gramSteps}
	if d.whole = d.tiles; workers > 1 {
		d.whole = max(0, d.tiles-workers)
	}
	return d
}

func (d gramDeal) items() int { return d.whole + (d.tiles-d.whole)*gramSteps }

// parts returns the range of parts of item i.
func (d gramDeal) parts(i int) (p, end int) {
	if i < d.whole {
		return i * gramSteps, (i + 1) * gramSteps
	}
	p = d.whole*gramSteps + i - d.whole
	return p, p + 1
}

// AddProduct adds aᵀ·b to dst. Rows are added one after the other, so the bits do not depend on how rows are divided
// among calls.
func AddProduct[T dense.Float](tab *kern.Table[T], dst, a, b dense.Matrix[T]) {
	if dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic("linalg: AddProduct of different shapes")
	}
	side := sideBytes / int(unsafe.Sizeof(T(0)))
	if min(a.Cols, b.Cols) < 2*side {
		eachStripe(0, a.Cols, func(i, iEnd int) {
			tab.TMul(dst.RowRange(i, iEnd), a.ColRange(i, iEnd), b)
		})
		return
	}
	rows, cols := (a.Cols+side-1)/side, (b.Cols+side-1)/side
	par.For(rows*cols, 1, func(t, end int) {
		for ; t < end; t++ {
			i, j := t/cols*side, t%cols*side
			iEnd, jEnd := min(i+side, a.Cols), min(j+side, b.Cols)
			tab.TMul(block(dst, i, iEnd, j, jEnd), a.ColRange(i, iEnd), b.ColRange(j, jEnd))
		}
	})
}

// sideBytes is the width in bytes of the column blocks of both factors that are multiplied at a time if both are wide.
// It is enough for TMul to pack them: columns of wide matrices lie pages apart, and unpacked access would miss the TLB.
const sideBytes = 2048
