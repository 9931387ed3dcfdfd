package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tableflags"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// shop is a table with an id, numbers, a category and targets for regression and classification; d is a class in
// digits.
func shop(n int) string {
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	b.WriteString("id,size,colour,price,kind,d\n")
	for i := range n {
		size, colour := r.NormFloat64(), []string{"red", "green", "blue"}[r.IntN(3)]
		kind, d := "cheap", 0
		if size > 0 {
			kind, d = "dear", 1
		}
		fmt.Fprintf(&b, "%d,%.4f,%s,%.3f,%s,%d\n", 100+i, size, colour, 3*size+float64(len(colour)), kind, d)
	}
	return b.String()
}

func put(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// saveModel fits a model of a kind to the table and saves it.
func saveModel(t *testing.T, dir string, kind machine.Kind, target, content string) (string, *machine.Model) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	src, err := text.OpenBytes("shop.csv", []byte(content), data.Options{})
	check(err)
	o := data.LearnOptions{IDs: []string{"id"}}
	for _, c := range []string{"price", "kind", "d"} {
		if c == target {
			o.Targets = []string{c}
		} else {
			o.Skip = append(o.Skip, c)
		}
	}
	s, _, err := data.Learn(src, o)
	check(err)
	rows, err := machine.TableRows(src, s, target != "")
	check(err)
	setup := machine.Setup{Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 2}, Family: family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: s.Width(), M: 32, Seed: 5}, Outputs: 1}
	if len(s.Targets) > 0 && len(s.Targets[0].Classes) > 0 {
		setup.Task, setup.Outputs = machine.Classification, len(s.Targets[0].Classes)
	}
	var m *machine.Model
	switch kind {
	case machine.KindLogistic:
		m, _, err = machine.FitLogistic(setup, rows, machine.LogisticOptions{Lambda: 1})
	case machine.KindDensity:
		setup.Outputs, setup.Spec.Family = 0, family.OPRF{A: -0.1}
		d, e := machine.NewSums(kind, setup)
		check(e)
		check(rows.Each(1024, d.Add))
		m, err = d.Model(0)
		check(err)
		p, e := machine.NewPredictor[float64](m)
		check(e)
		var scores machine.Calibration
		err = rows.Each(1024, func(x, _ dense.Matrix[float64]) error {
			out := dense.New[float64](x.Rows, 1)
			err := p.Predict(out, x, nil)
			for _, v := range out.Data {
				scores.Add(v)
			}
			return err
		})
		m.Quantiles = scores.Quantiles()
	default:
		r, e := machine.NewRidge(setup)
		check(e)
		check(r.AddRows(rows))
		if kind == machine.KindGP {
			m, err = r.GP(0.1, nil)
		} else {
			m, err = r.Model(0.1)
		}
	}
	check(err)
	m.Schema = s
	path := filepath.Join(dir, fmt.Sprintf("%s-%s.rf", kind, target))
	check(m.Save(path))
	return path, m
}

// cells reads a table of any format as text.
func cells(t *testing.T, path string) (columns []string, rows [][]string) {
	t.Helper()
	src, err := new(tableflags.Flags).Open(&cli.Env{}, path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	for {
		err := r.Read(&b, 100)
		if err == io.EOF {
			return r.Columns(), rows
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			var row []string
			for _, c := range b.Cols {
				if c.Num != nil {
					row = append(row, fmt.Sprint(c.Num[i]))
				} else {
					row = append(row, string(c.Text[i]))
				}
			}
			rows = append(rows, row)
		}
	}
}

// inFormats writes the fields of the table, with its id, in every format.
func inFormats(t *testing.T, dir, content string) map[string]string {
	t.Helper()
	src, err := text.OpenBytes("shop.csv", []byte(content), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"id", "size"}
	kinds := []data.Kind{data.Number, data.Number}
	r, err := src.Open([]data.Kind{data.Number, data.Number, data.Skip, data.Skip, data.Skip, data.Skip})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 1<<20); err != nil {
		t.Fatal(err)
	}
	b.Cols = b.Cols[:2]
	out := map[string]string{}
	for format, create := range map[string]func(path string) (data.Writer, error){
		"csv":     func(p string) (data.Writer, error) { return files.Create(p, "", names, kinds) },
		"tsv":     func(p string) (data.Writer, error) { return files.Create(p, "", names, kinds) },
		"csv.gz":  func(p string) (data.Writer, error) { return files.Create(p, "", names, kinds) },
		"ndjson":  func(p string) (data.Writer, error) { return files.Create(p, "", names, kinds) },
		"npz":     func(p string) (data.Writer, error) { return files.Create(p, data.NPZ, names, kinds) },
		"parquet": func(p string) (data.Writer, error) { return parquet.Create(p, names, kinds) },
	} {
		path := filepath.Join(dir, "in."+format)
		w, err := create(path)
		if err == nil {
			err = errors.Join(w.WriteBlock(&b), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		out[format] = path
	}
	return out
}

// numeric is the table without its category.
func numeric(content string) string {
	var b strings.Builder
	for line := range strings.Lines(content) {
		f := strings.Split(line, ",")
		f[2] = "same"
		b.WriteString(strings.Join(f, ","))
	}
	return strings.Replace(b.String(), "same", "colour", 1)
}

// All formats in, the same out and each into every other: the same bits everywhere, ids kept.
func TestPredictFormats(t *testing.T) {
	dir := t.TempDir()
	model, _ := saveModel(t, dir, machine.KindRidge, "d", numeric(shop(300)))
	inputs := inFormats(t, dir, shop(50))
	_, want := cells(t, put(t, dir, "want.csv", ok(t, "predict", model, inputs["csv"], "--scores").stdout))
	if len(want) != 50 || len(want[0]) != 4 || want[3][0] != "103" {
		t.Fatalf("predictions %v", want)
	}
	for format, in := range inputs {
		for _, to := range []string{"", "csv", "tsv", "ndjson", "npy", "npz", "parquet"} {
			ext := to
			if to == "" {
				ext = strings.TrimSuffix(format, ".gz")
			}
			out := filepath.Join(dir, "out."+ext)
			args := []string{"predict", model, in, "--scores", "-o", out}
			if to != "" {
				args = append(args, "--to", to)
			}
			ok(t, args...)
			columns, got := cells(t, out)
			if s := strings.Join(columns, " "); ext != "npy" && s != "id prediction score_0 score_1" {
				t.Errorf("%s to %s: columns %s", format, ext, s)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s to %s: %v, want %v", format, ext, got[0], want[0])
			}
		}
	}
	// npy has no names: its columns are c1, c2, …
	x := dense.New[float64](50, 1)
	for i, row := range want {
		fmt.Sscan(row[0], &x.Data[i])
	}
	src, _ := text.OpenBytes("c.csv", []byte("c1,c2,c3,price\n1,2,3,4\n2,3,1,5\n3,1,2,7\n5,1,1,8\n"), data.Options{})
	s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"price"}, Task: data.Regression})
	if err != nil {
		t.Fatal(err)
	}
	_, m := saveModel(t, dir, machine.KindRidge, "price", shop(50))
	spec := m.Spec
	spec.Dim = 3
	r, err := machine.NewRidge(machine.Setup{Spec: spec, Outputs: 1})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := machine.TableRows(src, s, true)
	if err == nil {
		err = r.AddRows(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	npy, err := r.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	npy.Schema = s
	path := filepath.Join(dir, "npy.rf")
	if err := npy.Save(path); err != nil {
		t.Fatal(err)
	}
	in := save(t, dir, "x.npy", random(7, 3, 1, 1))
	out := filepath.Join(dir, "y.npy")
	ok(t, "predict", path, in, "-o", out)
	if y := load(t, out); y.Rows() != 7 || y.Cols() != 1 {
		t.Errorf("npy predictions of %d×%d", y.Rows(), y.Cols())
	}
	fails(t, exitFailed, `columns missing: "c3"`, "predict", path, save(t, dir, "narrow.npy", random(7, 2, 1, 1)), "-o",
		out)
	fails(t, exitMisuse, "npy is binary", "predict", path, in)
	if o := call(t, ok(t, "predict", path, in, "-o", "-", "--to", "npy").stdout, "predict", path, "-", "-o",
		"-"); o.code == exitDone {
		t.Error("predictions of one column fit three")
	}
	// From stdin: text is streamed, archives are held.
	for _, format := range []string{"csv", "csv.gz", "ndjson", "npz"} {
		b, err := os.ReadFile(inputs[format])
		if err != nil {
			t.Fatal(err)
		}
		o := call(t, string(b), "predict", model, "-", "--scores", "--to", "csv")
		if _, got := cells(t, put(t, dir, "stdin.csv", o.stdout)); o.code != exitDone ||
			fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s from stdin: exit %d\n%s", format, o.code, o.stderr)
		}
	}
	b, err := os.ReadFile(inputs["parquet"])
	if err != nil {
		t.Fatal(err)
	}
	if o := call(t, string(b), "predict", model, "-"); o.code != exitFailed || !strings.Contains(o.stderr,
		"Parquet file cannot be read from a stream") {
		t.Errorf("Parquet from stdin: %+v", o)
	}
}

// Predictions on stdout equal the predictions of the library, bit by bit, for every kind of column.
func TestPredictColumns(t *testing.T) {
	dir := t.TempDir()
	content := shop(5000) // more than one block
	in := put(t, dir, "shop.csv", content)
	for _, c := range []struct {
		kind           machine.Kind
		target, header string
		flags          []string
		o              machine.TableOptions
	}{
		{machine.KindRidge, "price", "id,prediction", nil, machine.TableOptions{}},
		{machine.KindRidge, "price", "id,prediction", []string{"--float32"}, machine.TableOptions{Float32: true}},
		{machine.KindGP, "price", "id,prediction,variance", []string{"--variance"},
			machine.TableOptions{Variance: true}},
		{machine.KindLogistic, "kind", "id,prediction,p_cheap,p_dear", []string{"--probabilities"},
			machine.TableOptions{Probabilities: true}},
		{machine.KindRidge, "kind", "id,prediction,score_cheap,score_dear", []string{"--scores"},
			machine.TableOptions{Scores: true}},
		{machine.KindDensity, "", "id,log_density,anomaly", nil, machine.TableOptions{}},
	} {
		model, m := saveModel(t, dir, c.kind, c.target, content)
		got := ok(t, append([]string{"predict", model, in}, c.flags...)...).stdout
		p, err := machine.NewTablePredictor(m, c.o)
		if err != nil {
			t.Fatal(err)
		}
		src, err := text.OpenBytes("shop.csv", []byte(content), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := p.Open([]string{"id", "size", "colour", "price", "kind", "d"})
		if err != nil {
			t.Fatal(err)
		}
		names, kinds := p.Columns()
		var want bytes.Buffer
		w, err := files.NewWriter(&want, data.CSV, append(run.IDs(), names...),
			append([]data.Kind{data.Text}, kinds...))
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Each(src, run.Kinds(), 100, func(p, _ *data.Block) error { return w.WriteBlock(p) }); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got != want.String() || !strings.HasPrefix(got, c.header+"\n") {
			t.Errorf("%s %v: other bytes than the library's\n%.200s\nwant\n%.200s", c.kind, c.flags, got, want.String())
		}
	}
	model, _ := saveModel(t, dir, machine.KindRidge, "price", content)
	// Columns to carry.
	for _, c := range []struct {
		flags  []string
		header string
	}{
		{[]string{"--ids", ""}, "prediction"},
		{[]string{"--ids", "colour,id"}, "colour,id,prediction"},
		{[]string{"--keep", "price,colour"}, "id,price,colour,prediction"},
		{[]string{"--keep", "id"}, "id,prediction"},
	} {
		got := ok(t, append([]string{"predict", model, in}, c.flags...)...).stdout
		if !strings.HasPrefix(got, c.header+"\n") || strings.Count(got, "\n") != 5001 {
			t.Errorf("%v: %.40s", c.flags, got)
		}
	}
	if got := ok(t, "predict", model, in, "--keep", "colour", "--json").stdout; !strings.HasPrefix(got,
		`{"id":"100","colour":"`) {
		t.Errorf("--json: %.60s", got)
	}
	extra := put(t, dir, "extra.csv", strings.ReplaceAll(content, "\n", ",note\n"))
	fails(t, exitFailed, `"note"; carry them along with --keep, or leave them out with --skip`, "predict", model, extra)
	if got := ok(t, "predict", model, extra, "--keep", "note").stdout; !strings.HasPrefix(got, "id,note,prediction\n") {
		t.Errorf("an unknown column kept: %.40s", got)
	}
	if got := ok(t, "predict", model, extra, "--skip", "note").stdout; !strings.HasPrefix(got, "id,prediction\n") {
		t.Errorf("an unknown column skipped: %.40s", got)
	}
	// The files written.
	out := filepath.Join(dir, "out.parquet")
	r := objects[tables.PredictResult](t, ok(t, "predict", model, in, "-o", out, "--json").stdout)
	if len(r) != 1 || r[0].Rows != 5000 || r[0].Format != "parquet" || r[0].Out != out || strings.Join(r[0].Columns,
		",") != "id,prediction" {
		t.Errorf("--json with -o: %+v", r)
	}
	if o := ok(t, "predict", model, in, "-o", out); !strings.Contains(o.stderr, "5000 rows") || o.stdout != "" {
		t.Errorf("-o: %+v", o)
	}
	// A table without rows gives a table without rows.
	if got := ok(t, "predict", model, put(t, dir, "none.csv", "size,colour,id\n"),
		"--header").stdout; got != "id,prediction\n" {
		t.Errorf("no rows: %q", got)
	}
	// Unseen levels are one level; flags of the table.
	got := ok(t, "predict", model, put(t, dir, "odd.txt", "size;colour\n1;mauve\n1;pink\n-9;red\n;red\n"),
		"--delimiter",
		";", "--missing", "-9").stdout
	if f := strings.Fields(got); len(f) != 5 || f[1] != f[2] || f[3] != f[4] {
		t.Errorf("unseen levels and missing numbers: %q", got)
	}
	if got := ok(t, "predict", model, put(t, dir, "odd.tsv", "size\tcolour\n1\tred\n"), "--keep",
		"size,colour").stdout; !strings.HasPrefix(got, "size\tcolour\tprediction\n1\tred\t") {
		t.Errorf("TSV on stdout: %q", got)
	}
}

// Errors name the place and the remedy, and leave no file.
func TestPredictErrors(t *testing.T) {
	dir := t.TempDir()
	content := shop(60)
	ridge, _ := saveModel(t, dir, machine.KindRidge, "price", content)
	kinds, _ := saveModel(t, dir, machine.KindRidge, "kind", content)
	bare, m := saveModel(t, dir, machine.KindGP, "price", content)
	m.Schema = nil
	if err := m.Save(bare); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	in := put(t, dir, "shop.csv", content)
	line30 := strings.Join(strings.SplitAfter(content, "\n")[:30], "")
	out := filepath.Join(work, "out.csv")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "ragged.csv:31:4: the row has 2 fields, want 6", []string{ridge, put(t, dir, "ragged.csv",
			line30+"1,2\n"), "-o", out}},
		{exitFailed, `text.csv:31: column "size" is "tall", want a number`,
			[]string{ridge, put(t, dir, "text.csv", line30+"1,tall,red,1,dear,1\n"), "-o", out, "--strict"}},
		{exitFailed, `inf.csv:31: column "size" is infinite`,
			[]string{ridge, put(t, dir, "inf.csv", line30+"1,inf,red,1,dear,1\n"), "-o", out}},
		{exitFailed, "empty.csv: the file is empty", []string{ridge, put(t, dir, "empty.csv", ""), "-o", out}},
		{exitFailed, "no tables in the directory", []string{ridge, t.TempDir(), "-o", out}},
		{exitFailed, "is a directory, want a model file", []string{dir, in, "-o", out}},
		{exitFailed, "does not exist", []string{ridge, filepath.Join(dir, "none.csv"), "-o", out}},
		{exitFailed, "not a model file", []string{in, in, "-o", out}},
		{exitFailed, "the model has no schema", []string{bare, in, "-o", out}},
		{exitFailed, `columns missing: "size"; unknown: "Size_"; is "Size_" the column "size"?`,
			[]string{ridge, put(t, dir, "case.csv", strings.Replace(content, "size", "Size_", 1)), "-o", out}},
		{exitFailed, "does the table have a header?", []string{ridge, put(t, dir, "bare.csv", "1,red,2\n2,blue,3\n"),
			"--no-header", "-o", out}},
		{exitFailed, `no column "colr", did you mean "colour"?`,
			[]string{ridge, in, "--keep", "colr", "-o", out}},
		{exitFailed, `no column "zzzzz"; the columns are "id"`,
			[]string{ridge, in, "--ids", "zzzzz", "-o", out}},
		{exitFailed, "or with logistic", []string{kinds, in, "--probabilities", "-o", out}},
		{exitFailed, "fit with gp", []string{ridge, in, "--variance", "-o", out}},
		{exitFailed, "cannot write", []string{ridge, in, "-o", filepath.Join(work, "no", "out.csv")}},
		{exitFailed, `row 1: column "colour" is "`, []string{ridge, in, "--keep", "colour", "-o",
			filepath.Join(work, "out.npy")}},
		{exitMisuse, `the class "cheap" is text, and npz files hold numbers only`,
			[]string{kinds, in, "-o", filepath.Join(work, "out.npz")}},
		{exitMisuse, "would overwrite the input", []string{ridge, in, "-o", in}},
		{exitMisuse, "would overwrite the input", []string{ridge, in, "-o", ridge}},
		{exitMisuse, "--skip colour: the model predicts from this column", []string{ridge, in, "--skip", "kind,colour",
			"-o",
			out}},
		{exitMisuse, "want one of csv, tsv", []string{ridge, in, "--to", "xls", "-o", out}},
		{exitMisuse, "want one of csv, tsv", []string{ridge, in, "--format", "xls", "-o", out}},
		{exitMisuse, "want tab, space or one character", []string{ridge, in, "--delimiter", "ab", "-o", out}},
		{exitMisuse, "exclude each other", []string{ridge, in, "--header", "--no-header", "-o", out}},
		{exitMisuse, "parquet is binary", []string{ridge, in, "--to", "parquet"}},
		{exitMisuse, "cannot be written to stdout", []string{ridge, in, "--to", "parquet", "-o", "-"}},
		{exitMisuse, "drop one", []string{ridge, in, "--to", "csv", "--json"}},
		{exitMisuse, "named .tsv or .tab", []string{ridge, in, "--to", "tsv", "-o", out}},
		{exitMisuse, "1 argument, want a model and a table", []string{ridge}},
	} {
		fails(t, c.code, c.says, append([]string{"predict"}, c.args...)...)
	}
	fails(t, exitMisuse, "rename it", "predict", ridge, put(t, dir, "clash.csv", strings.Replace(content, "id,",
		"prediction,", 1)), "--keep", "prediction")
	if n := names(t, work); n != "" {
		t.Errorf("left behind: %s", n)
	}
	quoted := put(t, dir, "quoted.csv", "size,colour\n1,\"re\"d\n2,\"red\n")
	fails(t, exitFailed, "quoted.csv:2:7: text follows the closing quote: double quotes inside a quoted field, or read "+
		"quotes as ordinary characters (--no-quotes)", "predict", ridge, quoted)
	if o := ok(t, "predict", ridge, quoted, "--no-quotes"); strings.Count(o.stdout, "\n") != 3 {
		t.Errorf("two rows with quotes became\n%s", o.stdout)
	}
	// An error in the middle, an interrupted run and a full disk leave the old file.
	old := put(t, work, "old.csv", "old")
	fails(t, exitFailed, "ragged", "predict", ridge, filepath.Join(dir, "ragged.csv"), "-o", old)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := runChecked(ctx, []string{"predict", ridge, in, "-o", old}, nil, &stdout,
		&stderr); code != exitInterrupted ||
		!strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted: %d %s", code, &stderr)
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "old" || names(t, work) != "old.csv" {
		t.Errorf("the old file holds %q beside %s", b, names(t, work))
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		for _, to := range []string{"csv", "ndjson", "npy", "npz", "parquet"} {
			fails(t, exitFailed, "no space left", "predict", ridge, in, "-o", "/dev/full", "--to", to)
		}
	}
	// A pipe that is closed.
	if code := runChecked(context.Background(), []string{"predict", ridge, in}, nil, brokenPipe{},
		&stderr); code != exitFailed {
		t.Errorf("broken stdout: exit %d", code)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A stream of any length is predicted in the same memory.
func TestPredictMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("predicts 3.6 million rows")
	}
	dir := t.TempDir()
	model, _ := saveModel(t, dir, machine.KindRidge, "price", shop(100))
	peak := func(rows int) uint64 {
		var most atomic.Uint64
		src := &endless{rows: rows, head: "size,colour\n", line: "0.25,red\n", each: func() {
			// What is kept counts, not what waits to be collected: commands of other tests leave tens of megabytes in
			// tables of cobra, and a share of that is more than what this test looks for.
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
		}}
		var stderr bytes.Buffer
		if code := runChecked(context.Background(), []string{"predict", model, "-"}, src, io.Discard,
			&stderr); code != exitDone {
			t.Fatal(stderr.String())
		}
		return most.Load()
	}
	few, many := peak(400_000), peak(3_200_000) // the first fills the pieces that all cores parse
	// How many pieces are in flight depends on the load of the machine: peaks of equal streams differ by up to 5 MB.
	// 2,800,000 more rows would take 25 MB as text, and more as cells or predictions.
	if many > few+12<<20 {
		t.Errorf("%d bytes of heap for 400,000 rows, %d for 3,200,000", few, many)
	}
}

// endless is a generated table.
type endless struct {
	rows       int
	head, line string
	each       func()
	buf        []byte
	reads      int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head != "" {
		e.buf, e.head = append(e.buf, e.head...), ""
	}
	for len(e.buf) < len(p) && e.rows > 0 {
		e.buf = append(e.buf, e.line...)
		e.rows--
	}
	if e.reads++; e.reads%16 == 0 { // rows that are kept stay
		e.each()
	}
	if len(e.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.buf)
	e.buf = append(e.buf[:0], e.buf[n:]...)
	return n, nil
}
