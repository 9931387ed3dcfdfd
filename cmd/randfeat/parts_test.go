package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
)

// shards writes n files of a table in a format, one of them many times larger than the others.
func shards(t *testing.T, dir string, n int, format string) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 5))
	columns, kinds := []string{"id", "a", "b", "c", "y"}, []data.Kind{data.Text, data.Number, data.Number, data.Text,
		data.Number}
	for i := range n {
		rows := 40
		if i == n/2 {
			rows = 2000
		}
		var b data.Block
		b.Reset(0, kinds)
		for j := range rows {
			x, v, k := r.NormFloat64(), 50+9*r.NormFloat64(), r.IntN(3)
			b.AppendText(0, fmt.Appendf(nil, "%d-%d", i, j))
			b.Cols[1].Num = append(b.Cols[1].Num, x)
			b.Cols[2].Num = append(b.Cols[2].Num, v)
			b.AppendText(3, []byte([]string{"red", "green", "blue"}[k]))
			b.Cols[4].Num = append(b.Cols[4].Num, math.Sin(2*x)+v/20+float64(k)+0.1*r.NormFloat64())
			b.Rows++
		}
		path := filepath.Join(dir, fmt.Sprintf("part-%02d.%s", i, format))
		w, err := files.Create(path, "", columns, kinds)
		if format == "parquet" {
			w, err = parquet.Create(path, columns, kinds)
		}
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
}

// partsFlagsOf are those of the fits of these tests.
var partsFlagsOf = strings.Fields("--target y --id id --features 32 --bandwidth 2 --lambda 0.1 --unit-bytes 20000")

// The model has the same bytes by any number of workers and in one process, from CSV and from Parquet.
func TestPartsSameModel(t *testing.T) {
	for _, format := range []string{"csv", "parquet"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			shards(t, dir, 5, format)
			pattern := path("part-*." + format)
			ok(t, append([]string{"parts", "fit", pattern, "-o", path("want.rf")}, partsFlagsOf...)...)
			want, err := os.ReadFile(path("want.rf"))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 2, 7} {
				run := path(fmt.Sprint("run-", n))
				for range 2 { // the second changes nothing
					made := objects[tables.PartsRun](t, ok(t, append([]string{"parts", "init", run, pattern, "--json"},
						partsFlagsOf...)...).stdout)[0]
					if made.Files != 5 || format == "csv" && made.Units < 8 {
						t.Errorf("%+v", made)
					}
				}
				work := func(step string) {
					for i := range n {
						ok(t, "parts", step, run, "--json", "--worker", fmt.Sprintf("%d/%d", n-1-i, n))
					}
					ok(t, "parts", step, run, "--worker", fmt.Sprintf("0/%d", n)) // once more
				}
				work("learn")
				ok(t, "parts", "choose", run, "--json")
				ok(t, "parts", "choose", run)
				work("sum")
				if s := objects[tables.PartsRun](t, ok(t, "parts", "status", run, "--json").stdout)[0]; !s.Plan ||
					len(s.Missing["learn"])+len(s.Missing["sum"]) > 0 {
					t.Errorf("%+v", s)
				}
				got := path(fmt.Sprint("got-", n, ".rf"))
				ok(t, "parts", "finish", run, "-o", got, "--json")
				if b, err := os.ReadFile(got); err != nil || !bytes.Equal(b, want) {
					t.Errorf("%d workers: another model (%v)", n, err)
				}
			}
			// fit writes the same file if nothing is left to choose and no rows are held out.
			t.Setenv("SOURCE_DATE_EPOCH", "0")
			model := func(command ...string) []byte {
				ok(t, append(append(command, pattern, "-o", path("one.rf"), "--folds", "1", "--scaling", "standard",
					"--map", "random"), partsFlagsOf...)...)
				b, err := os.ReadFile(path("one.rf"))
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			if !bytes.Equal(model("fit"), model("parts", "fit")) {
				t.Error("fit and parts fit write other models though all choices are given")
			}
			run := path("test")
			ok(t, "parts", "init", run, pattern)
			for i := range 3 {
				ok(t, "parts", "evaluate", run, path("want.rf"), "--worker", fmt.Sprintf("%d/3", i))
			}
			r := objects[tables.EvaluateResult](t, ok(t, "parts", "score", run, path("want.rf"), "--json").stdout)[0]
			if r.Rows != 2160 || r.Scores[1].Value < 0.8 {
				t.Errorf("%+v", r)
			}
			ok(t, "parts", "score", run, path("want.rf"))
		})
	}
}

// Files that are missing, duplicated, damaged, changed or of another run are refused with a sentence that names them,
// and no model is written.
func TestPartsRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	shards(t, dir, 4, "csv")
	run := path("run")
	begin := func(run string, more ...string) {
		ok(t, append(append([]string{"parts", "init", run, path("part-*.csv")}, partsFlagsOf...), more...)...)
	}
	fails(t, exitFailed, "has no run: 'randfeat parts init", "parts", "learn", run)
	begin(run)
	fails(t, exitFailed, "has another run", append([]string{"parts", "init", run, path("part-*.csv"), "--seed", "9"},
		partsFlagsOf...)...)
	fails(t, exitFailed, "part-00.csv", "parts", "choose", run)
	fails(t, exitFailed, "has no choices", "parts", "sum", run)
	fails(t, exitMisuse, "--worker is \"2/2\"", "parts", "learn", run, "--worker", "2/2")
	fails(t, exitMisuse, "--group is not for parts", "parts", "init", path("other"), path("part-*.csv"), "--group", "c")
	fails(t, exitMisuse, "-o is missing", "parts", "finish", run)
	ok(t, "parts", "learn", run, "--worker", "0/2")
	fails(t, exitFailed, "no part of the step learn has block", "parts", "choose", run)
	ok(t, "parts", "learn", run, "--worker", "1/2")
	ok(t, "parts", "choose", run)
	for i := range 3 {
		ok(t, "parts", "sum", run, "--worker", fmt.Sprintf("%d/3", i))
	}
	model := path("m.rf")
	finish := []string{"parts", "finish", run, "-o", model}
	refused := func(says string) {
		t.Helper()
		fails(t, exitFailed, says, finish...)
		if _, err := os.Stat(model); err == nil {
			t.Errorf("a model was written though %s", says)
			os.Remove(model)
		}
	}
	list, err := filepath.Glob(filepath.Join(run, "sum-*.part"))
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	whole, err := os.ReadFile(list[1])
	if err != nil {
		t.Fatal(err)
	}
	change := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(list[1], b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	change(whole[:len(whole)-9])
	refused(filepath.Base(list[1]) + ": saved ridge: the file is cut")
	bad := bytes.Clone(whole)
	bad[len(bad)/2] ^= 1
	change(bad)
	refused("the checksum is wrong")
	change(nil)
	refused("the file is cut")
	os.Remove(list[1])
	refused("no part of the step sum has block")
	change(whole)
	ok(t, "parts", "sum", run, "--worker", "0/1")
	refused("part-00.csv is in ")
	os.Remove(filepath.Join(run, "sum-000000-"+list[2][len(list[2])-11:]))
	ok(t, finish...)
	os.Remove(model)
	// A part of another run, and of another plan.
	other := path("other")
	begin(other, "--seed", "3")
	ok(t, "parts", "learn", other)
	ok(t, "parts", "choose", other)
	for i := range 3 {
		ok(t, "parts", "sum", other, "--worker", fmt.Sprintf("%d/3", i))
	}
	theirs, err := os.ReadFile(filepath.Join(other, filepath.Base(list[1])))
	if err != nil {
		t.Fatal(err)
	}
	change(theirs)
	refused("it is of another run, of other files or options")
	change(whole)
	// A file that changes between the steps: its size, and then what it holds.
	shard := path("part-03.csv")
	text, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	longer := append(bytes.Clone(text), text[bytes.IndexByte(text, '\n')+1:]...)
	if err := os.WriteFile(shard, longer, 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, "part-03.csv", "parts", "sum", run, "--worker", "2/3")
	os.Remove(shard)
	fails(t, exitFailed, "part-03.csv", "parts", "sum", run, "--worker", "2/3")
	if err := os.WriteFile(shard, text, 0o666); err != nil {
		t.Fatal(err)
	}
	ok(t, finish...)
}

// Files that do not belong together are named before any row is summed.
func TestPartsBadFiles(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"header", "id,a,b,c,z\n1,1,1,red,1\n", "part-09.csv"},
		{"empty", "", "part-09.csv"},
		{"no rows", "id,a,b,c,y\n", "part-09.csv"},
		{"no target", "id,a,b,c,y\n1,2,3,red,\n", "part-09.csv:2"},
		{"text", "id,a,b,c,y\n1,2,3,red,high\n", "part-09.csv"},
	} {
		dir := t.TempDir()
		shards(t, dir, 3, "csv")
		if err := os.WriteFile(filepath.Join(dir, "part-09.csv"), []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		fails(t, exitFailed, c.says, append([]string{"parts", "fit", filepath.Join(dir, "part-*.csv"), "-o",
			filepath.Join(dir, "m.rf"), "--task", "regression"}, partsFlagsOf...)...)
		if strings.Contains(names(t, dir), "m.rf") {
			t.Errorf("%s: a model was written", c.name)
		}
	}
	dir := t.TempDir()
	shards(t, dir, 3, "parquet")
	path := filepath.Join(dir, "part-02.parquet")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, "part-02.parquet", append([]string{"parts", "init", filepath.Join(dir, "run"), dir},
		partsFlagsOf...)...)
}

// An output that is one of the inputs, by whatever name, is refused before anything is read, and the input stays.
func TestPartsKeepInputs(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	shards(t, dir, 3, "csv")
	run := path("run")
	ok(t, append([]string{"parts", "init", run, path("part-*.csv")}, partsFlagsOf...)...)
	ok(t, "parts", "learn", run)
	ok(t, "parts", "choose", run)
	ok(t, "parts", "sum", run)
	if err := os.Symlink(path("part-01.csv"), path("soft.rf")); err != nil {
		t.Skip(err)
	}
	if err := os.Link(path("part-02.csv"), path("hard.rf")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(run, path("again")); err != nil {
		t.Skip(err)
	}
	sum, err := filepath.Glob(filepath.Join(run, "sum-*.part"))
	if err != nil || len(sum) != 1 {
		t.Fatal(sum, err)
	}
	data := []string{path("part-00.csv"), dir + "/./part-00.csv", path("soft.rf"), path("hard.rf")}
	for _, out := range data {
		fails(t, exitMisuse, "it would be replaced", append([]string{"parts", "fit", path("part-*.csv"), "-o", out},
			partsFlagsOf...)...)
	}
	for _, out := range append(data, filepath.Join(run, "plan.safetensors"), filepath.Join(run, "run.json"), sum[0],
		path("again/plan.safetensors")) {
		before, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, exitMisuse, "it would be replaced", "parts", "finish", run, "-o", out)
		if after, err := os.ReadFile(out); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s has changed (%v)", out, err)
		}
	}
	ok(t, "parts", "finish", run, "-o", path("m.rf"))
}
