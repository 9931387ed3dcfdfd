package kern

import "github.com/randfeat/randfeat/dense"

// Accumulator sums aᵀ·b over a long sequence of blocks without losing accuracy. Products are added in T for flushRows
// rows and then moved to float64, so the float32 error stays that of a short sum, however long the sequence.
type Accumulator[T dense.Float] struct {
	tab   *Table[T]
	part  dense.Matrix[T]
	total dense.Matrix[float64]
	rows  int
}

// flushRows bounds the rows summed in T. Moving the sum costs one pass over it, which is negligible beside 4096 rows of
// products.
const flushRows = 4096

// NewAccumulator returns a zero sum of m×n.
func NewAccumulator[T dense.Float](tab *Table[T], m, n int) *Accumulator[T] {
	return &Accumulator[T]{tab: tab, part: dense.New[T](m, n), total: dense.New[float64](m, n)}
}

// Add adds aᵀ·b; a has m columns and b has n. The bits do not depend on how rows are divided among calls.
func (s *Accumulator[T]) Add(a, b dense.Matrix[T]) {
	for lo := 0; lo < a.Rows; {
		hi := min(a.Rows, lo+flushRows-s.rows)
		s.tab.TMul(s.part, a.RowRange(lo, hi), b.RowRange(lo, hi))
		s.rows += hi - lo
		if s.rows == flushRows {
			s.flush()
		}
		lo = hi
	}
}

func (s *Accumulator[T]) flush() {
	for i, v := range s.part.Data {
		s.total.Data[i] += float64(v)
	}
	clear(s.part.Data)
	s.rows = 0
}

// Sum returns the sum so far; it is valid until the next Add. It moves the part summed in T to float64, so calling it
// earlier or later changes rounding.
func (s *Accumulator[T]) Sum() dense.Matrix[float64] {
	s.flush()
	return s.total
}
