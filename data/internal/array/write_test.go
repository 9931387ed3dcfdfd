package array_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/internal/array"
)

// Columns come back from an npz file as they were written, in blocks of any size; nothing is left of a failure.
func TestNPZWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.npz")
	kinds := []data.Kind{data.Number, data.Number}
	w, err := array.Create(path, []string{"b", "a b"}, kinds)
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, rows := range []int{3, 0, 5, 1} {
		var b data.Block
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
	src, err := files.Open([]string{path}, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 100); err != nil || strings.Join(r.Columns(), ",") != "b,a b" || b.Rows != 9 {
		t.Fatalf("%v, columns %q, %d rows", err, r.Columns(), b.Rows)
	}
	for i := range 9 {
		if b.Cols[0].Num[i] != float64(i) || b.Cols[1].Num[i] != math.Sqrt(float64(i)) {
			t.Errorf("row %d: %g, %g", i, b.Cols[0].Num[i], b.Cols[1].Num[i])
		}
	}
	if err := w.WriteBlock(&b); err == nil || !strings.Contains(err.Error(), "the writer is closed") {
		t.Errorf("written after Close: %v", err)
	}
	if w, err = array.Create(path, []string{"x"}, kinds[:1]); err != nil {
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
		kinds   []data.Kind
	}{{[]string{"x"}, []data.Kind{data.Text}}, {[]string{"a/b"}, []data.Kind{data.Number}},
		{[]string{""}, []data.Kind{data.Number}},
		{[]string{"x", "x"}, kinds}, {nil, nil}} {
		if _, err := array.Create(path, c.columns, c.kinds); err == nil {
			t.Errorf("columns %q of kinds %v were accepted", c.columns, c.kinds)
		}
	}
}
