package files_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/internal/par"
)

// write makes files and returns their paths.
func write(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rows reads all rows of a source as lines; each begins with its unit and its number there if units is true.
func rows(t *testing.T, src data.Source, units bool) []string {
	t.Helper()
	kinds := make([]data.Kind, len(src.Columns()))
	for j := range kinds {
		kinds[j] = data.Text
	}
	r, err := src.Open(kinds)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	var b data.Block
	for {
		err := r.Read(&b, 3)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			line := ""
			if units {
				line = fmt.Sprintf("%d/%d/%d: ", b.Unit.Shard, b.Unit.Block, b.Row+int64(i))
			}
			for j := range b.Cols {
				line += fmt.Sprintf("%q,", b.Cols[j].Text[i])
			}
			out = append(out, line)
		}
	}
}

func open(t *testing.T, o data.Options, args ...string) (*files.Table, error) {
	t.Helper()
	paths, err := files.Expand(args...)
	if err != nil {
		return nil, err
	}
	return files.Open(paths, o)
}

func TestExpand(t *testing.T) {
	dir := write(t, map[string]string{"part-2.csv": "a\n1\n", "part-10.csv": "a\n1\n", "_SUCCESS": "", ".part.csv": "x",
		"README": "x", "odd[1].csv": "a\n1\n"})
	in := func(names ...string) []string {
		for i := range names {
			names[i] = filepath.Join(dir, names[i])
		}
		return names
	}
	for _, c := range []struct{ args, want []string }{
		{in("part-*.csv"), in("part-10.csv", "part-2.csv")}, // byte by byte
		{in("."), in("odd[1].csv", "part-10.csv", "part-2.csv")},
		{in("odd[1].csv"), in("odd[1].csv")}, // a file before a pattern
		{in("part-2.csv", "part-1*.csv"), in("part-2.csv", "part-10.csv")},
		{in("absent.csv"), in("absent.csv")},
	} {
		got, err := files.Expand(c.args...)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v, want %v", c.args, got, err, c.want)
		}
	}
	if _, err := files.Expand(in("absent-*.csv")...); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pattern without files: %v", err)
	}
	_, err := files.Expand(in("part-*.csv", "part-2.csv")...)
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a file twice: %v", err)
	}
	mixed := write(t, map[string]string{"a.csv": "x", "b.parquet": "y"})
	if _, err := files.Expand(mixed); err == nil || !strings.Contains(err.Error(), "b.parquet") {
		t.Errorf("two formats in a directory: %v", err)
	}
	if _, err := files.Expand(write(t, nil)); err == nil {
		t.Error("an empty directory")
	}
}

// Columns in another order are found by name; rows come in the order of the files.
func TestTableReadsInOrder(t *testing.T) {
	dir := write(t, map[string]string{"1.csv": "a,b,c\n1,x,p\n2,y,q\n", "2.csv": "c,a,b\nr,3,z\n",
		"3.csv": "a,b,c\n4,w,s\n"})
	table, err := open(t, data.Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`0/0/0: "1","x","p",`, `0/0/1: "2","y","q",`, `1/0/0: "3","z","r",`, `2/0/0: "4","w","s",`}
	if got := rows(t, table, true); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	b, err := json.Marshal(table.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	var m files.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if m.Digest() != table.Manifest().Digest() {
		t.Error("a manifest that was read has another digest")
	}
	again, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range again.Units() {
		u, err := again.Unit(i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rows(t, u, true)...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("by units: %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "3.csv"), []byte("a,b,c\n4,w,s\n5,u,t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, _ = m.Open()
	if _, err := again.Unit(2); err == nil || !strings.Contains(err.Error(), "3.csv") {
		t.Errorf("a file that has changed: %v", err)
	}
}

// Keys that some files of NDJSON lack are missing there; further ones are an error.
func TestTableNDJSON(t *testing.T) {
	dir := write(t, map[string]string{"1.ndjson": `{"a":1,"b":"x"}` + "\n",
		"2.ndjson": `{"a":2}` + "\n" + `{"b":"y"}` + "\n"})
	table, err := open(t, data.Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rows(t, table, false), []string{`"1","x",`, `"2","",`, `"","y",`}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "3.ndjson"), []byte(`{"a":2,"z":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, data.Options{}, dir); err == nil || !strings.Contains(err.Error(), `3.ndjson:1:8`) {
		t.Errorf("a further key: %v", err)
	}
}

// Every file at fault is named.
func TestTableRefuses(t *testing.T) {
	const good = "a,b\n1,x\n2,y\n"
	for name, c := range map[string]struct{ text, want string }{
		"another name":   {"a,d\n1,x\n", `no column "b"`},
		"further column": {"a,b,c\n1,x,2\n", `a column "c"`},
		"fewer columns":  {"a\n1\n", `no column "b"`},
		"no names":       {"3,4\n5,6\n", "a line of names was found in"},
		"no rows":        {"a,b\n", "no rows"},
		"empty":          {"", "the file is empty"},
		"binary":         {"PAR1xxxxxxxxxxxxxx", ""},
	} {
		dir := write(t, map[string]string{"1.csv": good, "2.csv": c.text, "3.csv": good})
		_, err := open(t, data.Options{}, dir)
		if err == nil || !strings.Contains(err.Error(), "2.csv") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := write(t, map[string]string{"1.csv": good})
	if _, err := open(t, data.Options{}, filepath.Join(dir, "1.csv"), filepath.Join(dir, "2.csv")); !errors.Is(err,
		fs.ErrNotExist) || !strings.Contains(err.Error(), "2.csv") {
		t.Errorf("a missing file: %v", err)
	}
}

// writeParquet writes columns, numbers or texts.
func writeParquet(t *testing.T, path string, names []string, cols ...any) {
	t.Helper()
	kinds := make([]data.Kind, len(names))
	b := data.Block{Cols: make([]data.Column, len(names))}
	for j, c := range cols {
		switch c := c.(type) {
		case []float64:
			kinds[j], b.Cols[j].Num, b.Rows = data.Number, c, len(c)
		case []string:
			kinds[j], b.Rows = data.Text, len(c)
			for _, text := range c {
				b.Cols[j].Text = append(b.Cols[j].Text, []byte(text))
			}
		}
	}
	w, err := parquet.Create(path, names, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBlock(&b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTableParquet(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writeParquet(t, at("1.parquet"), []string{"a", "b"}, []float64{1, 2}, []string{"x", "y"})
	writeParquet(t, at("2.parquet"), []string{"b", "a"}, []string{"z"}, []float64{3})
	table, err := open(t, data.Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rows(t, table, false), []string{`"1","x",`, `"2","y",`, `"3","z",`}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	writeParquet(t, at("3.parquet"), []string{"a", "b"}, []string{"1"}, []string{"x"})
	_, err = open(t, data.Options{}, dir)
	if err == nil || !strings.Contains(err.Error(), "3.parquet") || !strings.Contains(err.Error(), "1.parquet") {
		t.Errorf("a column of another type: %v", err)
	}
	whole, err := os.ReadFile(at("2.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("3.parquet"), whole[:len(whole)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = open(t, data.Options{}, dir); err == nil || !strings.Contains(err.Error(), "3.parquet") {
		t.Errorf("a cut file: %v", err)
	}
}

// A file that is much larger than the others is cut, and its units are the rows of the table in order.
func TestTableCuts(t *testing.T) {
	texts := map[string]string{}
	for i, n := range []int{20, 900, 5} {
		var b strings.Builder
		b.WriteString("a,b\n")
		for k := range n {
			fmt.Fprintf(&b, "%d,\"x\n%d\"\n", k, i)
		}
		texts[fmt.Sprintf("%d.csv", i)] = b.String()
	}
	table, err := open(t, data.Options{UnitBytes: 1000}, write(t, texts))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(table.Units()); n < 9 || n > 12 {
		t.Errorf("%d units", n)
	}
	want := rows(t, table, true)
	if len(want) != 925 {
		t.Errorf("%d rows", len(want))
	}
	again, err := table.Manifest().Open()
	if err != nil {
		t.Fatal(err)
	}
	parts := make([][]string, len(again.Units()))
	for i := len(parts) - 1; i >= 0; i-- {
		u, err := again.Unit(i)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = rows(t, u, true)
	}
	if got := slices.Concat(parts...); !slices.Equal(got, want) {
		t.Errorf("by units:\n%s\nin one go:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The hashes of the units of a file cover every byte of it once: a change of one byte changes one hash.
func TestContentCoversFiles(t *testing.T) {
	b := []byte("a,b\n" + strings.Repeat("1,x\n", 100))
	dir := write(t, map[string]string{"1.csv": string(b)})
	table, err := open(t, data.Options{UnitBytes: 100}, dir)
	if err != nil {
		t.Fatal(err)
	}
	contents := func() []string {
		t.Helper()
		var out []string
		for i := range table.Units() {
			c, err := table.Content(i)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(c[:]))
		}
		return out
	}
	want := contents()
	if len(want) < 4 {
		t.Fatalf("%d units", len(want))
	}
	for at := range b {
		b[at] ^= 1
		if err := os.WriteFile(filepath.Join(dir, "1.csv"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		b[at] ^= 1
		changed := 0
		for i, c := range contents() {
			if c != want[i] {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("byte %d of %d: %d hashes changed", at, len(b), changed)
		}
	}
}

// A table learned in one pass has the same schema as one learned from its units and merged along the tree, also where
// files are compressed, in other encodings, or in columns of another order.
func TestTableLearnsByUnits(t *testing.T) {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "%d,%g,\"k\n%d\",%d\n", i%7, float64(i*i%97)/7, i%5, i)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprintf(z, "a,x,k,y\n%s", b.String())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"1.csv": "a,x,k,y\n" + b.String(),
		"2.csv":    "y,a,x,k\n1,2,3.5,k\xe4se\n2,3,4.5,z\n",
		"3.csv.gz": zipped.String(), "4.csv": "a,x,k,y\n1,2,3,4\n"})
	table, err := open(t, data.Options{UnitBytes: 500}, dir)
	if err != nil {
		t.Fatal(err)
	}
	o := data.LearnOptions{Targets: []string{"y"}, Task: data.Regression, Categorical: []string{"k"}}
	want, _, err := data.Learn(table, o)
	if err != nil {
		t.Fatal(err)
	}
	if want.Encoding != "windows-1252" {
		t.Errorf("read as %q", want.Encoding)
	}
	again, err := table.Manifest().Open()
	if err != nil {
		t.Fatal(err)
	}
	level := make([]*data.Learner, len(again.Units()))
	if n := len(level); n < 16 || n > par.MaxLeaves {
		t.Fatalf("%d units", n)
	}
	for i := len(level) - 1; i >= 0; i-- {
		src, err := again.Unit(i)
		if err != nil {
			t.Fatal(err)
		}
		if level[i], err = data.NewLearner("table", src.Columns(), o); err != nil {
			t.Fatal(err)
		}
		if err := level[i].AddSource(src); err != nil {
			t.Fatal(err)
		}
	}
	for len(level) > 1 {
		var up []*data.Learner
		for lo := 0; lo < len(level); lo += par.Fan {
			for _, l := range level[lo+1 : min(lo+par.Fan, len(level))] {
				if err := level[lo].Merge(l); err != nil {
					t.Fatal(err)
				}
			}
			up = append(up, level[lo])
		}
		level = up
	}
	got, _, err := level[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != want.Digest() {
		t.Errorf("by units %+v, in one go %+v", got, want)
	}
}

// FuzzManifest: JSON is an error or a manifest that opens, with units in bounds.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":2,"format":"csv","delimiter":";","header":true,"missing":null,"limits":[0,0],"unit_bytes":9,` +
		`"columns":["a"],"kinds":[""],"shards":[{"name":"none.csv","size":20,"blocks":3}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m files.Manifest
		if json.Unmarshal(b, &m) != nil {
			return
		}
		table, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		if len(table.Units()) < len(m.Shards) || m.Digest() == "" {
			t.Fatalf("%d units of %d files", len(table.Units()), len(m.Shards))
		}
	})
}
