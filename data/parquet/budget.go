package parquet

import (
	"errors"
	"sync/atomic"
)

// budget is a column's share of the memory bound of a reader. A column keeps the bytes that it has drawn for
// its later pages, so whether the bound suffices does not depend on the order in which columns are read.
// Columns are read by several goroutines: only shared is common to them.
type budget struct {
	left   int64 // drawn from shared and free
	shared *atomic.Int64
}

// errBudget concerns all columns together, so it names none.
var errBudget = errors.New("the pages that are read at the same time, one of every column, take more memory than a " +
	"file of this size may: write the file with smaller pages, or leave columns out")

// take charges n bytes before they are allocated. held counts them, for give.
func (b *budget) take(held *int64, n int64) error {
	if need := n - b.left; need > 0 {
		if b.shared.Add(-need) < 0 {
			b.shared.Add(need)
			return errBudget
		}
		b.left += need
	}
	b.left -= n
	*held += n
	return nil
}

// give returns a charge.
func (b *budget) give(held *int64) {
	b.left += *held
	*held = 0
}
