package npy

import (
	"fmt"
	"io"
	"os"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
)

// Array is a matrix in the element type of its file. Exactly one of F32 and F64 is set, as DType says.
type Array struct {
	DType DType
	F32   dense.Matrix[float32]
	F64   dense.Matrix[float64]
}

// Rows is the number of rows.
func (a Array) Rows() int { return max(a.F32.Rows, a.F64.Rows) }

// Cols is the number of columns.
func (a Array) Cols() int { return max(a.F32.Cols, a.F64.Cols) }

// Float64 returns the matrix in float64. It does not copy if the file holds float64.
func (a Array) Float64() dense.Matrix[float64] {
	if a.DType == Float32 {
		return dense.Convert[float64](a.F32)
	}
	return a.F64
}

// Float32 returns the matrix in float32. It does not copy if the file holds float32.
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

// Read reads one two-dimensional array of floats that must end where r ends; float16 becomes float32. Both byte
// orders and both memory orders are understood; the result is row-major. Errors about the contents are
// *[Error].
func Read(r io.Reader) (Array, error) { return readArray(r, -1) }

// ReadFile is Read for a file; the error names it.
func ReadFile(path string) (Array, error) { return readFile(path, readArray) }

func readArray(r io.Reader, size int64) (Array, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return Array{}, err
	}
	if err := h.checkMatrix(); err != nil {
		return Array{}, err
	}
	t, err := readBody(r, h, size)
	if err != nil {
		return Array{}, err
	}
	a := Array{DType: h.Dtype}
	rows, cols := h.Shape[0], h.Shape[1]
	if h.Dtype == Float32 {
		a.F32 = dense.Matrix[float32]{Rows: rows, Cols: cols, Stride: cols, Data: t.F32}
	} else {
		a.F64 = dense.Matrix[float64]{Rows: rows, Cols: cols, Stride: cols, Data: t.F64}
	}
	return a, nil
}

// readFile passes an opened file and its length to read; the error names the file. Length -1 means unknown, as
// for a pipe.
func readFile[A any](path string, read func(r io.Reader, size int64) (A, error)) (A, error) {
	var none A
	if err := localfile.Check(path); err != nil {
		return none, err
	}
	f, err := os.Open(path)
	if err != nil {
		return none, err // names the path
	}
	defer f.Close()
	size := int64(-1)
	if info, err := f.Stat(); err == nil {
		if info.IsDir() {
			return none, fmt.Errorf("%s is a directory, want an npy file", path)
		}
		if info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	a, err := read(f, size)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readBody reads the elements that h promises. size is the length of the whole file, -1 if unknown.
func readBody(r io.Reader, h Header, size int64) (Tensor, error) {
	if size >= 0 {
		if err := CheckSize(h, size-h.Size); err != nil {
			return Tensor{}, err
		}
	}
	t := Tensor{DType: h.Dtype, Element: h.element(), Shape: h.Shape}
	var err error
	switch h.Dtype {
	case Float32:
		t.F32, err = readElements(r, h, size >= 0, DecodeFloat32)
	case Float64:
		t.F64, err = readElements(r, h, size >= 0, DecodeFloat64)
	default:
		t.Int, err = readElements(r, h, size >= 0, DecodeInt)
	}
	return t, err
}

// chunkBytes is the step in which data are read. Memory grows with the data that really arrive, whatever the
// shape claims.
const chunkBytes = 1 << 20

// readElements reads all elements in row-major order. known means that the file is as long as the shape
// promises, so that all memory may be allocated at once.
func readElements[E any](r io.Reader, h Header, known bool, decode func(dst []E, b []byte,
	h Header) error) ([]E, error) {
	total := h.Elements()
	var values []E
	if known {
		values = make([]E, 0, total)
	}
	buf := make([]byte, min(chunkBytes, total*h.Width))
	chunk := make([]E, len(buf)/h.Width)
	for len(values) < total {
		n := min(len(buf), (total-len(values))*h.Width)
		got, err := io.ReadFull(r, buf[:n])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, CheckSize(h, int64(len(values))*int64(h.Width)+int64(got))
		}
		if err != nil {
			return nil, err
		}
		if err := decode(chunk[:n/h.Width], buf[:n], h); err != nil {
			return nil, err
		}
		values = append(values, chunk[:n/h.Width]...)
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return nil, Errorf(FaultTrailing, "data follow the %s array", h.Dims())
	}
	if h.Fortran && len(h.Shape) > 1 {
		return rowMajor(values, h.Shape), nil
	}
	return values, nil
}

// rowMajor reorders column-major elements, whose first index varies fastest.
func rowMajor[E any](values []E, shape []int) []E {
	out := make([]E, len(values))
	index := make([]int, len(shape))
	stride := make([]int, len(shape)) // of the row-major result
	for i, s := len(shape)-1, 1; i >= 0; i-- {
		stride[i] = s
		s *= shape[i]
	}
	at := 0
	for _, v := range values {
		out[at] = v
		for i := range index { // the next index
			index[i]++
			at += stride[i]
			if index[i] < shape[i] {
				break
			}
			at -= stride[i] * shape[i]
			index[i] = 0
		}
	}
	return out
}
