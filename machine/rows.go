package machine

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// Rows is a set of inputs x with targets y that can be read again and again, in the same order.
type Rows interface {
	// Dim is the number of columns of x.
	Dim() int
	// Outputs is the number of columns of y; 0 means that there are no targets. Classification has one, the class
	// index.
	Outputs() int
	// Each calls f with blocks of exactly block rows, the last of which may be shorter. The matrices are valid until f
	// returns; an error of f stops the reading.
	Each(block int, f func(x, y dense.Matrix[float64]) error) error
}

// MatrixRows returns the rows of two matrices; an empty y means no targets. It keeps views of both.
func MatrixRows(x, y dense.Matrix[float64]) (Rows, error) {
	if err := x.Check(); err != nil {
		return nil, fmt.Errorf("x: %w", err)
	}
	if err := y.Check(); err != nil {
		return nil, fmt.Errorf("y: %w", err)
	}
	if y.Cols > 0 && y.Rows != x.Rows {
		return nil, fmt.Errorf("%d rows of x and %d of y: %w", x.Rows, y.Rows, dense.ErrShape)
	}
	return matrixRows{x, y}, nil
}

type matrixRows struct{ x, y dense.Matrix[float64] }

func (r matrixRows) Dim() int     { return r.x.Cols }
func (r matrixRows) Outputs() int { return r.y.Cols }

func (r matrixRows) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	if block < 1 {
		return fmt.Errorf("blocks of %d rows, want at least 1: %w", block, dense.ErrShape)
	}
	for lo := 0; lo < r.x.Rows; lo += block {
		hi := min(lo+block, r.x.Rows)
		y := dense.Matrix[float64]{Rows: hi - lo}
		if r.y.Cols > 0 {
			y = r.y.RowRange(lo, hi)
		}
		if err := f(r.x.RowRange(lo, hi), y); err != nil {
			return err
		}
	}
	return nil
}
