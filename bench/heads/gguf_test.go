package main

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// file is a GGUF file with some metadata and one tensor of every kind.
func file() []byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(le.AppendUint64(b, 3), 4)
	b = le.AppendUint32(le.AppendUint32(text(b, "llama.block_count"), 4), 30)
	b = le.AppendUint32(le.AppendUint32(text(b, "eps"), 6), math.Float32bits(0.5))
	b = text(le.AppendUint32(text(b, "name"), ggufString), "x")
	b = le.AppendUint64(le.AppendUint32(le.AppendUint32(text(b, "list"), ggufArray), ggufString), 2)
	b = text(text(b, "one"), "two")
	tensor := func(name string, kind uint32, offset uint64, dims ...uint64) {
		b = le.AppendUint32(text(b, name), uint32(len(dims)))
		for _, n := range dims {
			b = le.AppendUint64(b, n)
		}
		b = le.AppendUint64(le.AppendUint32(b, kind), offset)
	}
	tensor("f32", ggufF32, 0, 2, 2)
	tensor("q41", ggufQ41, 32, 32)
	tensor("q80", ggufQ80, 64, 32, 1)
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	data := make([]byte, 64+34)
	for i, v := range []float32{1, -2, 3, 0.25} {
		le.PutUint32(data[4*i:], math.Float32bits(v))
	}
	le.PutUint16(data[32:], 0x4000) // 2
	le.PutUint16(data[34:], 0xBC00) // −1
	for i := range 16 {
		data[36+i] = byte(i | (15-i)<<4)
	}
	le.PutUint16(data[64:], 0x3400) // 0.25
	for i := range 32 {
		data[66+i] = byte(int8(i - 16))
	}
	return append(b, data...)
}

func TestGGUF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	whole := file()
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := readGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := g.number("llama.block_count"); n != 30 || err != nil {
		t.Errorf("block count %d, %v", n, err)
	}
	if v := g.numbers["eps"]; v != 0.5 {
		t.Errorf("eps %v", v)
	}
	want := map[string]func(i int) float32{
		"f32": func(i int) float32 { return []float32{1, -2, 3, 0.25}[i] },
		"q41": func(i int) float32 {
			if i < 16 {
				return 2*float32(i) - 1
			}
			return 2*float32(31-i) - 1
		},
		"q80": func(i int) float32 { return float32(i-16) / 4 },
	}
	for name, f := range want {
		rows, cols := 1, 32
		if name == "f32" {
			rows, cols = 2, 2
		}
		m, err := g.matrix(name, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range m.Data {
			if v != f(i) {
				t.Errorf("%s: element %d is %v, want %v", name, i, v, f(i))
			}
		}
		if _, err := g.matrix(name, rows, cols+1); err == nil {
			t.Errorf("%s: another shape was accepted", name)
		}
	}
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readGGUF(path); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
}

// damagedGGUF are files whose numbers are wrong. The first, of 57 bytes, made the reader divide by an alignment of 0.
func damagedGGUF() map[string][]byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	head := func(tensors, fields uint64) []byte {
		return le.AppendUint64(le.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), tensors), fields)
	}
	align := func(kind uint32, v ...byte) []byte {
		return append(le.AppendUint32(text(head(0, 1), "general.alignment"), kind), v...)
	}
	tensor := func(kind uint32, offset uint64, dims ...uint64) []byte {
		b := le.AppendUint32(text(head(1, 0), "t"), uint32(len(dims)))
		for _, n := range dims {
			b = le.AppendUint64(b, n)
		}
		return append(le.AppendUint64(le.AppendUint32(b, kind), offset), make([]byte, 200)...)
	}
	nested := le.AppendUint32(text(head(0, 1), "a"), ggufArray)
	for range 1000 {
		nested = le.AppendUint64(le.AppendUint32(nested, ggufArray), 1)
	}
	twice := tensor(ggufF32, 0, 1)
	twice = append(append(head(2, 0), twice[24:len(twice)-200]...), twice[24:]...)
	return map[string][]byte{
		"alignment 0":            align(4, 0, 0, 0, 0),
		"alignment not a number": align(6, 0, 0, 0xc0, 0x7f),
		"alignment infinite":     align(6, 0, 0, 0x80, 0x7f),
		"alignment 2^63":         align(10, 0, 0, 0, 0, 0, 0, 0, 0x80),
		"columns below 0":        tensor(ggufF32, 0, 1<<63),
		"no column":              tensor(ggufF32, 0, 0),
		"no dimension":           tensor(ggufF32, 0),
		"five dimensions":        tensor(ggufF32, 0, 1, 1, 1, 1, 1),
		"product is 2^64":        tensor(ggufF32, 0, 4, 1<<30, 1<<30, 4),
		"size is 2^64":           tensor(ggufF32, 0, 1<<31, 1<<31),
		"offset behind the end":  tensor(ggufF32, 1<<63, 1),
		"nested arrays":          nested,
		"two of one name":        twice,
		"fields without end":     head(0, 1<<63),
		"a name without end":     append(head(0, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	}
}

func TestDamagedGGUF(t *testing.T) {
	if n := len(damagedGGUF()["alignment 0"]); n > 57 {
		t.Errorf("%d bytes", n)
	}
	for name, b := range damagedGGUF() {
		if g, err := parseGGUF(b); !errors.Is(err, errGGUF) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

// FuzzGGUF: any bytes give tensors that are as large as their shapes say, or an error.
func FuzzGGUF(f *testing.F) {
	f.Add(file())
	for _, b := range damagedGGUF() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGGUF(b)
		if err != nil {
			if !errors.Is(err, errGGUF) {
				t.Fatal(err)
			}
			return
		}
		for name, w := range g.tensors {
			m, err := g.matrix(name, w.rows, w.cols)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Data) != w.rows*w.cols || len(m.Data) > 2*len(b) {
				t.Fatalf("%d numbers of a %d×%d tensor in %d bytes", len(m.Data), w.rows, w.cols, len(b))
			}
		}
	})
}

func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float32{0: 0, 1: 1.0 / (1 << 24), 0x3C00: 1, 0xC000: -2, 0x7BFF: 65504,
		0x0400: 1.0 / (1 << 14)} {
		if got := half([]byte{byte(bits), byte(bits >> 8)}); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
}
