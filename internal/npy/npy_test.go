package npy_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	npyio "github.com/sbinet/npyio/npy"
	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
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

var want23 = [][]float64{{1, 2, 3}, {4, 5, 6}}

func equal(t *testing.T, got dense.Matrix[float64], want [][]float64) {
	t.Helper()
	if got.Rows != len(want) || got.Cols != len(want[0]) {
		t.Fatalf("got %d×%d, want %d×%d", got.Rows, got.Cols, len(want), len(want[0]))
	}
	for i, row := range want {
		for j, v := range row {
			if got.At(i, j) != v {
				t.Errorf("element %d,%d = %v, want %v", i, j, got.At(i, j), v)
			}
		}
	}
}

func TestReadNPYLayouts(t *testing.T) {
	for name, b := range map[string][]byte{
		"c order": file(c23, le64(1, 2, 3, 4, 5, 6)),
		"fortran order": file("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n",
			le64(1, 4, 2, 5, 3, 6)),
		"big endian f4": file("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n",
			be32(1, 2, 3, 4, 5, 6)),
		"keys in any order": file(`{"shape":(2,3),"fortran_order":False,"descr":"<f8"}`, le64(1, 2, 3, 4, 5, 6)),
		"python 2 longs": file("{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L)}\n",
			le64(1, 2, 3, 4, 5, 6)),
		"version 2": append([]byte("\x93NUMPY\x02\x00\x3b\x00\x00\x00"+c23[:len(c23)-1]),
			le64(1, 2, 3, 4, 5, 6)...),
	} {
		t.Run(name, func(t *testing.T) {
			a, err := npy.Read(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, a.Float64(), want23)
			if a.Rows() != 2 || a.Cols() != 3 {
				t.Errorf("Rows, Cols = %d, %d", a.Rows(), a.Cols())
			}
			// A reader that trickles must give the same.
			a, err = npy.Read(iotest.OneByteReader(bytes.NewReader(b)))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, a.Float64(), want23)
		})
	}
}

func TestReadNPYKeepsDType(t *testing.T) {
	a, err := npy.Read(bytes.NewReader(file("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", nil)))
	if err != nil || a.DType != npy.Float32 || a.F32.Cols != 3 {
		t.Errorf("empty float32 array: %+v, %v", a, err)
	}
}

func TestReadNPYFaults(t *testing.T) {
	shape := func(s string) string { return "{'descr': '<f8', 'fortran_order': False, 'shape': " + s + ", }\n" }
	for _, c := range []struct {
		name  string
		b     []byte
		fault npy.Fault
		says  string
	}{
		{"empty", nil, npy.FaultTruncated, "magic"},
		{"not npy", []byte("x,y\n1,2\n3,4\n"), npy.FaultFormat, "magic"},
		{"version 9", []byte("\x93NUMPY\x09\x00\x00\x00\x00\x00"), npy.FaultFormat, "9.0"},
		{"cut in the header", file(c23, nil)[:30], npy.FaultTruncated, "header"},
		{"header of 4 GB", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), npy.FaultHeader, "4294967295"},
		{"no dictionary", file("hello\n", nil), npy.FaultFormat, "dictionary"},
		{"empty header", file("", nil), npy.FaultFormat, "dictionary"},
		{"unclosed", file("{'descr': '<f8', ", nil), npy.FaultFormat, "malformed"},
		{"no shape", file("{'descr': '<f8', 'fortran_order': False}", nil), npy.FaultFormat, "shape"},
		{"twice", file("{'descr': '<f8', 'descr': '<f8'}", nil), npy.FaultFormat, "two"},
		{"unknown key", file("{'order': 'C'}", nil), npy.FaultFormat, "order"},
		{"bad order", file("{'fortran_order': 1}", nil), npy.FaultFormat, "fortran_order"},
		{"after the dictionary", file(c23[:len(c23)-1]+" 7\n", nil), npy.FaultFormat, "continues"},
		{"integers", file("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }\n", le64(1, 2, 3, 4, 5, 6)),
			npy.FaultDType, "<i8"},
		{"complex", file("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }\n", nil), npy.FaultDType, "<c8"},
		{"short type", file("{'descr': 'f', 'fortran_order': False, 'shape': (2, 3), }\n", nil), npy.FaultDType,
			"\"f\""},
		{"no byte order", file("{'descr': '|f8', 'fortran_order': False, 'shape': (2, 3), }\n", nil), npy.FaultDType,
			"|f8"},
		{"objects", file("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }\n", nil), npy.FaultDType, "|O"},
		{"structured", file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2, 3), }\n", nil),
			npy.FaultDType, "structured"},
		{"vector", file(shape("(6,)"), le64(1, 2, 3, 4, 5, 6)), npy.FaultShape, "reshape(1, -1)"},
		{"scalar", file(shape("()"), le64(1)), npy.FaultShape, "no dimensions"},
		{"three dimensions", file(shape("(1, 2, 3)"), le64(1, 2, 3, 4, 5, 6)), npy.FaultShape, "3 dimensions"},
		{"no columns", file(shape("(1000000000000000000, 0)"), nil), npy.FaultShape, "no columns"},
		{"negative", file(shape("(-2, 3)"), nil), npy.FaultFormat, "nonnegative"},
		{"overflow", file(shape("(4611686018427387904, 4)"), nil), npy.FaultOverflow, "memory"},
		{"overflow of a dimension", file(shape("(99999999999999999999, 1)"), nil), npy.FaultOverflow, "memory"},
		{"truncated", file(c23, le64(1, 2, 3, 4, 5)), npy.FaultTruncated, "48 bytes"},
		{"truncated in an element", file(c23, le64(1, 2, 3, 4, 5, 6)[:47]), npy.FaultTruncated, "47"},
		{"trailing", file(c23, le64(1, 2, 3, 4, 5, 6, 7)), npy.FaultTrailing, "follow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.npy")
			if err := os.WriteFile(path, c.b, 0o666); err != nil {
				t.Fatal(err)
			}
			_, fromReader := npy.Read(bytes.NewReader(c.b))
			_, fromFile := npy.ReadFile(path)
			for _, err := range []error{fromReader, fromFile} {
				var e *npy.Error
				if !errors.As(err, &e) || !errors.Is(err, npy.ErrFormat) {
					t.Fatalf("got %v, want an NPYError", err)
				}
				if e.Fault != c.fault || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want fault %q that says %q", err, c.fault, c.says)
				}
			}
			if !strings.Contains(fromFile.Error(), path) {
				t.Errorf("%v does not name the file", fromFile)
			}
		})
	}
}

// A tiny file may claim any shape; memory must follow the data, not the claim.
func TestReadNPYBoundsMemory(t *testing.T) {
	b := file("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000000, 1000), }\n", le64(1, 2, 3))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := npy.Read(bytes.NewReader(b))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, npy.ErrFormat) {
		t.Fatalf("got %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d bytes allocated for a file of %d", grown, len(b))
	}
}

func TestReadNPYPassesReaderErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, n := range []int{3, 20, 100} {
		b := file(c23, le64(1, 2, 3, 4, 5, 6))
		r := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))
		if _, err := npy.Read(r); !errors.Is(err, broken) {
			t.Errorf("failure after %d bytes: %v", n, err)
		}
	}
}

func TestReadNPYFileMissingAndDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := npy.ReadFile(filepath.Join(dir, "no.npy")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := npy.ReadFile(dir); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: %v", err)
	}
}

func TestRoundTrip(t *testing.T) {
	odd := []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1), math.Inf(-1)}
	for _, shape := range [][2]int{{0, 4}, {1, 1}, {3, 2}, {1, 6}, {6, 1}, {700, 300}} {
		m := dense.New[float64](shape[0], shape[1])
		for i := range m.Data {
			m.Data[i] = odd[i%len(odd)] + float64(i)
		}
		roundTrip(t, m)
		roundTrip(t, dense.Convert[float32](m))
	}
	// A view with a stride writes its own columns only.
	wide := dense.MustFromRows([][]float64{{1, 2, 3, 9}, {4, 5, 6, 9}})
	var b bytes.Buffer
	if err := npy.Write(&b, wide.ColRange(0, 3)); err != nil {
		t.Fatal(err)
	}
	a, err := npy.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, a.F64, want23)
}

func roundTrip[T dense.Float](t *testing.T, m dense.Matrix[T]) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.npy")
	if err := npy.WriteFile(path, m); err != nil {
		t.Fatal(err)
	}
	a, err := npy.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, isT := any(a.F64).(dense.Matrix[T])
	if !isT {
		got = any(a.F32).(dense.Matrix[T])
	}
	if got.Rows != m.Rows || got.Cols != m.Cols {
		t.Fatalf("got %d×%d, want %d×%d", got.Rows, got.Cols, m.Rows, m.Cols)
	}
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			if w := got.At(i, j); math.Float64bits(float64(w)) != math.Float64bits(float64(v)) {
				t.Fatalf("%T element %d,%d = %v, want %v", v, i, j, w, v)
			}
		}
	}
}

// npyio is a second implementation of the format: each must read the files of the other.
func TestAgreesWithNpyio(t *testing.T) {
	var b bytes.Buffer
	if err := npy.Write(&b, dense.MustFromRows(want23)); err != nil {
		t.Fatal(err)
	}
	if (b.Len()-6*8)%64 != 0 {
		t.Errorf("data starts at byte %d, want a multiple of 64", b.Len()-6*8)
	}
	var m mat.Dense
	if err := npyio.Read(&b, &m); err != nil {
		t.Fatal(err)
	}
	if !mat.Equal(&m, mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 6})) {
		t.Errorf("npyio reads %v", mat.Formatted(&m))
	}
	b.Reset()
	if err := npyio.Write(&b, &m); err != nil {
		t.Fatal(err)
	}
	a, err := npy.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, a.F64, want23)
}

func TestNPYWriterCountsRows(t *testing.T) {
	w, err := npy.NewWriter[float32](io.Discard, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRows(dense.New[float32](1, 4)); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong columns: %v", err)
	}
	if err := w.WriteRows(dense.New[float32](3, 3)); !errors.Is(err, dense.ErrShape) {
		t.Errorf("too many rows: %v", err)
	}
	if err := w.Close(); !errors.Is(err, dense.ErrShape) {
		t.Errorf("missing rows: %v", err)
	}
	if _, err := npy.NewWriter[float32](io.Discard, 2, 0); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no columns: %v", err)
	}
}

func TestWriteNPYReportsFullDisk(t *testing.T) {
	if err := npy.Write(fullDisk{}, dense.New[float64](100, 1000)); err == nil {
		t.Error("a writer that fails was not reported")
	}
}

// fullDisk fails every write, as a full disk does.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAtomicFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.npy")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := localfile.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("half of the n")); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	f.Abort()
	onlyFile(t, dir, "out.npy", "old")

	if f, err = localfile.Create(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	onlyFile(t, dir, "out.npy", "new")

	// A matrix that cannot be written must not touch the target either.
	bad := dense.Matrix[float64]{Rows: 2, Cols: 2, Stride: 2, Data: make([]float64, 3)}
	if err := npy.WriteFile(path, bad); !errors.Is(err, dense.ErrShape) {
		t.Errorf("got %v, want ErrShape", err)
	}
	onlyFile(t, dir, "out.npy", "new")

	if _, err := localfile.Create(dir); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory as target: %v", err)
	}
	lost := filepath.Join(dir, "no", "out.npy")
	if _, err := localfile.Create(lost); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), lost) ||
		strings.Contains(err.Error(), ".tmp") {
		t.Errorf("a missing directory: %v, want the name of the target alone", err)
	}
}

func onlyFile(t *testing.T, dir, name, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Fatalf("directory holds %v (%v), want %s alone", entries, err, name)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
		t.Errorf("%s holds %q, want %q", name, b, want)
	}
}

func TestAtomicFileWritesDevices(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("no " + os.DevNull + " to stat")
	}
	if err := npy.WriteFile(os.DevNull, dense.New[float64](1, 1)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s was replaced: %v", os.DevNull, err)
	}
}
