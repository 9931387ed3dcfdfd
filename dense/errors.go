package dense

import (
	"errors"
	"fmt"
)

// ErrShape marks every error about sizes: ragged rows, wrong dimensions, too little data.
var ErrShape = errors.New("wrong shape")

// ErrNotFinite marks every error about NaN or infinite input.
var ErrNotFinite = errors.New("not a finite number")

// NotFiniteError says where a NaN or an infinity was found.
type NotFiniteError struct {
	Row, Col int
	Value    float64
}

// Error names the row, the column and the value.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("row %d, column %d is %v: %v", e.Row, e.Col, e.Value, ErrNotFinite)
}

// Is makes errors.Is(err, ErrNotFinite) true.
func (e *NotFiniteError) Is(target error) bool { return target == ErrNotFinite }
