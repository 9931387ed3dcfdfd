package trees

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

const (
	maxBins = 255 // of a column, bin 0 included
	binRows = 3   // of a bin of numbers, at least: fewer bins are searched faster
)

// Bins are the rows of a table with each value replaced by the number of its bin. They are made without targets, so
// folds can share them.
type Bins struct {
	rows    int
	columns []column
	bins    []uint8 // column after column
}

// column says which bin a value belongs to. Bin 0 has missing values.
//
// Numbers: bin i has the values between cuts[i−2] and cuts[i−1], the latter included.
// Levels: bin i is the level cuts[i−1]; bin 0 also has all other levels.
type column struct {
	levels, used bool
	cuts         []float64 // ascending
}

// Bin replaces the values of x by bins. NaN means missing. levels marks the columns whose numbers are codes of levels
// without order; nil means none. Of such a column, the 254 most frequent levels have bins of their own. Infinite values
// are an error that wraps dense.ErrNotFinite; a wrong shape wraps dense.ErrShape.
func Bin(x dense.Matrix[float64], levels []bool) (*Bins, error) {
	if err := x.Check(); err != nil {
		return nil, fmt.Errorf("trees: %w", err)
	}
	if x.Rows < 1 || x.Rows > maxRows || x.Cols < 1 || x.Cols > maxWidth || levels != nil && len(levels) != x.Cols {
		return nil, fmt.Errorf("trees: a table of %d×%d with %d marks of levels, want 1 to %d rows and 1 to %d columns: %w",
			x.Rows, x.Cols, len(levels), maxRows, maxWidth, dense.ErrShape)
	}
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			if v == v && !dense.IsFinite(v) {
				return nil, fmt.Errorf("trees: row %d, column %d is %v: %w", i, j, v, dense.ErrNotFinite)
			}
		}
	}
	b := &Bins{rows: x.Rows, columns: make([]column, x.Cols), bins: make([]uint8, x.Rows*x.Cols)}
	par.For(x.Cols, max(1, 1<<13/x.Rows), func(lo, hi int) {
		sorted := make([]float64, 0, x.Rows)
		for j := lo; j < hi; j++ {
			sorted = sorted[:0]
			for i := range x.Rows {
				if v := x.At(i, j); v == v {
					sorted = append(sorted, v)
				}
			}
			slices.Sort(sorted)
			c, bins := newColumn(sorted, levels != nil && levels[j]), b.column(j)
			for i := range bins {
				bins[i] = c.bin(x.At(i, j))
			}
			c.used = slices.Min(bins) < slices.Max(bins)
			b.columns[j] = c
		}
	})
	return b, nil
}

// column returns the bins of column j.
func (b *Bins) column(j int) []uint8 { return b.bins[j*b.rows : (j+1)*b.rows] }

// newColumn makes bins from the values of a column in ascending order, without missing ones.
func newColumn(sorted []float64, levels bool) column {
	type value struct {
		v float64
		n int
	}
	var values []value
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			values = append(values, value{v, 0})
		}
		values[len(values)-1].n++
	}
	c := column{levels: levels}
	if levels {
		slices.SortStableFunc(values, func(a, b value) int { return cmp.Compare(b.n, a.n) })
		for _, v := range values[:min(len(values), maxBins-1)] {
			c.cuts = append(c.cuts, v.v)
		}
		slices.Sort(c.cuts)
		return c
	}
	// Each bin takes its share of the rows that are left, so a frequent value does not cost the others their bins.
	rows, left, bins := 0, len(sorted), max(1, maxBins-1)
	share := func() int {
		if len(values) < maxBins {
			return binRows
		}
		return max(binRows, (left+bins-1)/bins)
	}
	for i := 0; i+1 < len(values) && bins > 1; i++ {
		if rows += values[i].n; rows < share() {
			continue
		}
		cut := values[i].v/2 + values[i+1].v/2
		if !(cut >= values[i].v && cut < values[i+1].v) { // no number lies between them
			cut = values[i].v
		}
		c.cuts = append(c.cuts, cut)
		rows, left, bins = 0, left-rows, bins-1
	}
	return c
}

// count is the number of bins.
func (c *column) count() int {
	if c.levels {
		return len(c.cuts) + 1
	}
	return len(c.cuts) + 2
}

// bin returns the bin of v.
func (c *column) bin(v float64) uint8 {
	if v != v {
		return 0
	}
	at, found := slices.BinarySearch(c.cuts, v)
	if c.levels && !found {
		return 0
	}
	return uint8(at + 1)
}
