package parquet_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
)

// cells reads everything, numbers by their bits, missing as ∅.
func cells(src data.Source, want []data.Kind, block int) (out []string, err error) {
	r, err := src.Open(want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b data.Block
	for {
		err := r.Read(&b, block)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range b.Rows {
			for _, c := range b.Cols {
				switch {
				case c.Num != nil && math.IsNaN(c.Num[i]), c.Text != nil && c.Text[i] == nil:
					out = append(out, "∅")
				case c.Num != nil:
					out = append(out, fmt.Sprint(c.Num[i]))
				case c.Text != nil:
					out = append(out, string(c.Text[i]))
				}
			}
		}
	}
}

var (
	columns = []string{"z", "name", "a", "Z"}
	kinds   = []data.Kind{data.Number, data.Text, data.Number, data.Number}
)

func write(t *testing.T, path string, rows, block int) {
	t.Helper()
	w, err := parquet.Create(path, columns, kinds)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for first := 0; first < rows; first += block {
		b := data.Block{Rows: min(block, rows-first), Cols: make([]data.Column, 4)}
		for range b.Rows {
			v := r.NormFloat64()
			text := fmt.Appendf(nil, "level %d", r.IntN(30))
			if r.IntN(10) == 0 {
				v, text = math.NaN(), nil
			}
			for j, k := range kinds {
				if k == data.Number {
					b.Cols[j].Num = append(b.Cols[j].Num, v*float64(j+1))
				} else {
					b.Cols[j].Text = append(b.Cols[j].Text, text)
				}
			}
		}
		if err := w.WriteBlock(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Written tables are read back, in the order of their columns, for any blocks.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	write(t, path, 70_001, 1000)
	src, err := parquet.Open(path, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if names := src.Columns(); !slices.Equal(names, columns) {
		t.Errorf("columns %q", names)
	}
	want, err := cells(src, nil, 1<<20)
	if err != nil || len(want) != 4*70_001 {
		t.Fatalf("%d cells, %v", len(want), err)
	}
	for _, block := range []int{1, 257, 5000} {
		got, err := cells(src, kinds, block)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("blocks of %d: %d cells, %v", block, len(got), err)
		}
	}
	other := filepath.Join(dir, "y.parquet")
	write(t, other, 70_001, 70_001)
	again, err := parquet.Open(other, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cells(again, nil, 1024); err != nil || !slices.Equal(got, want) {
		t.Errorf("written in one block: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("files left: %v", left)
	}
}

type sample struct {
	I8   int8     `parquet:"i8"`
	U64  uint64   `parquet:"u64"`
	I64  int64    `parquet:"i64"`
	F32  float32  `parquet:"f32"`
	F64  *float64 `parquet:"f64,optional"`
	B    bool     `parquet:"b"`
	S    string   `parquet:"s,dict"`
	Dec  int64    `parquet:"dec,decimal(2:10)"`
	List []int32  `parquet:"list"`
}

func TestTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	v := 2.5
	if err := pq.WriteFile(path, []sample{{-3, 1 << 60, -7, 0.5, &v, true, "12", 1234, nil},
		{4, 5, 6, 7, nil, false, "abc", -5, []int32{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	src, err := parquet.Open(path, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cells(src, nil, 10); !errors.Is(err, data.ErrInput) ||
		!strings.Contains(err.Error(), `column "list" is nested or repeated: leave it out`) ||
		!errors.Is(err, data.ErrNested) {
		t.Errorf("a list: %v", err)
	}
	want := make([]data.Kind, 9)
	want[8] = data.Skip
	got, err := cells(src, want, 10)
	if expect := "-3 1.152921504606847e+18 -7 0.5 2.5 true 12 12.34 4 5 6 7 ∅ false abc -0.05"; err != nil ||
		strings.Join(got, " ") != expect {
		t.Errorf("%q, want %q; %v", got, expect, err)
	}
	for j := range 8 {
		want[j] = data.Text
	}
	if got, err := cells(src, want, 10); err != nil || got[0] != "-3" || got[3] != "0.5" || got[12] != "∅" {
		t.Errorf("as text: %q, %v", got, err)
	}
	want[6] = data.Number
	r, err := src.Open(want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 10); err != nil || b.Rows != 2 || !b.Cols[6].Unreadable(1) {
		t.Errorf("text as a number: %v, %v", b.Cols[6].Num, err)
	}
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	write(t, path, 500, 500)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte) error {
		bad := filepath.Join(dir, "bad.parquet")
		if err := os.WriteFile(bad, b, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := parquet.Open(bad, data.Options{})
		if err == nil {
			_, err = cells(src, nil, 100)
		}
		return err
	}
	for n := 0; n < len(whole); n += 97 {
		if err := try(whole[:n]); !errors.Is(err, data.ErrInput) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	r := rand.New(rand.NewPCG(5, 7))
	for range 300 { // never panics; some flips change values only
		b := slices.Clone(whole)
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if err := try(b); err != nil && !errors.Is(err, data.ErrInput) {
			t.Errorf("a flipped bit: %v", err)
		}
	}
	if _, err := parquet.Open(dir, data.Options{}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := parquet.Open(path, data.Options{MaxColumns: 3}); !errors.Is(err, data.ErrInput) {
		t.Errorf("4 columns, limit 3: %v", err)
	}
}

func TestWriterErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.parquet")
	for _, c := range []struct {
		names []string
		kinds []data.Kind
	}{{nil, nil}, {[]string{"a", "a"}, []data.Kind{data.Number, data.Text}}, {[]string{"a"}, []data.Kind{data.Infer}}} {
		if _, err := parquet.Create(path, c.names, c.kinds); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
	w, err := parquet.Create(path, columns, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBlock(&data.Block{Rows: 1}); err == nil {
		t.Error("a block without columns")
	}
	if err := w.Close(); err == nil {
		t.Error("closed after an error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// Decimals of many digits and integers keep them all as text, and are rounded once as numbers.
func TestDigits(t *testing.T) {
	type row struct {
		Dec  [13]byte `parquet:"dec,decimal(2:30)"`
		ID   int64    `parquet:"id"`
		U    uint64   `parquet:"u"`
		UUID [16]byte `parquet:"uuid,uuid"`
	}
	big := func(v int64) (b [13]byte) {
		for i := range b {
			b[i] = byte(v >> 63)
		}
		binary.BigEndian.PutUint64(b[5:], uint64(v))
		return b
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, []row{{big(-5), 1<<53 + 1, 1<<64 - 1, [16]byte{}},
		{big(123456789012345678), -1 << 63, 0, [16]byte{}}}); err != nil {
		t.Fatal(err)
	}
	src, err := parquet.Open(path, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cells(src, nil, 10); err == nil || !strings.Contains(err.Error(), `"uuid" is of fixed-length bytes`) {
		t.Errorf("a UUID: %v", err)
	}
	got, err := cells(src, []data.Kind{data.Text, data.Text, data.Text, data.Skip}, 10)
	want := "-0.05 9007199254740993 18446744073709551615 1234567890123456.78 -9223372036854775808 0"
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v", got, err)
	}
	got, err = cells(src, []data.Kind{data.Number, data.Number, data.Number, data.Skip}, 10)
	want = "-0.05 9.007199254740992e+15 1.8446744073709552e+19 1.2345678901234568e+15 -9.223372036854776e+18 0"
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v", got, err)
	}
}
