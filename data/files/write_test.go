package files_test

import (
	"bytes"
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
	"github.com/randfeat/randfeat/internal/npy"
)

var written = data.Block{Rows: 3, Cols: []data.Column{
	{Num: []float64{1.5, math.NaN(), -1e-300}},
	{Text: [][]byte{[]byte(" a,\"b\"\r\n"), nil, []byte("é")}},
}}

// Written tables are read back, in every format, in one block or many.
func TestWriters(t *testing.T) {
	dir := t.TempDir()
	kinds := []data.Kind{data.Number, data.Text}
	// encoding/csv and this reader take a CRLF in quotes for a line end.
	want := [][]string{{"1.5", " a,\"b\"\n", "1.5"}, {"NaN", "∅", "NaN"}, {"-1e-300", "é", "-1e-300"}}
	for _, name := range []string{"x.csv", "x.tsv", "x.csv.gz", "x.ndjson", "x.jsonl.gz"} {
		path := filepath.Join(dir, name)
		w, err := files.Create(path, "", []string{"x", "the name"}, kinds)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.WriteBlock(&written); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there before Close", name)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		src, err := files.Open([]string{path}, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		columns, rows, err := datatest.Table(src, kinds, 100)
		if err != nil || fmt.Sprintf("%q", columns) != `["x" "the name"]` || len(rows) != 6 {
			t.Fatalf("%s: %q %q, %v", name, columns, rows, err)
		}
		for i, r := range rows {
			if r[1] = strings.ReplaceAll(r[1], "\r\n", "\n"); !reflect.DeepEqual(r, want[i%3][:2]) {
				t.Errorf("%s: %q, want %q", name, r, want[i%3][:2])
			}
		}
	}
	numbers := data.Block{Rows: 3, Cols: []data.Column{written.Cols[0], {Num: []float64{4, 5, 6}}}}
	num := []data.Kind{data.Number, data.Number}
	var stream bytes.Buffer
	sw, err := files.NewWriter(&stream, data.NPY, []string{"a", "b"}, num)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.npy")
	fw, err := files.Create(path, "", []string{"a", "b"}, num)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []data.Writer{sw, fw} {
		for range 5000 {
			if err := w.WriteBlock(&numbers); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	onDisk, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(onDisk, stream.Bytes()) {
		t.Errorf("%d bytes in the file, %d in the stream; %v", len(onDisk), stream.Len(), err)
	}
	a, err := npy.ReadFile(path)
	if err != nil || a.Rows() != 15000 || a.Cols() != 2 || a.F64.At(14999, 1) != 6 || !math.IsNaN(a.F64.At(1, 0)) {
		t.Errorf("%d×%d, %v", a.Rows(), a.Cols(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 6 {
		t.Errorf("files left: %v", left)
	}
}

func TestWriterEmpty(t *testing.T) {
	for f, want := range map[data.Format]string{data.CSV: "a\n", data.NDJSON: ""} {
		var b bytes.Buffer
		w, err := files.NewWriter(&b, f, []string{"a"}, []data.Kind{data.Number})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v", f, b.String(), err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	w, err := files.Create(path, "", []string{"a"}, []data.Kind{data.Number})
	if err == nil {
		err = w.Close()
	}
	if a, err2 := npy.ReadFile(path); err != nil || err2 != nil || a.Rows() != 0 || a.Cols() != 1 {
		t.Errorf("%v, %v, %d×%d", err, err2, a.Rows(), a.Cols())
	}
	var b bytes.Buffer // a missing value in the only column is not an empty line
	w, err = files.NewWriter(&b, data.CSV, []string{"a"}, []data.Kind{data.Number})
	if err != nil {
		t.Fatal(err)
	}
	w.WriteBlock(&data.Block{Rows: 1, Cols: []data.Column{{Num: []float64{math.NaN()}}}})
	if w.Close(); b.String() != "a\n\"\"\n" {
		t.Errorf("%q", b.String())
	}
}

func TestWriterErrors(t *testing.T) {
	dir := t.TempDir()
	number, text := []data.Kind{data.Number}, []data.Kind{data.Text}
	for _, c := range []struct {
		path    string
		columns []string
		kinds   []data.Kind
	}{{"x.csv", nil, nil}, {"x.csv", []string{"a", "b"}, number}, {"x.csv", []string{"a"}, []data.Kind{data.Infer}},
		{"x.npy", []string{"a"}, text}, {"x.xlsx", []string{"a"}, number}, {"x", []string{"a"}, number},
		{"none/x.csv", []string{"a"}, number}} {
		if _, err := files.Create(filepath.Join(dir, c.path), "", c.columns, c.kinds); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
	w, err := files.Create(filepath.Join(dir, "x.ndjson"), "", []string{"a"}, number)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBlock(&data.Block{Rows: 1, Cols: []data.Column{{Num: []float64{math.Inf(1)}}}}); err == nil {
		t.Error("JSON cannot hold an infinity")
	}
	if err := w.Close(); err == nil {
		t.Error("closed after an error")
	}
	w, err = files.Create(filepath.Join(dir, "x.csv"), "", []string{"a"}, number)
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := w.Close(); err == nil {
		t.Error("closed after Abort")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

func TestTSVWriter(t *testing.T) {
	var out strings.Builder
	w, err := files.NewWriter(&out, "tsv", []string{"a", "b"}, []data.Kind{data.Text, data.Number})
	if err != nil {
		t.Fatal(err)
	}
	var b data.Block
	b.Reset(0, []data.Kind{data.Text, data.Number})
	b.AppendText(0, []byte("x\ty"))
	b.Cols[1].Num = append(b.Cols[1].Num, 1.5)
	b.Rows = 1
	if err := errors.Join(w.WriteBlock(&b), w.Close()); err != nil || out.String() != "a\tb\n\"x\ty\"\t1.5\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
