package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// ErrSafetensors marks every error about the contents of a safetensors file.
var ErrSafetensors = tensorfile.ErrFormat

const safetensorsExt = ".safetensors"

// splitTensor splits file.safetensors:name; the name is empty if it is left out.
func splitTensor(path string) (file, name string, ok bool) {
	if strings.EqualFold(filepath.Ext(path), safetensorsExt) {
		return path, "", true
	}
	if i := strings.Index(strings.ToLower(path), safetensorsExt+":"); i >= 0 {
		i += len(safetensorsExt)
		return path[:i], path[i+1:], true
	}
	return path, "", false
}

// ReadAnyTensor reads an array: an npy file, or one tensor of a safetensors file, written
// file.safetensors:name. The name may be omitted if the file has one tensor. float16 and bfloat16 become
// float32, which represents them exactly. Only the requested tensor is read.
func ReadAnyTensor(path string) (Tensor, error) {
	file, name, ok := splitTensor(path)
	if !ok {
		return ReadTensorFile(path)
	}
	t, err := readSafetensor(file, name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return t, err
}

// ReadAny is [ReadAnyTensor] for a matrix of floats.
func ReadAny(path string) (Array, error) {
	if _, _, ok := splitTensor(path); !ok {
		return ReadFile(path)
	}
	t, err := ReadAnyTensor(path)
	if err != nil {
		return Array{}, err
	}
	if !t.IsFloat() || len(t.Shape) != 2 {
		return Array{}, fmt.Errorf("%s is %s of %s, want a matrix of floats: %w", path, t.Dims(), t.Element,
			dense.ErrShape)
	}
	rows, cols := t.Shape[0], t.Shape[1]
	a := Array{DType: t.DType}
	if t.DType == Float32 {
		a.F32 = dense.Matrix[float32]{Rows: rows, Cols: cols, Stride: cols, Data: t.F32}
	} else {
		a.F64 = dense.Matrix[float64]{Rows: rows, Cols: cols, Stride: cols, Data: t.F64}
	}
	return a, nil
}

func readSafetensor(path, name string) (Tensor, error) {
	if err := localfile.Check(path); err != nil {
		return Tensor{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Tensor{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Tensor{}, err
	}
	if !info.Mode().IsRegular() {
		return Tensor{}, errors.New("no regular file: a safetensors file is read at several places")
	}
	x, err := tensorfile.Read(f, info.Size())
	if err != nil {
		return Tensor{}, err
	}
	if name == "" {
		if len(x.Tensors) != 1 {
			return Tensor{}, fmt.Errorf("%d tensors: name one after the file, such as %s:%s; they are %s", len(x.Tensors),
				filepath.Base(path), firstName(x), tensorNames(x))
		}
		name = x.Tensors[0].Name
	}
	raw, ok, err := x.Tensor(name)
	if !ok && err == nil {
		err = fmt.Errorf("no tensor %s; they are %s", cell.Quote(name), tensorNames(x))
	}
	if err != nil {
		return Tensor{}, err
	}
	return decodeTensor(raw)
}

func firstName(x *tensorfile.Index) string {
	if len(x.Tensors) == 0 {
		return "NAME"
	}
	return x.Tensors[0].Name
}

func tensorNames(x *tensorfile.Index) string {
	names := make([]string, len(x.Tensors))
	for i, t := range x.Tensors {
		names[i] = t.Name
	}
	return cell.QuoteList(names)
}

// elementNames maps the element types of safetensors files that can be read to NumPy's names.
var elementNames = map[string]string{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
	"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16",
	"U8": "uint8", "BOOL": "bool"}

func decodeTensor(raw tensorfile.Tensor) (Tensor, error) {
	t := Tensor{Element: elementNames[raw.DType], Shape: raw.Shape}
	b := raw.Data
	switch raw.DType {
	case "F64":
		t.F64 = make([]float64, len(b)/8)
		t.DType = Float64
		return t, DecodeFloat64(t.F64, b, Header{order: binary.LittleEndian})
	case "F32":
		t.F32 = make([]float32, len(b)/4)
		t.DType = Float32
		return t, DecodeFloat32(t.F32, b, Header{order: binary.LittleEndian, Width: 4})
	case "F16":
		t.F32 = make([]float32, len(b)/2)
		t.DType = Float32
		return t, DecodeFloat32(t.F32, b, Header{order: binary.LittleEndian, Width: 2})
	case "BF16":
		t.F32 = make([]float32, len(b)/2)
		t.DType = Float32
		for i := range t.F32 {
			t.F32[i] = kern.FromBrain(binary.LittleEndian.Uint16(b[2*i:]))
		}
		return t, nil
	}
	if t.Element == "" {
		return t, fmt.Errorf("tensor %s has elements of type %s, want floats of 16, 32 or 64 bits, integers or bools: convert it: %w",
			cell.Quote(raw.Name), raw.DType, ErrSafetensors)
	}
	h := Header{Dtype: Int64, order: binary.LittleEndian, descr: "<i8", Width: 8}
	switch raw.DType {
	case "BOOL":
		h.Dtype, h.Width = Bool, 1
	case "I32", "U32":
		h.Width = 4
	case "I16", "U16":
		h.Width = 2
	case "I8", "U8":
		h.Width = 1
	}
	if raw.DType[0] == 'U' {
		h.descr = "<u8"
	}
	t.DType, t.Int = h.Dtype, make([]int64, len(b)/h.Width)
	return t, DecodeInt(t.Int, b, h)
}
