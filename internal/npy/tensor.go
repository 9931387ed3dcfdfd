package npy

import (
	"fmt"
	"io"
	"strings"

	"github.com/randfeat/randfeat/dense"
)

// Tensor is an array of any number of dimensions, row-major. One of F32, F64 and Int is set, as DType says;
// integers of any width and bools are held as int64.
type Tensor struct {
	DType   DType
	Element string // element type of the file in NumPy's terms, such as int32
	Shape   []int
	F32     []float32
	F64     []float64
	Int     []int64
}

// ReadTensor reads one array of floats, integers or bools that must end where r ends. Both byte orders and both
// memory orders are understood. Errors about the contents are *[Error].
func ReadTensor(r io.Reader) (Tensor, error) { return readTensor(r, -1) }

// ReadTensorFile is ReadTensor for a file; the error names it.
func ReadTensorFile(path string) (Tensor, error) { return readFile(path, readTensor) }

func readTensor(r io.Reader, size int64) (Tensor, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return Tensor{}, err
	}
	return readBody(r, h, size)
}

// Dims is the shape as Python writes it: [8, 1024, 64].
func (t Tensor) Dims() string { return Dims(t.Shape) }

// Dims formats a shape as a Python list.
func Dims(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ") }

// IsFloat reports whether the elements are floats.
func (t Tensor) IsFloat() bool { return t.DType == Float32 || t.DType == Float64 }

// Floats returns the elements of a float tensor in the type T, nil for integers. It does not copy if the file
// holds T.
func Floats[T dense.Float](t Tensor) []T {
	if same, ok := any(t.F32).([]T); ok && t.DType == Float32 {
		return same
	}
	if same, ok := any(t.F64).([]T); ok && t.DType == Float64 {
		return same
	}
	switch t.DType {
	case Float32:
		return convert[T](t.F32)
	case Float64:
		return convert[T](t.F64)
	}
	return nil
}

// AsFloats returns the tensor itself if it holds floats. Integers and bools become float64: exact up to 2^53,
// rounded to nearest beyond; true is 1.
func (t Tensor) AsFloats() Tensor {
	if t.IsFloat() {
		return t
	}
	t.F64 = make([]float64, len(t.Int))
	for i, v := range t.Int {
		t.F64[i] = float64(v)
	}
	t.DType, t.Int = Float64, nil
	return t
}

func convert[T, S dense.Float](src []S) []T {
	out := make([]T, len(src))
	for i, v := range src {
		out[i] = T(v)
	}
	return out
}
