// Package dense holds the one array type of the library: a strided, row-major view of a slice.
//
// # Usage
//
// Allocate a matrix with [New], copy rows into one with [FromRows], or wrap memory that you have:
//
//	x := dense.New[float32](rows, cols)
//	x := dense.Matrix[float32]{Rows: rows, Cols: cols, Stride: cols, Data: data}
//
// Row i is x.Row(i), a slice of the same memory. Copying a [Matrix] copies the view, not the elements. A stride
// larger than the number of columns selects some columns of a wider matrix. [Matrix] has the fields of gonum's
// blas32.General and blas64.General, so conversions copy nothing.
//
// Functions of this library write into a destination that the caller passes first and overwrite it completely. A
// wrong shape is an error that wraps [ErrShape]. Values that are not finite are an error that wraps [ErrNotFinite]
// and names the row and column.
package dense

import (
	"fmt"
	"math"
)

// Float is the set of element types every numeric path is written for.
type Float interface{ float32 | float64 }

// Matrix is a strided row-major view: row i is Data[i*Stride : i*Stride+Cols].
// The zero value is the empty matrix. Copying a Matrix copies the view, not the elements.
type Matrix[T Float] struct {
	Rows, Cols, Stride int
	Data               []T
}

// New returns a zero matrix with packed rows.
func New[T Float](rows, cols int) Matrix[T] {
	return Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: fresh[T](rows * cols)}
}

// FromRows copies equally long rows into a packed matrix. Ragged rows are an error that names the row.
func FromRows[T Float](rows [][]T) (Matrix[T], error) {
	if len(rows) == 0 {
		return Matrix[T]{}, nil
	}
	m := New[T](len(rows), len(rows[0]))
	for i, r := range rows {
		if len(r) != m.Cols {
			return Matrix[T]{}, fmt.Errorf("row %d has %d columns, row 0 has %d: %w", i, len(r), m.Cols, ErrShape)
		}
		copy(m.Row(i), r)
	}
	return m, nil
}

// MustFromRows is FromRows for literals in tests and examples: ragged rows panic.
func MustFromRows[T Float](rows [][]T) Matrix[T] {
	m, err := FromRows(rows)
	if err != nil {
		panic("dense: " + err.Error())
	}
	return m
}

// Identity returns the n×n unit matrix.
func Identity[T Float](n int) Matrix[T] {
	m := New[T](n, n)
	for i := range n {
		m.Data[i*n+i] = 1
	}
	return m
}

// Row is the i-th row as a slice that shares memory with m. Rows of a matrix without columns are empty, whatever its
// stride.
func (m Matrix[T]) Row(i int) []T {
	o := i * m.Stride
	if m.Cols == 0 {
		o = 0
	}
	return m.Data[o : o+m.Cols : o+m.Cols]
}

// At is the element in row i, column j.
func (m Matrix[T]) At(i, j int) T { return m.Data[i*m.Stride+j] }

// Set writes the element in row i, column j.
func (m Matrix[T]) Set(i, j int, v T) { m.Data[i*m.Stride+j] = v }

// RowRange is the view of rows lo to hi-1.
func (m Matrix[T]) RowRange(lo, hi int) Matrix[T] {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("dense: rows %d:%d of %d", lo, hi, m.Rows))
	}
	v := m
	v.Rows = hi - lo
	if v.Rows == 0 || v.Cols == 0 {
		v.Data = nil
		return v
	}
	v.Data = m.Data[lo*m.Stride : (hi-1)*m.Stride+m.Cols]
	return v
}

// ColRange is the view of columns lo to hi-1; it keeps the stride of m.
func (m Matrix[T]) ColRange(lo, hi int) Matrix[T] {
	if lo < 0 || hi < lo || hi > m.Cols {
		panic(fmt.Sprintf("dense: columns %d:%d of %d", lo, hi, m.Cols))
	}
	v := m
	v.Cols = hi - lo
	if v.Rows == 0 || v.Cols == 0 {
		v.Data = nil
		return v
	}
	v.Data = m.Data[lo : (m.Rows-1)*m.Stride+hi]
	return v
}

// IsEmpty reports whether m has no elements.
func (m Matrix[T]) IsEmpty() bool { return m.Rows == 0 || m.Cols == 0 }

// Clone returns a packed copy.
func (m Matrix[T]) Clone() Matrix[T] {
	c := New[T](m.Rows, m.Cols)
	for i := range m.Rows {
		copy(c.Row(i), m.Row(i))
	}
	return c
}

// Pick returns a packed copy of the given rows, in order.
func (m Matrix[T]) Pick(rows []int) Matrix[T] {
	c := New[T](len(rows), m.Cols)
	for i, r := range rows {
		copy(c.Row(i), m.Row(r))
	}
	return c
}

// ToRows returns a copy as a slice of rows, the form used in JSON.
func (m Matrix[T]) ToRows() [][]T {
	rows := make([][]T, m.Rows)
	for i := range rows {
		rows[i] = append([]T(nil), m.Row(i)...)
	}
	return rows
}

// Convert returns a packed copy with elements of type U.
func Convert[U, T Float](m Matrix[T]) Matrix[U] {
	c := New[U](m.Rows, m.Cols)
	for i := range m.Rows {
		dst := c.Row(i)
		for j, v := range m.Row(i) {
			dst[j] = U(v)
		}
	}
	return c
}

// Check reports a malformed view: negative sizes, a stride below the number of columns, or too little data.
func (m Matrix[T]) Check() error {
	switch {
	case m.Rows < 0 || m.Cols < 0:
		return fmt.Errorf("%d×%d matrix: %w", m.Rows, m.Cols, ErrShape)
	case m.IsEmpty():
		return nil
	case m.Stride < m.Cols:
		return fmt.Errorf("stride %d of a matrix with %d columns: %w", m.Stride, m.Cols, ErrShape)
	case len(m.Data) < (m.Rows-1)*m.Stride+m.Cols:
		return fmt.Errorf("%d elements for %d×%d with stride %d: %w", len(m.Data), m.Rows, m.Cols, m.Stride, ErrShape)
	}
	return nil
}

// CheckFinite returns a *[NotFiniteError] for the first NaN or infinity in row-major order.
func (m Matrix[T]) CheckFinite() error {
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			// v-v is NaN exactly for NaN and ±Inf.
			if d := v - v; d != d {
				return &NotFiniteError{Row: i, Col: j, Value: float64(v)}
			}
		}
	}
	return nil
}

// Dot is the inner product of two slices of equal length.
func Dot[T Float](x, y []T) T {
	var s T
	y = y[:len(x)]
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// Norm2 is the squared Euclidean norm.
func Norm2[T Float](x []T) T { return Dot(x, x) }

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
