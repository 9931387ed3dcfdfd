package parquet_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
)

// Row groups are the blocks of a file, from a path and from memory: one by one they are its rows.
func TestBlocksAreRowGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := parquet.Create(path, []string{"x"}, []data.Kind{data.Number})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 150_000
	b := data.Block{Rows: 50_000, Cols: make([]data.Column, 1)}
	for n := 0; n < rows; n += b.Rows {
		b.Cols[0].Num = b.Cols[0].Num[:0]
		for i := range b.Rows {
			b.Cols[0].Num = append(b.Cols[0].Num, float64(n+i))
		}
		if err := w.WriteBlock(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(src data.Source, units bool) (at int) {
		r, err := src.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		unit, row := data.Unit{}, int64(0)
		for {
			var b data.Block
			err := r.Read(&b, 10_000)
			if err == io.EOF {
				return at
			}
			if err != nil {
				t.Fatal(err)
			}
			if b.Unit != unit {
				if b.Unit.Block != unit.Block+1 || !units {
					t.Fatalf("unit %v behind %v", b.Unit, unit)
				}
				unit, row = b.Unit, 0
			}
			if b.Row != row || b.First != int64(at) {
				t.Fatalf("row %d in the unit, %d in the table, want %d and %d", b.Row, b.First, row, at)
			}
			if at == 0 && b.Cols[0].Num[0] > 0 && !strings.HasSuffix(r.Where(0), "row 65537") &&
				!strings.HasSuffix(r.Where(0), "row 131073") {
				t.Errorf("the first row of a block is at %s", r.Where(0))
			}
			at += b.Rows
			row += int64(b.Rows)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := data.Options{UnitBytes: 1}
	file, err := parquet.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := parquet.OpenFile("memory", int64(len(whole)), held(whole), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []data.Source{file, memory} {
		if n := read(src, true); n != rows {
			t.Errorf("%s: %d rows", src.Name(), n)
		}
		s := src.(data.Splitter)
		if s.Blocks() != 3 {
			t.Fatalf("%s: %d blocks", src.Name(), s.Blocks())
		}
		sum := 0
		for i := range s.Blocks() {
			b, err := s.Block(i)
			if err != nil {
				t.Fatal(err)
			}
			sum += read(b, false)
		}
		if sum != rows {
			t.Errorf("%s: %d rows in blocks", src.Name(), sum)
		}
	}
	whole = whole[:len(whole)-3]
	_, err = parquet.OpenFile("cut", int64(len(whole)), held(whole), o)
	if err == nil || !strings.HasPrefix(err.Error(), "cut: ") {
		t.Errorf("a cut file: %v", err)
	}
}

// held opens a file in memory.
func held(b []byte) func() (data.File, error) {
	type file struct {
		*bytes.Reader
		io.Closer
	}
	return func() (data.File, error) { return file{bytes.NewReader(b), io.NopCloser(nil)}, nil }
}
