package npy_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/randfeat/randfeat/internal/npy"
)

// FuzzReadNPY: any bytes give an array or an NPYError; an array that was read is written and read back unchanged.
func FuzzReadNPY(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(file(c23, le64(1, 2, 3, 4, 5, 6)))
	f.Add(file(c23, le64(1, 2, 3)))
	f.Add(file("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }\n", be32(1, 2, 3, 4, 5, 6)))
	f.Add(file("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", nil))
	f.Add(file(`{"shape":(2L,),"fortran_order":False,"descr":"<f8"}`, nil))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := npy.Read(bytes.NewReader(b))
		if err != nil {
			var e *npy.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no NPYError", err)
			}
			return
		}
		if a.Rows()*a.Cols()*a.DType.Size() > len(b) {
			t.Fatalf("%d×%d elements from %d bytes", a.Rows(), a.Cols(), len(b))
		}
		var first, second bytes.Buffer
		write := func(w *bytes.Buffer, a npy.Array) error {
			if a.DType == npy.Float32 {
				return npy.Write(w, a.F32)
			}
			return npy.Write(w, a.F64)
		}
		if err := write(&first, a); err != nil {
			t.Fatal(err)
		}
		again, err := npy.Read(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(&second, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatal("the array changed on its way through a file")
		}
	})
}

// FuzzReadNPYTensor: any bytes give a tensor whose elements fit its shape, or an NPYError.
func FuzzReadNPYTensor(f *testing.F) {
	f.Add(file("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2, 1, 2), }\n", be32(1, 2, 3, 4)))
	f.Add(file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", []byte{0, 1, 2}))
	f.Add(file("{'descr': '>u8', 'fortran_order': False, 'shape': (), }\n", le64(-1)))
	f.Add(file("{'descr': '<i2', 'fortran_order': False, 'shape': (4611686018427387904, 0, 4), }", nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := npy.ReadTensor(bytes.NewReader(b))
		if err != nil {
			var e *npy.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no NPYError", err)
			}
			return
		}
		n := 1
		for _, d := range a.Shape {
			n *= d
		}
		if have := len(a.F32) + len(a.F64) + len(a.Int); have != n || n > len(b) {
			t.Fatalf("%d elements of shape %v from %d bytes", have, a.Shape, len(b))
		}
	})
}
