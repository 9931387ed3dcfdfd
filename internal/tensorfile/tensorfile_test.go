package tensorfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func example() *File {
	f := &File{Metadata: map[string]string{"format": "test", "note": "ω \"quoted\""}, Tensors: []Tensor{
		Floats("w", []float64{1, -2.5, math.Pi, 0, math.Inf(-1), 1e-300}, 2, 3),
		Floats("nothing", nil, 0, 7),
		Floats("scalar", []float64{4}),
		{Name: "bytes", DType: "U8", Shape: []int{3}, Data: []byte{1, 2, 3}},
	}}
	f.Seal()
	return f
}

func written(t testing.TB, f *File) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := f.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f := example()
	b := written(t, f)
	if n := binary.LittleEndian.Uint64(b); n%8 != 0 || b[8] != '{' {
		t.Errorf("header of %d bytes that begins with %q", n, b[8])
	}
	got, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Verify(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Metadata, f.Metadata) || len(got.Tensors) != len(f.Tensors) {
		t.Fatalf("%+v", got)
	}
	for i, w := range f.Tensors {
		g := got.Tensors[i]
		if g.Name != w.Name || g.DType != w.DType || len(g.Shape) != len(w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("tensor %+v, want %+v", g, w)
		}
	}
	w, _ := got.Tensor("w")
	x, err := w.Floats()
	if err != nil || x[2] != math.Pi || !math.IsInf(x[4], -1) {
		t.Errorf("%v, %v", x, err)
	}
	u, _ := got.Tensor("bytes")
	if _, err := u.Floats(); !errors.Is(err, ErrFormat) {
		t.Errorf("floats of bytes: %v", err)
	}
	if _, ok := got.Tensor("none"); ok {
		t.Error("a tensor that is not there")
	}
}

// Every truncation and every flipped bit is noticed.
func TestDamage(t *testing.T) {
	b := written(t, example())
	check := func(b []byte) error {
		f, err := Parse(b)
		if err == nil {
			err = f.Verify()
		}
		return err
	}
	if err := check(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if err := check(b[:i]); !errors.Is(err, ErrFormat) {
			t.Fatalf("%d of %d bytes: %v", i, len(b), err)
		}
	}
	want := example()
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			if err := check(c); err == nil {
				// Only changes of white space in the padding are harmless.
				f, _ := Parse(c)
				if !reflect.DeepEqual(f.Metadata, want.Metadata) || len(f.Tensors) != 4 {
					t.Fatalf("bit %d of byte %d (%q): no error", bit, i, b[i])
				}
			} else if !errors.Is(err, ErrFormat) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

func container(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestHostileHeaders(t *testing.T) {
	huge := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"empty", nil, "too few"},
		{"huge header", huge, "at most"},
		{"header beyond the file", container(`{}`, 0)[:9], "truncated"},
		{"no JSON", container(`hello`, 0), "JSON"},
		{"an array", container(`[]`, 0), "JSON"},
		{"two objects", container(`{}{}`, 0), "more after"},
		{"trailing bytes", container(`{}`, 5), "5 bytes after"},
		{"metadata of numbers", container(`{"__metadata__":{"a":1}}`, 0), ""},
		{"unknown type", container(`{"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}}`, 1), "unknown type"},
		{"unknown field", container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1), "unknown field"},
		{"wrong size", container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,4]}}`, 4), "want 1"},
		{"overflow", container(`{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), "larger than the file"},
		{"huge and empty", container(`{"a":{"dtype":"F64","shape":[4611686018427387904,0],"data_offsets":[0,0]}}`, 0), "larger than the file"},
		{"negative", container(`{"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,0]}}`, 0), "shape"},
		{"hole", container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "start at 0"},
		{"overlap", container(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "start at 2"},
		{"backwards", container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,-1]}}`, 2), "start at"},
		{"beyond", container(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 2), "truncated"},
		{"twice", container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "second"},
	} {
		if _, err := Parse(c.b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := Read(bytes.NewReader(c.b), int64(len(c.b))); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, read: %v", c.name, err)
		}
	}
	for _, f := range []*File{
		{Tensors: []Tensor{{Name: "a", DType: "F64", Shape: []int{2}, Data: make([]byte, 8)}}},
		{Tensors: []Tensor{Floats("a", nil, 0), Floats("a", nil, 0)}},
		{Tensors: []Tensor{Floats(metadataKey, nil, 0)}},
		{Metadata: map[string]string{"a": "\xff"}},
	} {
		if _, err := f.WriteTo(new(bytes.Buffer)); !errors.Is(err, ErrFormat) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	b := written(f, example())
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add(container(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		// Reading in place says the same.
		index, failed := Read(bytes.NewReader(b), int64(len(b)))
		if (err == nil) != (failed == nil) {
			t.Fatalf("%v, in place %v", err, failed)
		}
		for i := 0; err == nil && i < len(index.Tensors); i++ {
			x, ok, err := index.Tensor(file.Tensors[i].Name)
			if err != nil || !ok || !bytes.Equal(x.Data, file.Tensors[i].Data) || x.DType != file.Tensors[i].DType {
				t.Fatalf("tensor %d: %v, %v", i, ok, err)
			}
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		total := 0
		for _, x := range file.Tensors {
			total += len(x.Data)
		}
		if total > len(b) {
			t.Fatal("tensors larger than the file")
		}
		// An accepted file can be written and is read again with the same contents.
		again, err := Parse(written(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Tensors) != len(file.Tensors) || len(again.Metadata) != len(file.Metadata) {
			t.Fatal("another file")
		}
	})
}
