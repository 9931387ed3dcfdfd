package linalg

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Gram adds up products of features, aᵀ·a. It holds a packed copy of a, twice, between calls; the zero value is ready
// and serves one call at a time.
type Gram[T dense.Float] struct{ columns kern.Columns[T] }

// packGrain is the number of elements whose packing, which is all memory, pays for waking a goroutine.
const packGrain = 40_000

// Add adds the upper triangle of aᵀ·a to dst; what is below the diagonal is arbitrary. The rows of a are added one
// after the other, so that the bits do not depend on how they are divided among calls.
func (g *Gram[T]) Add(tab *kern.Table[T], dst, a dense.Matrix[T]) {
	if dst.Rows != a.Cols || dst.Cols != a.Cols {
		panic("linalg: Gram of different shapes")
	}
	const unit = kern.ColumnUnit
	part := func(p int) (lo, hi int) { return p * unit, min((p+1)*unit, a.Cols) }
	n := (a.Cols + unit - 1) / unit
	work := 1 + a.Rows*unit*unit // of a tile
	g.columns.Reset(tab, a)
	blocks := g.columns.Blocks()
	par.For(n*blocks, 1+packGrain*blocks/(1+a.Rows*unit), func(p, end int) {
		for ; p < end; p++ {
			lo, hi := part(p / blocks)
			g.columns.Pack(p%blocks, lo, hi)
		}
	})
	// A tile comes in parts of some of its rows: tiles of 2048 columns are 66, so few that a goroutine more or less at
	// the end would count.
	const step, parts = kern.ColumnStep, unit / kern.ColumnStep
	par.For(parts*n*(n+1)/2, 1+parts*tab.Grain/work, func(a, end int) {
		for ; a < end; a++ {
			r, c := upperPair(a / parts)
			i, iEnd := part(r)
			j, jEnd := part(c)
			if i += a % parts * step; i < iEnd {
				tab.AddGram(dst, &g.columns, i, min(i+step, iEnd), j, jEnd)
			}
		}
	})
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

// wideRows rows of AddWide are converted at a time: they stay in the second-level cache.
const wideRows = 64

// AddWide is AddProduct of float64 with an a that is converted in small parts.
func AddWide(tab *kern.Table[float64], dst dense.Matrix[float64], a dense.Matrix[float32], b dense.Matrix[float64]) {
	if dst.Rows != a.Cols || dst.Cols != b.Cols || a.Rows != b.Rows {
		panic("linalg: AddWide of different shapes")
	}
	eachStripe(0, a.Cols, func(i, iEnd int) {
		wide := dense.New[float64](min(wideRows, a.Rows), iEnd-i)
		for r := 0; r < a.Rows; r += wideRows {
			end := min(r+wideRows, a.Rows)
			for k := r; k < end; k++ {
				w := wide.Row(k - r)
				for j, v := range a.Row(k)[i:iEnd] {
					w[j] = float64(v)
				}
			}
			tab.TMul(dst.RowRange(i, iEnd), wide.RowRange(0, end-r), b.RowRange(r, end))
		}
	})
}
