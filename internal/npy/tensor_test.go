package npy_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

func readTensor(t *testing.T, dict string, body []byte) npy.Tensor {
	t.Helper()
	a, err := npy.ReadTensor(bytes.NewReader(file(dict, body)))
	if err != nil {
		t.Fatalf("%s: %v", dict, err)
	}
	return a
}

// The same 2×3×2 array in both memory orders.
func TestReadTensorOrders(t *testing.T) {
	c := readTensor(t, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3, 2), }\n",
		le64(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	// numpy.asfortranarray(numpy.arange(12.).reshape(2, 3, 2)) in memory
	f := readTensor(t, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2), }\n",
		le64(0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11))
	if !slices.Equal(c.F64, f.F64) || c.F64[11] != 11 || !slices.Equal(f.Shape, []int{2, 3, 2}) ||
		f.Dims() != "[2, 3, 2]" {
		t.Errorf("%v, %v", c, f)
	}
	if got := npy.Floats[float32](c); len(got) != 12 || got[7] != 7 {
		t.Errorf("as float32: %v", got)
	}
	if got := npy.Floats[float64](c); &got[0] != &c.F64[0] {
		t.Error("float64 was copied")
	}
}

func TestReadTensorIntegers(t *testing.T) {
	for _, c := range []struct {
		descr   string
		body    []byte
		want    []int64
		bool    bool
		element string
	}{
		{"|b1", []byte{0, 1, 7}, []int64{0, 1, 1}, true, "bool"},
		{"|i1", []byte{0xff, 1, 0x80}, []int64{-1, 1, -128}, false, "int8"},
		{"|u1", []byte{0xff, 1, 0x80}, []int64{255, 1, 128}, false, "uint8"},
		{"<i2", []byte{0xfe, 0xff, 1, 0, 0, 1}, []int64{-2, 1, 256}, false, "int16"},
		{">u2", []byte{0xfe, 0xff, 0, 1, 1, 0}, []int64{0xfeff, 1, 256}, false, "uint16"},
		{">i4", []byte{0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 1, 0, 0, 1, 0}, []int64{-3, 1, 256}, false, "int32"},
		{"<i8", append(append([]byte{5, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8)...), make([]byte, 8)...),
			[]int64{5, -1, 0}, false, "int64"},
	} {
		a := readTensor(t, "{'descr': '"+c.descr+"', 'fortran_order': False, 'shape': (3,), }\n", c.body)
		if a.Element != c.element {
			t.Errorf("%s: element type %s, want %s", c.descr, a.Element, c.element)
		}
		if !slices.Equal(a.Int, c.want) || (a.DType == npy.Bool) != c.bool || a.IsFloat() ||
			npy.Floats[float32](a) != nil {
			t.Errorf("%s: %+v, want %v", c.descr, a, c.want)
		}
		f := a.AsFloats()
		if !f.IsFloat() || len(f.F64) != len(c.want) || f.Int != nil || !slices.Equal(a.Int, c.want) {
			t.Errorf("%s as floats: %+v", c.descr, f)
		}
		for i, v := range f.F64 {
			if v != float64(c.want[i]) {
				t.Errorf("%s as floats: %v, want %v", c.descr, f.F64, c.want)
			}
		}
	}
	_, err := npy.ReadTensor(bytes.NewReader(file("{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }\n",
		bytes.Repeat([]byte{0xff}, 8))))
	var e *npy.Error
	if !errors.As(err, &e) || e.Fault != npy.FaultOverflow {
		t.Errorf("2⁶⁴-1 as int64: %v", err)
	}
}

func TestReadTensorShapes(t *testing.T) {
	if a := readTensor(t, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", le64(3)); len(a.Shape) != 0 ||
		a.F64[0] != 3 {
		t.Errorf("scalar: %+v", a)
	}
	if a := readTensor(t, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 0, 5), }\n",
		nil); a.Dims() != "[2, 0, 5]" || len(a.F32) != 0 {
		t.Errorf("empty: %+v", a)
	}
	many := "{'descr': '<f8', 'fortran_order': False, 'shape': (" + strings.Repeat("1, ", 65) + "), }\n"
	if _, err := npy.ReadTensor(bytes.NewReader(file(many, le64(1)))); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("65 dimensions: %v", err)
	}
}

func TestTensorRoundTrip(t *testing.T) {
	for _, shape := range [][]int{{5}, {2, 3}, {2, 3, 4}, {2, 1, 3, 5}, {2, 0, 3}, {3, 2000}} {
		n, cols := 1, shape[len(shape)-1]
		for _, d := range shape {
			n *= d
		}
		m := dense.New[float32](n/cols, cols)
		for i := range m.Data {
			m.Data[i] = float32(i) / 3
		}
		var b bytes.Buffer
		w, err := npy.NewTensorWriter[float32](&b, shape)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.WriteRows(m), w.Close()); err != nil {
			t.Fatal(err)
		}
		a, err := npy.ReadTensor(&b)
		if err != nil || !slices.Equal(a.Shape, shape) || !slices.Equal(a.F32, m.Data) {
			t.Errorf("%v: %+v, %v", shape, a.Shape, err)
		}
	}
	for _, shape := range [][]int{nil, {-1, 2}, {1 << 40, 1 << 40, 2}} {
		if _, err := npy.NewTensorWriter[float64](io.Discard, shape); !errors.Is(err, dense.ErrShape) {
			t.Errorf("shape %v: %v", shape, err)
		}
	}
}

func TestReadTensorFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := npy.WriteFile(path, dense.MustFromRows([][]float32{{1, 2}, {3, 4}})); err != nil {
		t.Fatal(err)
	}
	a, err := npy.ReadTensorFile(path)
	if err != nil || a.DType != npy.Float32 || a.Element != "float32" || !slices.Equal(a.F32, []float32{1, 2, 3, 4}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := npy.ReadTensorFile(path + "x"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name the file", err)
	}
}
