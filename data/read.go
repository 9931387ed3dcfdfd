package data

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/randfeat/randfeat/dense"
)

// Array is a matrix in the element type of its file. Exactly one of F32 and F64 is set.
type Array struct {
	DType DType
	F32   dense.Matrix[float32]
	F64   dense.Matrix[float64]
}

// Rows is the number of rows.
func (a Array) Rows() int { return max(a.F32.Rows, a.F64.Rows) }

// Cols is the number of columns.
func (a Array) Cols() int { return max(a.F32.Cols, a.F64.Cols) }

// Float64 is the matrix in float64; nothing is copied when the file holds float64.
func (a Array) Float64() dense.Matrix[float64] {
	if a.DType == Float32 {
		return dense.Convert[float64](a.F32)
	}
	return a.F64
}

// Float32 is the matrix in float32; nothing is copied when the file holds float32.
func (a Array) Float32() dense.Matrix[float32] {
	if a.DType == Float64 {
		return dense.Convert[float32](a.F64)
	}
	return a.F32
}

// CheckFinite returns a *[dense.NotFiniteError] for the first NaN or infinity.
func (a Array) CheckFinite() error {
	if a.DType == Float32 {
		return a.F32.CheckFinite()
	}
	return a.F64.CheckFinite()
}

// chunkBytes is how much is read at a time: memory grows with the data that really arrives, whatever the shape says.
const chunkBytes = 1 << 20

// ReadNPY reads one two-dimensional float32 or float64 array that must end where r ends. Both byte orders and both
// memory orders are understood; the result is row-major. Errors about the contents are *[NPYError].
func ReadNPY(r io.Reader) (Array, error) { return readNPY(r, -1) }

// ReadNPYFile is ReadNPY for a file; the error names it.
func ReadNPYFile(path string) (Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return Array{}, err // names the path
	}
	defer f.Close()
	size := int64(-1)
	if info, err := f.Stat(); err == nil {
		if info.IsDir() {
			return Array{}, fmt.Errorf("%s is a directory, want an npy file", path)
		}
		if info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	a, err := readNPY(f, size)
	if err != nil {
		return Array{}, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readNPY reads an array; size is the total length of r if it is known, else -1.
func readNPY(r io.Reader, size int64) (Array, error) {
	h, err := readHeader(r)
	if err != nil {
		return Array{}, err
	}
	if size >= 0 {
		if err := checkSize(h, size-h.size); err != nil {
			return Array{}, err
		}
	}
	a := Array{DType: h.dtype}
	if h.dtype == Float32 {
		a.F32, err = readMatrix(r, h, func(b []byte) float32 { return math.Float32frombits(h.order.Uint32(b)) })
	} else {
		a.F64, err = readMatrix(r, h, func(b []byte) float64 { return math.Float64frombits(h.order.Uint64(b)) })
	}
	return a, err
}

// checkSize compares the bytes that follow the header with those the shape promises.
func checkSize(h header, have int64) error {
	want := int64(h.elements()) * int64(h.dtype.Size())
	switch {
	case have < want:
		return fault(FaultTruncated, "%d×%d %v need %d bytes, the file holds %d", h.rows, h.cols, h.dtype, want, have)
	case have > want:
		return fault(FaultTrailing, "%d bytes follow the %d×%d array", have-want, h.rows, h.cols)
	}
	return nil
}

func readMatrix[T dense.Float](r io.Reader, h header, decode func([]byte) T) (dense.Matrix[T], error) {
	width, total := h.dtype.Size(), h.elements()
	var values []T
	buf := make([]byte, min(chunkBytes, total*width))
	for len(values) < total {
		n := min(len(buf), (total-len(values))*width)
		got, err := io.ReadFull(r, buf[:n])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return dense.Matrix[T]{}, checkSize(h, int64(len(values))*int64(width)+int64(got))
		}
		if err != nil {
			return dense.Matrix[T]{}, err
		}
		for i := 0; i < n; i += width {
			values = append(values, decode(buf[i:i+width]))
		}
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return dense.Matrix[T]{}, fault(FaultTrailing, "data follow the %d×%d array", h.rows, h.cols)
	}
	m := dense.Matrix[T]{Rows: h.rows, Cols: h.cols, Stride: h.cols, Data: values}
	if h.fortran {
		return transpose(m), nil
	}
	return m, nil
}

// transpose turns column-major elements into a row-major matrix of the same shape.
func transpose[T dense.Float](m dense.Matrix[T]) dense.Matrix[T] {
	out := dense.New[T](m.Rows, m.Cols)
	for j := range m.Cols {
		for i, v := range m.Data[j*m.Rows : (j+1)*m.Rows] {
			out.Set(i, j, v)
		}
	}
	return out
}
