// Package weights describes the parameters of pretrained models, whatever file they come from: named tensors,
// possibly quantised, and the configuration of the model.
//
// The readers of file formats (gguf, safetensors) return a [File]. Forward passes take a File and use one set of
// names, those of Hugging Face. [Tensor.Floats] and [Tensor.Row] convert any type to float32.
package weights

import (
	"errors"
	"fmt"
)

// ErrFormat means that a file is damaged or holds a model that this module cannot use.
var ErrFormat = errors.New("not a usable model file")

// Type says how the numbers of a tensor are stored. Quantised types store blocks of numbers along a row, and a row
// is a whole number of blocks. The layouts are those of ggml.
type Type uint8

// Types of tensors.
const (
	F32  Type = iota // IEEE 754 binary32
	F16              // IEEE 754 binary16
	BF16             // upper half of binary32
	Q8_0             // 32 numbers: float16 scale, 32 int8
	Q4_0             // 32 numbers: float16 scale, 16 bytes of nibbles, 8 subtracted
	Q4_1             // 32 numbers: float16 scale and minimum, 16 bytes of nibbles
	Q5_0             // 32 numbers: float16 scale, 4 bytes of fifth bits, 16 of nibbles, 16 subtracted
	Q5_1             // 32 numbers: float16 scale and minimum, 4 bytes of fifth bits, 16 of nibbles
	Q4_K             // 256 numbers: float16 scale and minimum, 12 bytes of scales and minima in 6 bits, 128 of nibbles
	Q5_K             // 256 numbers: like Q4_K, with 32 bytes of fifth bits before the nibbles
	Q6_K             // 256 numbers: 128 bytes of low nibbles, 64 bytes of high pairs, 16 int8 scales, float16 scale
	types
)

var typeNames = [types]string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}

// typeBlocks has the numbers and the bytes of a block.
var typeBlocks = [types][2]int{{1, 4}, {1, 2}, {1, 2}, {32, 34}, {32, 18}, {32, 20}, {32, 22}, {32, 24}, {256, 144},
	{256, 176}, {256, 210}}

func (t Type) String() string {
	if t < types {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// Block returns how many numbers a block of the type holds, and in how many bytes.
func (t Type) Block() (numbers, bytes int) { return typeBlocks[t][0], typeBlocks[t][1] }

// Tensor is a named array. Data holds Shape in row-major order and belongs to the file: do not write to it, and do
// not use it after the file's Close.
type Tensor struct {
	Name  string // in the notation of the file
	Type  Type
	Shape []int // {rows, cols} of a matrix, {length} of a vector
	Data  []byte
}

// Cols is the length of a row.
func (t Tensor) Cols() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Rows is the number of rows; a vector is one row.
func (t Tensor) Rows() int {
	n := 1
	for i, d := range t.Shape {
		if i < len(t.Shape)-1 {
			n *= d
		}
	}
	return n
}

// RowBytes is the number of bytes of a row.
func (t Tensor) RowBytes() int {
	numbers, bytes := t.Type.Block()
	return t.Cols() / numbers * bytes
}

// Floats converts all numbers to float32. If dst is too short, a new slice is allocated.
func (t Tensor) Floats(dst []float32) []float32 {
	rows, cols := t.Rows(), t.Cols()
	if len(dst) < rows*cols {
		dst = make([]float32, rows*cols)
	}
	dst = dst[:rows*cols]
	Decode(dst, t.Data, t.Type)
	return dst
}

// Row converts row i to float32. dst must have room for a row.
func (t Tensor) Row(dst []float32, i int) {
	n := t.RowBytes()
	Decode(dst[:t.Cols()], t.Data[i*n:(i+1)*n], t.Type)
}
