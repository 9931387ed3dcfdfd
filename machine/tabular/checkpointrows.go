package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// rowHash hashes the rows of a pass. A resumed pass compares the hash to verify that it reads the rows that were
// already summed. The hash depends on their order and costs a few operations per number, little compared with the
// features. 64 bits detect accidents, not adversaries. Rows are hashed after encoding, so a change of spelling does not
// matter.
type rowHash struct {
	sum      uint64
	rows     int64
	expected uint64 // expected hash after until rows; 0 rows: none
	until    int64
}

// of returns the hash of the first n rows, if that many were read, else the expected one.
func (h *rowHash) of(n int64) uint64 {
	if h.rows >= n {
		return h.sum
	}
	return h.expected
}

func (h *rowHash) add(x, y dense.Matrix[float64]) error {
	for i := range x.Rows {
		for _, v := range x.Row(i) {
			h.sum = rng.Mix64(h.sum ^ math.Float64bits(v))
		}
		if y.Cols > 0 {
			for _, v := range y.Row(i) {
				h.sum = rng.Mix64(h.sum ^ math.Float64bits(v))
			}
		}
		h.rows++
		if h.rows == h.until && h.sum != h.expected {
			return errRowsChanged
		}
	}
	return nil
}

var errRowsChanged = fmt.Errorf("it is of a fit with other rows: the table has changed since: %w", machine.ErrMismatch)

// checked returns rows whose first pass is hashed for the checkpoint.
func (c *checkpoint) checked(rows machine.Rows) machine.Rows {
	if c == nil {
		return rows
	}
	return &checkedRows{Rows: rows, c: c}
}

type checkedRows struct {
	machine.Rows
	c    *checkpoint
	done bool
}

func (r *checkedRows) Each(block int, use func(x, y dense.Matrix[float64]) error) error {
	if r.done {
		return r.Rows.Each(block, use)
	}
	h := &r.c.read
	h.sum, h.rows = 0, 0
	err := r.Rows.Each(block, func(x, y dense.Matrix[float64]) error {
		if err := h.add(x, y); err != nil {
			return fmt.Errorf("checkpoint %s: %w; to begin anew delete the file, or name another", r.c.path, err)
		}
		return use(x, y)
	})
	r.done = err == nil
	return err
}
