package work

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/randfeat/randfeat/beam/flow"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/parts"
	"github.com/randfeat/randfeat/machine/tabular"
)

func TestMain(m *testing.M) {
	beam.Init()
	flow.Quiet()
	os.Exit(inMemory(m.Run))
}

// inMemory runs tests with temporary files in memory, where the system has a place for such: every step syncs what it
// writes, and tests would wait for the disk most of their time.
func inMemory(run func() int) int {
	if dir, err := os.MkdirTemp("/dev/shm", "rfbeam-test-*"); err == nil {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	return run()
}

// shards writes n tables of some rows each, the first with as many more as given, in a format; it returns their folder.
func shards(t *testing.T, format data.Format, n, rows, more int) string {
	t.Helper()
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(7, 1))
	columns := []string{"id", "a", "b", "level", "y", "z", "class"}
	kinds := []data.Kind{data.Text, data.Number, data.Number, data.Text, data.Number, data.Number, data.Text}
	levels, classes := []string{"red", "green", "blue"}, []string{"low", "high"}
	for i := range n {
		here := rows
		if i == 0 {
			here += more
		}
		b := data.Block{Rows: here, Cols: make([]data.Column, len(columns))}
		for j, k := range kinds {
			if k == data.Number {
				b.Cols[j].Num = make([]float64, here)
			} else {
				b.Cols[j].Text = make([][]byte, here)
			}
		}
		for j := range here {
			u, v, k := rnd.NormFloat64(), 100+20*rnd.NormFloat64(), rnd.IntN(3)
			y := math.Sin(2*u) + (v-100)/40 + float64(k) + 0.1*rnd.NormFloat64()
			b.Cols[0].Text[j] = fmt.Appendf(nil, "%d-%d", i, j)
			b.Cols[1].Num[j], b.Cols[2].Num[j] = u, v
			b.Cols[3].Text[j] = []byte(levels[k])
			b.Cols[4].Num[j], b.Cols[5].Num[j] = 10*y, y*y
			b.Cols[6].Text[j] = []byte(classes[int(min(max(y, 0), 1))])
		}
		path := filepath.Join(dir, fmt.Sprintf("part-%03d.%s", i, format))
		w, err := files.Create(path, format, columns, kinds)
		if format == data.Parquet {
			w, err = parquet.Create(path, columns, kinds)
		}
		if err == nil {
			err = w.WriteBlock(&b)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openTable(t *testing.T, dir string, unit int64) *files.Table {
	t.Helper()
	paths, err := files.Expand(dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := files.Open(paths, data.Options{UnitBytes: unit})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// given are options that leave nothing to be tried.
func given(kind machine.Kind, targets []string, skip ...string) parts.Options {
	o := tabular.Options{Learn: data.LearnOptions{Targets: targets, IDs: []string{"id"}, Skip: skip}, Kind: kind,
		Seed: 11, Features: 32, Bandwidth: 1.5, Scaling: "standard", Map: tabular.MapRandom}
	if kind == "" {
		o.Lambda = 0.1
	}
	return parts.Options{Options: o}
}

func newRun(t *testing.T, table *files.Table, o parts.Options) *parts.Run {
	t.Helper()
	run, err := parts.NewRun(table.Manifest(), o)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// The model of a runner is, byte by byte, that of one process without one: for all kinds, formats, and cuts of files.
func TestFitSameBytes(t *testing.T) {
	csv := openTable(t, shards(t, data.CSV, 9, 40, 400), 4096) // the first is much larger, and so cut into more
	pq := openTable(t, shards(t, data.Parquet, 3, 100, 0), 0)
	if n := len(csv.Units()); n < 9+3 {
		t.Fatalf("%d units of 9 files: the large one is not cut", n)
	}
	for _, c := range []struct {
		name  string
		table *files.Table
		o     parts.Options
		tasks int
	}{
		{"regression", csv, given("", []string{"y"}, "z", "class"), 0},
		{"regression in few tasks", csv, given("", []string{"y"}, "z", "class"), 4},
		{"classification", csv, given("", []string{"class"}, "y", "z"), 0},
		{"multi-output", csv, given("", []string{"y", "z"}, "class"), 0},
		{"smoother", csv, given(machine.KindSmoother, []string{"y"}, "z", "class"), 0},
		{"density", csv, given(machine.KindDensity, nil, "y", "z", "class"), 0},
		{"Parquet", pq, given("", []string{"y"}, "z", "class"), 0},
		{"Parquet, classification", pq, given("", []string{"class"}, "y", "z"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := newRun(t, c.table, c.o)
			m, _, err := run.Fit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			if _, err := m.WriteTo(&want); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "model.rf")
			report, err := Fit(t.Context(), run, filepath.Join(dir, "work"), file, Options{Tasks: c.tasks})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if sha256.Sum256(got) != sha256.Sum256(want.Bytes()) {
				t.Errorf("%d bytes differ from those %d of one process", len(got), want.Len())
			}
			if report.Rows == 0 {
				t.Error("no rows in the report")
			}
		})
	}
}

// Bad input is an error that names the file, in one line, and leaves no model.
func TestFitBadShards(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(dir string) error
		format     data.Format
	}{
		{"text among numbers", "part-002.csv", func(dir string) error {
			return appendTo(dir, "part-002.csv", "x-1,0.5,cheap,red,1,1,low\n")
		}, data.CSV},
		{"a row too short", "part-001.csv", func(dir string) error {
			return appendTo(dir, "part-001.csv", "x-1,0.5\n")
		}, data.CSV},
		{"missing", "part-001.csv", func(dir string) error {
			return os.Remove(filepath.Join(dir, "part-001.csv"))
		}, data.CSV},
		{"grown", "part-001.csv", func(dir string) error {
			return appendTo(dir, "part-001.csv", "x-1,0.5,1,red,1,1,low\n")
		}, data.CSV},
		{"cut", "part-001.parquet", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "part-001.parquet"), 600)
		}, data.Parquet},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := shards(t, c.format, 3, 40, 0)
			early := c.name == "text among numbers" || c.name == "a row too short"
			if early {
				if err := c.spoil(dir); err != nil {
					t.Fatal(err)
				}
			}
			o := given("", []string{"y"}, "z", "class")
			o.Learn.Numeric = []string{"b"}
			run := newRun(t, openTable(t, dir, 0), o)
			if !early { // between the list of files and the workers
				if err := c.spoil(dir); err != nil {
					t.Fatal(err)
				}
			}
			out := t.TempDir()
			file := filepath.Join(out, "model.rf")
			_, err := Fit(t.Context(), run, t.TempDir(), file, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line that names %s", err, c.want)
			}
			if left, _ := os.ReadDir(out); len(left) > 0 {
				t.Errorf("%v was written", left)
			}
		})
	}
}

func appendTo(dir, name, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// A run that was stopped goes on in its folder, and a model that could not be written is written then.
func TestFitGoesOn(t *testing.T) {
	run := newRun(t, openTable(t, shards(t, data.CSV, 3, 40, 0), 0), given("", []string{"y"}, "z", "class"))
	dir, out := t.TempDir(), t.TempDir()
	file := filepath.Join(out, "there", "model.rf")
	if _, err := Fit(t.Context(), run, dir, file, Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %q, want one that names %s", err, file)
	}
	if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	sums, _ := filepath.Glob(filepath.Join(dir, stageSum, "*.done"))
	if len(sums) != 4 { // three leaves and their merge
		t.Errorf("%v", sums)
	}
	if _, err := Fit(t.Context(), run, dir, file, Options{}); err != nil {
		t.Error(err)
	}
	if _, err := machine.Load(file); err != nil {
		t.Error(err)
	}
}
