package array_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

// file assembles an npy file of version 1 from its dictionary and data.
func file(dict string, body []byte) []byte {
	h := []byte("\x93NUMPY\x01\x00")
	h = append(h, byte(len(dict)), byte(len(dict)>>8))
	return append(append(h, dict...), body...)
}

// le64 and be32 are the bytes of numbers as a file holds them.
func le64(v ...float64) []byte {
	var b []byte
	for _, x := range v {
		u := math.Float64bits(x)
		for i := range 8 {
			b = append(b, byte(u>>(8*i)))
		}
	}
	return b
}

func be32(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		u := math.Float32bits(x)
		b = append(b, byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
	}
	return b
}

const c23 = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n"

// arrays is an npz file of npy files, by alternating names and contents.
func arrays(t *testing.T, method uint16, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: parts[i].(string), Method: method})
		if err != nil {
			t.Fatal(err)
		}
		w.Write(parts[i+1].([]byte))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const f23 = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n"

func TestNPYSource(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"rows.npy":    file(c23, le64(1, 2, 3, 4, 5, 6)),
		"columns.npy": file(f23, le64(1, 4, 2, 5, 3, 6)),
		"floats.npy":  file("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n", be32(1, 2, 3, 4, 5, 6)),
		"ints.npy":    file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", []byte{1, 4, 2, 5, 3, 6}),
		"zip.npy.gz":  datatest.Gzip(file(c23, le64(1, 2, 3, 4, 5, 6))),
		"zipf.npy.gz": datatest.Gzip(file(f23, le64(1, 4, 2, 5, 3, 6))),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := files.Open([]string{path}, data.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, block := range []int{1, 2, 3} {
			columns, rows, err := datatest.Table(src, nil, block)
			if err != nil || fmt.Sprint(columns, rows) != "[c1 c2 c3] [[1 2 3] [4 5 6]]" {
				t.Errorf("%s: %v %v, %v", name, columns, rows, err)
			}
		}
		if _, rows, err := datatest.Table(src, []data.Kind{data.Text, data.Skip, data.Number}, 2); err != nil ||
			fmt.Sprint(rows) != "[[1 skipped 3] [4 skipped 6]]" {
			t.Errorf("%s by kinds: %v, %v", name, rows, err)
		}
		once, err := files.OpenReader(name, bytes.NewReader(b), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, rows, err := datatest.Table(once, nil, 1); err != nil || fmt.Sprint(rows) != "[[1 2 3] [4 5 6]]" {
			t.Errorf("%s as a stream: %v, %v", name, rows, err)
		}
	}
}

func TestNPZSource(t *testing.T) {
	y := file("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", append([]byte{7, 0, 0, 0, 0, 0, 0, 0}, 8,
		0, 0, 0, 0, 0, 0, 0))
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		b := arrays(t, method, "X.npy", file(c23, le64(1, 2, 3, 4, 5, 6)), "y.npy", y, "Z.npy",
			file(f23, le64(1, 4, 2, 5, 3, 6)))
		src, err := files.OpenBytes("x.npz", b, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range []int{1, 5} {
			columns, rows, err := datatest.Table(src, nil, block)
			want := [][]string{{"1", "2", "3", "7", "1", "2", "3"}, {"4", "5", "6", "8", "4", "5", "6"}}
			if err != nil || strings.Join(columns, " ") != "X1 X2 X3 y Z1 Z2 Z3" || !reflect.DeepEqual(rows, want) {
				t.Errorf("%v %v, %v", columns, rows, err)
			}
		}
	}
}

func TestArrayErrors(t *testing.T) {
	x := file(c23, le64(1, 2, 3, 4, 5, 6))
	for name, b := range map[string][]byte{
		"cut":            x[:len(x)-1],
		"longer":         append(bytes.Clone(x), 0),
		"cut, zipped":    datatest.Gzip(x[:len(x)-1]),
		"longer, zipped": datatest.Gzip(append(bytes.Clone(x), 0)),
		"cube":           file("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1), }\n", le64(1)),
		"no columns":     file("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 0), }\n", nil),
		"huge":           file("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", nil),
		"huge, zipped":   datatest.Gzip(file("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000000, 3), }", nil)),
		"strings":        file("{'descr': '<U5', 'fortran_order': False, 'shape': (2, 3), }", nil),
		"bad zip":        []byte("PK\x03\x04"),
		"no arrays":      []byte("PK\x05\x06" + strings.Repeat("\x00", 18)),
		"other file":     arrays(t, zip.Store, "xl/workbook.xml", []byte("x")),
		"rows differ": arrays(t, zip.Store, "X.npy", x, "y.npy",
			file("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", le64(1, 2, 3))),
		"two of one name": arrays(t, zip.Store, "X.npy", x, "X.npy", x),
		"cut member":      arrays(t, zip.Deflate, "X.npy", x[:len(x)-1]),
	} {
		src, err := files.OpenBytes("x", b, data.Options{})
		if err == nil {
			_, _, err = datatest.Table(src, nil, 10)
		}
		if !errors.Is(err, data.ErrInput) || !strings.HasPrefix(err.Error(), "x:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// float16 in npy files, of both byte orders, as a table.
func TestHalfNPYTable(t *testing.T) {
	for order, b := range map[string][]byte{"<": {0, 0x3c, 0, 0xc0}, ">": {0x3c, 0, 0xc0, 0}} {
		head := "{'descr': '" + order + "f2', 'fortran_order': False, 'shape': (2, 1), }"
		src, err := files.OpenBytes("h.npy", file(head, b), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := src.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		var block data.Block
		if err := r.Read(&block, 10); err != nil || !reflect.DeepEqual(block.Cols[0].Num, []float64{1, -2}) {
			t.Errorf("%s: %v, %v", order, block.Cols[0].Num, err)
		}
	}
}

// A small file with a large compressed array in column order would have to be held in memory: it is refused before
// anything is read.
func TestHostileColumnOrder(t *testing.T) {
	const rows = 40_000_000
	head := file(fmt.Sprintf("{'descr': '<f8', 'fortran_order': True, 'shape': (%d, 2), }\n", rows), nil)
	var deflated, archive bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(append(head, make([]byte, 1<<20)...))
	w.Close()
	z := zip.NewWriter(&archive)
	out, err := z.CreateRaw(&zip.FileHeader{Name: "x.npy", Method: zip.Deflate,
		CompressedSize64:   uint64(deflated.Len()),
		UncompressedSize64: uint64(len(head) + rows*16)})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(deflated.Bytes())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := files.OpenBytes("x.npz", archive.Bytes(), data.Options{})
	if err == nil {
		_, _, err = datatest.Table(src, nil, 10)
	}
	if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), "the limit is 268435456") {
		t.Error(err)
	}
}
