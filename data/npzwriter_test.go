package data

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Columns come back from an npz file as they were written, in blocks of any size; nothing is left of a failure.
func TestNPZWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.npz")
	kinds := []Kind{Number, Number}
	w, err := createNPZ(path, []string{"b", "a b"}, kinds)
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, rows := range []int{3, 0, 5, 1} {
		var b Block
		b.Reset(0, kinds)
		for range rows {
			b.Cols[0].Num = append(b.Cols[0].Num, n)
			b.Cols[1].Num = append(b.Cols[1].Num, math.Sqrt(n))
			n++
		}
		b.Rows = rows
		if err := w.WriteBlock(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b Block
	if err := r.Read(&b, 100); err != nil || strings.Join(r.Columns(), ",") != "b,a b" || b.Rows != 9 {
		t.Fatalf("%v, columns %q, %d rows", err, r.Columns(), b.Rows)
	}
	for i := range 9 {
		if b.Cols[0].Num[i] != float64(i) || b.Cols[1].Num[i] != math.Sqrt(float64(i)) {
			t.Errorf("row %d: %g, %g", i, b.Cols[0].Num[i], b.Cols[1].Num[i])
		}
	}
	if err := w.WriteBlock(&b); !errors.Is(err, errClosed) {
		t.Errorf("written after Close: %v", err)
	}
	if w, err = createNPZ(path, []string{"x"}, kinds[:1]); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBlock(&b); err == nil { // two columns
		t.Error("a block of another shape was written")
	}
	if err := w.Close(); err == nil {
		t.Error("a failed table was completed")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files left, want the first table only: %v", len(entries), err)
	}
	for _, c := range []struct {
		columns []string
		kinds   []Kind
	}{{[]string{"x"}, []Kind{Text}}, {[]string{"a/b"}, []Kind{Number}}, {[]string{""}, []Kind{Number}},
		{[]string{"x", "x"}, kinds}, {nil, nil}} {
		if _, err := createNPZ(path, c.columns, c.kinds); err == nil {
			t.Errorf("columns %q of kinds %v were accepted", c.columns, c.kinds)
		}
	}
}

func TestTSVWriter(t *testing.T) {
	var out strings.Builder
	w, err := NewWriter(&out, "tsv", []string{"a", "b"}, []Kind{Text, Number})
	if err != nil {
		t.Fatal(err)
	}
	var b Block
	b.Reset(0, []Kind{Text, Number})
	b.AppendText(0, []byte("x\ty"))
	b.Cols[1].Num = append(b.Cols[1].Num, 1.5)
	b.Rows = 1
	if err := errors.Join(w.WriteBlock(&b), w.Close()); err != nil || out.String() != "a\tb\n\"x\ty\"\t1.5\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Numbers that mean a missing value do so in columns of numbers and of text alike.
func TestMissingNumbers(t *testing.T) {
	for name, text := range map[string]string{"t.csv": "x\n1\n-999\n-9990\n \"-999\"\n",
		"t.ndjson": "{\"x\":1}\n{\"x\":-999}\n{\"x\":-9990}\n{\"x\":\"-999\"}\n"} {
		src, err := OpenBytes(name, []byte(text), Options{Missing: []string{"-999"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []Kind{Number, Text} {
			r, err := src.Open([]Kind{kind})
			if err != nil {
				t.Fatal(err)
			}
			var b Block
			if err := r.Read(&b, 10); err != nil {
				t.Fatal(err)
			}
			for i, missing := range []bool{false, true, false, true} {
				if c := b.Cols[0]; kind == Number && math.IsNaN(c.Num[i]) != missing || kind == Text &&
					(c.Text[i] == nil) != missing {
					t.Errorf("%s, %v: row %d is missing: want %v", name, kind, i, missing)
				}
			}
			r.Close()
		}
	}
}
