package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/machine"
)

// fitted is a model of the classes of a table, in a file.
func fitted(t *testing.T, table *files.Table) (string, *machine.Model) {
	t.Helper()
	m, _, err := newRun(t, table, given("", []string{"class"}, "y", "z")).Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.rf")
	if err := m.Save(file); err != nil {
		t.Fatal(err)
	}
	return file, m
}

// Predictions equal the output of one process that reads file after file, and every row has its id.
func TestPredict(t *testing.T) {
	for _, format := range []data.Format{data.CSV, data.Parquet} {
		t.Run(string(format), func(t *testing.T) {
			table := openTable(t, shards(t, format, 3, 30, 300), 4096)
			model, m := fitted(t, table)
			o := machine.TableOptions{Probabilities: true}
			out := filepath.Join(t.TempDir(), "predictions")
			work := t.TempDir()
			result, err := Predict(t.Context(), table.Manifest(), work, model, out, format, o)
			if err != nil {
				t.Fatal(err)
			}
			if result.Rows != 390 || len(result.Shards) != 3 || result.Shards[0].Rows != 330 {
				t.Errorf("%+v", result)
			}
			for i, s := range result.Shards {
				if s.Input != table.ShardName(i) {
					t.Errorf("file %d is of %s", i, s.Input)
				}
				got := readCSV(t, filepath.Join(out, s.File))
				want := predictAlone(t, m, s.Input, o)
				if got != want {
					t.Errorf("%s:\n%s\nwant\n%s", s.File, got, want)
				}
				if !strings.Contains(got, fmt.Sprintf("\n%d-29,", i)) || strings.Count(got, "id,") != 1 {
					t.Errorf("%s: no ids:\n%s", s.File, got)
				}
			}
			if there, _ := os.ReadDir(out); len(there) != 4 {
				t.Errorf("%v", there)
			}
		})
	}
}

// readCSV is a table as CSV.
func readCSV(t *testing.T, path string) string {
	t.Helper()
	src, err := files.Open([]string{path}, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]data.Kind, len(src.Columns()))
	for i := range kinds {
		if kinds[i] = data.Number; i < 2 { // id and prediction
			kinds[i] = data.Text
		}
	}
	var b bytes.Buffer
	w, err := files.NewWriter(&b, data.CSV, src.Columns(), kinds)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(kinds)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for block := new(data.Block); ; {
		if err := r.Read(block, 1000); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteBlock(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// predictAlone predicts a file as a whole, as CSV.
func predictAlone(t *testing.T, m *machine.Model, path string, o machine.TableOptions) string {
	t.Helper()
	src, err := files.Open([]string{path}, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := machine.NewTablePredictor(m, o)
	if err != nil {
		t.Fatal(err)
	}
	run, err := p.Open(src.Columns())
	if err != nil {
		t.Fatal(err)
	}
	names, kinds := p.Columns()
	var b bytes.Buffer
	w, err := files.NewWriter(&b, data.CSV, append(run.IDs(), names...), append([]data.Kind{data.Text}, kinds...))
	if err != nil {
		t.Fatal(err)
	}
	err = run.Each(src, run.Kinds(), 1000, func(predictions, _ *data.Block) error { return w.WriteBlock(predictions) })
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPredictFails(t *testing.T) {
	dir := shards(t, data.CSV, 3, 30, 0)
	table := openTable(t, dir, 0)
	model, _ := fitted(t, table)
	if err := appendTo(dir, "part-002.csv", "x-1,0.5\n"); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "predictions")
	manifest := openTable(t, dir, 0).Manifest()
	_, err := Predict(t.Context(), manifest, t.TempDir(), model, out, data.CSV, machine.TableOptions{})
	if err == nil || !strings.Contains(err.Error(), "part-002.csv") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q, want one line that names part-002.csv", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("some predictions were written")
	}
}

func TestEvaluate(t *testing.T) {
	table := openTable(t, shards(t, data.CSV, 9, 40, 300), 4096)
	model, m := fitted(t, table)
	run := newRun(t, table, given("", []string{"class"}, "y", "z"))
	step, err := run.Evaluate(m)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := step.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := whole.Evaluation()
	want, _ := json.Marshal(Result{Rows: e.Len(), Scores: e.Scores(), Confusion: e.Confusion()})
	for _, tasks := range []int{0, 3} {
		result, err := Evaluate(t.Context(), run, t.TempDir(), model, Options{Tasks: tasks})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(result); string(got) != string(want) {
			t.Errorf("%d tasks: %s, want %s", tasks, got, want)
		}
	}
	if e.Len() != 660 {
		t.Errorf("%d rows", e.Len())
	}
}
