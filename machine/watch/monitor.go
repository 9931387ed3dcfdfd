package watch

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// ErrMismatch marks monitors and rows of another reference.
var ErrMismatch = errors.New("of another reference")

// Monitor sums the statistics of rows, in memory that does not depend on their number. Monitors of one reference merge,
// so rows may be watched on many machines. A monitor serves one goroutine.
type Monitor struct {
	r    *Reference
	rows float64
	sums []float64
	s    statistics
}

// Monitor returns an empty monitor.
func (r *Reference) Monitor() *Monitor { return &Monitor{r: r, sums: make([]float64, r.size)} }

// Add adds rows encoded by [Reference.Encoder]. outputs are the predictions of the model for them: one row per row of
// x, with a target each or the probabilities of the classes; the empty matrix if there are none.
func (m *Monitor) Add(x, outputs dense.Matrix[float64]) error {
	if x.Cols != m.r.schema.Width() {
		return fmt.Errorf("rows of %d columns for a reference of %d: %w", x.Cols, m.r.schema.Width(), dense.ErrShape)
	}
	if !outputs.IsEmpty() && (outputs.Rows != x.Rows || outputs.Cols != m.r.out.Count) {
		return fmt.Errorf("outputs are %d×%d for %d rows of %d outputs: %w", outputs.Rows, outputs.Cols, x.Rows,
			m.r.out.Count, dense.ErrShape)
	}
	for lo := 0; lo < x.Rows; lo += blockRows {
		hi := min(lo+blockRows, x.Rows)
		if err := m.s.of(&m.r.layout, x.RowRange(lo, hi), m.r.centre, m.r.limit); err != nil {
			return err
		}
		for i := range hi - lo {
			m.s.addTo(m.sums, &m.r.layout, i)
			if !outputs.IsEmpty() {
				m.r.out.add(m.sums[m.r.atPredictions:m.r.atCounts], outputs.Row(lo+i))
			}
		}
	}
	m.rows += float64(x.Rows)
	return nil
}

// Rows is the number of rows added.
func (m *Monitor) Rows() int64 { return int64(m.rows) }

// Merge adds the rows of o, which must be a monitor of the same reference.
func (m *Monitor) Merge(o *Monitor) error {
	if m.r != o.r && m.r.digest() != o.r.digest() {
		return fmt.Errorf("a monitor %w", ErrMismatch)
	}
	m.rows += o.rows
	for i, v := range o.sums {
		m.sums[i] += v
	}
	return nil
}

// Reset forgets all rows.
func (m *Monitor) Reset() {
	m.rows = 0
	clear(m.sums)
}
