package npy_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

func writeTensors(t *testing.T, tensors ...tensorfile.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	var b bytes.Buffer
	if _, err := (&tensorfile.File{Tensors: tensors}).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func words(v ...uint16) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint16(b, w)
	}
	return b
}

func TestReadAnyTensor(t *testing.T) {
	path := writeTensors(t,
		tensorfile.Tensor{Name: "q", DType: "F16", Shape: []int{2, 2}, Data: words(0x3c00, 0xc000, 0x0001, 0x7bff)},
		tensorfile.Tensor{Name: "k.weight", DType: "BF16", Shape: []int{2, 2}, Data: words(0x3f80, 0xc000, 0x0001,
			0x7f7f)},
		tensorfile.Floats("x", []float64{1, math.Pi}, 1, 2),
		tensorfile.Tensor{Name: "s", DType: "F32", Shape: []int{1, 1}, Data: []byte{0, 0, 0xc0, 0x3f}},
		tensorfile.Tensor{Name: "mask", DType: "BOOL", Shape: []int{3}, Data: []byte{0, 1, 7}},
		tensorfile.Tensor{Name: "ids", DType: "I32", Shape: []int{1}, Data: []byte{0xfe, 0xff, 0xff, 0xff}},
		tensorfile.Tensor{Name: "u", DType: "U16", Shape: []int{1}, Data: words(0xffff)},
		tensorfile.Tensor{Name: "f8", DType: "F8_E4M3", Shape: []int{1}, Data: []byte{1}},
		tensorfile.Tensor{Name: "big", DType: "U64", Shape: []int{1}, Data: bytes.Repeat([]byte{0xff}, 8)})
	for name, want := range map[string]npy.Tensor{
		"q": {DType: npy.Float32, Element: "float16", Shape: []int{2, 2}, F32: []float32{1, -2, 0x1p-24, 65504}},
		"k.weight": {DType: npy.Float32, Element: "bfloat16", Shape: []int{2, 2},
			F32: []float32{1, -2, math.Float32frombits(1 << 16), math.Float32frombits(0x7f7f0000)}},
		"x":    {DType: npy.Float64, Element: "float64", Shape: []int{1, 2}, F64: []float64{1, math.Pi}},
		"s":    {DType: npy.Float32, Element: "float32", Shape: []int{1, 1}, F32: []float32{1.5}},
		"mask": {DType: npy.Bool, Element: "bool", Shape: []int{3}, Int: []int64{0, 1, 1}},
		"ids":  {DType: npy.Int64, Element: "int32", Shape: []int{1}, Int: []int64{-2}},
		"u":    {DType: npy.Int64, Element: "uint16", Shape: []int{1}, Int: []int64{65535}},
	} {
		if got, err := npy.ReadAnyTensor(path + ":" + name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	if a, err := npy.ReadAny(path + ":q"); err != nil || a.Rows() != 2 || a.Cols() != 2 || a.Float64().At(1,
		1) != 65504 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := npy.ReadAny(path + ":mask"); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"":     `9 tensors: name one after the file, such as model.safetensors:q; they are "q", "k.weight"`,
		":no":  `no tensor "no"; they are "q"`,
		":f8":  `tensor "f8" has elements of type F8_E4M3, want floats`,
		":big": "beyond int64",
	} {
		if _, err := npy.ReadAnyTensor(path + name); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	one := writeTensors(t, tensorfile.Floats("only", []float64{3}, 1, 1))
	if got, err := npy.ReadAnyTensor(one); err != nil || got.F64[0] != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := npy.ReadAnyTensor(one + "x:y"); !errors.Is(err, os.ErrNotExist) { // another name
		t.Error(err)
	}
	cut, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(one, cut[:len(cut)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := npy.ReadAnyTensor(one); !errors.Is(err, npy.ErrSafetensors) ||
		!strings.Contains(err.Error(), "truncated") {
		t.Error(err)
	}
}

// float16 in npy files, of both byte orders.
func TestHalfNPY(t *testing.T) {
	for order, b := range map[string][]byte{"<": {0, 0x3c, 0, 0xc0}, ">": {0x3c, 0, 0xc0, 0}} {
		head := "{'descr': '" + order + "f2', 'fortran_order': False, 'shape': (2, 1), }"
		a, err := npy.Read(bytes.NewReader(file(head, b)))
		if err != nil || a.DType != npy.Float32 || a.F32.At(0, 0) != 1 || a.F32.At(1, 0) != -2 {
			t.Errorf("%s: %+v, %v", order, a, err)
		}
	}
}
