package linalg

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Gram adds up products of features, aᵀ·a. It holds a packed copy of a, twice, between calls; the zero value is ready
// and serves one call at a time.
type Gram[T dense.Float] struct{ columns kern.Columns[T] }

// packGrain is the number of elements whose packing, which is all memory, pays for waking a goroutine; packRows rows
// are packed at a time.
const packGrain, packRows = 40_000, 32

// Add adds the upper triangle of aᵀ·a to dst; what is below the diagonal is arbitrary. The rows of a are added one
// after the other, so that the bits do not depend on how they are divided among calls.
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
		for ; p < end; p++ {
			addGramPart(tab, dst, &g.columns, p)
		}
	})
}

// The upper triangle comes in tiles, and a tile in parts of some of its rows: tiles of 2048 columns are 66, so few that
// a goroutine more or less at the end would count.
const gramSteps = kern.ColumnUnit / kern.ColumnStep

// gramParts is the number of parts of a triangle of so many columns; some are empty.
func gramParts(cols int) int {
	n := (cols + kern.ColumnUnit - 1) / kern.ColumnUnit
	return gramSteps * n * (n + 1) / 2
}

func addGramPart[T dense.Float](tab *kern.Table[T], dst dense.Matrix[T], c *kern.Columns[T], p int) {
	const unit, step = kern.ColumnUnit, kern.ColumnStep
	row, col := upperPair(p / gramSteps)
	i, j := row*unit+p%gramSteps*step, col*unit
	if iEnd := min((row+1)*unit, dst.Rows); i < iEnd {
		tab.AddGram(dst, c, i, min(i+step, iEnd), j, min(j+unit, dst.Cols))
	}
}

// AddProduct adds aᵀ·b to dst, with the same promise.
func AddProduct[T dense.Float](tab *kern.Table[T], dst, a, b dense.Matrix[T]) {
	if dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic("linalg: AddProduct of different shapes")
	}
	eachStripe(0, a.Cols, func(i, iEnd int) {
		tab.TMul(dst.RowRange(i, iEnd), a.ColRange(i, iEnd), b)
	})
}
