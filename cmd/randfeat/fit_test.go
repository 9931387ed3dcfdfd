package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

func TestFitMisuse(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "t.csv")
	if err := os.WriteFile(table, []byte(badHead+rowsOf(60, quantity)), 0o666); err != nil {
		t.Fatal(err)
	}
	fit := func(args ...string) []string {
		return append([]string{"fit", table, "-o", filepath.Join(dir, "m.rf")}, args...)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"name at least one data file, or set --demo", []string{"fit"}},
		{"1 argument, want none with --demo", []string{"fit", "--demo", table}},
		{"--demo and --target exclude each other", []string{"fit", "--demo", "--target", "y"}},
		{"--save-data needs --demo", fit("--target", "y", "--save-data", "x.csv")},
		{`--target is missing: name the column to predict, one of "x", "colour", "y"; or ask for a density without a target by --model density`, fit()},
		{`--target is missing`, fit("--model", "ridge")},
		{`--model is "forest", want one of ridge, logistic, gp, smoother, density`,
			fit("--target", "y", "--model", "forest")},
		{`--task is "ranking", want regression or classification`, fit("--target", "y", "--task", "ranking")},
		{"--model density has no target", fit("--target", "y", "--model", "density")},
		{"--model logistic does not do regression", fit("--target", "y", "--model", "logistic", "--task",
			"regression")},
		{"--model gp does not do classification", fit("--target", "y", "--model", "gp", "--task", "classification")},
		{"--bandwidth is 0, want more than 0", fit("--target", "y", "--bandwidth", "0")},
		{"--bandwidth is NaN", fit("--target", "y", "--bandwidth", "NaN")},
		{"--lambda is -1", fit("--target", "y", "--lambda", "-1")},
		{"--lambda is +Inf", fit("--target", "y", "--lambda", "Inf")},
		{"--features is -5", fit("--target", "y", "--features", "-5")},
		{"--folds is 0", fit("--target", "y", "--folds", "0")},
		{"--features and --budget exclude each other", fit("--target", "y", "--features", "8", "--budget", "8")},
		{"--checkpoint-every needs --checkpoint", fit("--target", "y", "--checkpoint-every", "1s")},
		{"--model density has no penalty", fit("--model", "density", "--lambda", "1")},
		{"--family: ", fit("--target", "y", "--family", "none")},
		{"--coupling: ", fit("--target", "y", "--coupling", "none")},
		{"--class-weight: the target y is a number", fit("--target", "y", "--class-weight", "balanced")},
		{"--class-weight needs --model ridge or logistic", fit("--target", "y", "--model", "smoother", "--class-weight",
			"balanced")},
		{"is neither balanced nor JSON", fit("--target", "colour", "--model", "logistic", "--class-weight", "heavy")},
		{"is neither balanced nor JSON", fit("--target", "colour", "--model", "logistic", "--class-weight",
			`{"red":1} x`)},
		{"is neither balanced nor JSON", fit("--target", "colour", "--model", "logistic", "--class-weight",
			`{"red":1} 2`)},
		{`the weight of "red" is 0, want more than 0`, fit("--target", "colour", "--model", "logistic",
			"--class-weight", `{"red":0}`)},
		{`no class "pink"; the classes of colour are "blue", "green", "red"`,
			fit("--target", "colour", "--model", "logistic", "--class-weight", `{"pink":1}`)},
	} {
		fails(t, exitMisuse, c.says, c.args...)
	}
	fails(t, exitFailed, "a logistic model is for classification", fit("--target", "y", "--model", "logistic")...)
	if got := names(t, dir); got != "t.csv" {
		t.Errorf("files left: %s", got)
	}
}

// A fit of every model, its report and what is in its file.
func TestFitModels(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000") // the same date, the same bytes
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	numbers, classes := put("numbers.csv", badHead+rowsOf(300, quantity)),
		put("classes.csv", badHead+rowsOf(300, label))
	for _, c := range []struct {
		args string
		task machine.Task
		kind machine.Kind
	}{
		{numbers + " --target y", machine.Regression, machine.KindRidge},
		{numbers + " --target y --target x --quick", machine.Regression, machine.KindRidge},
		{numbers + " --target y --model gp --quick", machine.Regression, machine.KindGP},
		{numbers + " --target y --model smoother --quick", machine.Regression, machine.KindSmoother},
		{numbers + " --model density --skip y", machine.Unsupervised, machine.KindDensity},
		{classes + " --target y --quick", machine.Classification, machine.KindRidge},
		{classes + " --target y --model logistic --class-weight balanced --quick", machine.Classification,
			machine.KindLogistic},
		{classes + ` --target y --model logistic --class-weight {"no":3} --quick`, machine.Classification,
			machine.KindLogistic},
	} {
		out := filepath.Join(dir, "m.rf")
		args := append([]string{"fit"}, strings.Fields(c.args)...)
		args = append(args, "-o", out, "--budget", "128", "--folds", "3")
		o := ok(t, append(args, "--json")...)
		reports := objects[tables.FitReport](t, o.stdout)
		if len(reports) != 1 {
			t.Fatalf("%d objects", len(reports))
		}
		r := reports[0]
		info, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		if r.Task != c.task || r.Kind != c.kind || r.Rows != 300 || r.File != out || r.Bytes != info.Size() ||
			len(r.Scores) == 0 ||
			r.Summary == nil || len(r.Choices) < 4 || r.Seed != cli.DefaultSeed || r.Seconds <= 0 {
			t.Errorf("%s: report %+v", c.args, r)
		}
		if c.task == machine.Unsupervised != (r.Baseline == nil) {
			t.Errorf("%s: baseline %+v", c.args, r.Baseline)
		}
		if b := r.Baseline; b != nil {
			if c.task == machine.Regression && r.Scores[0].Value > b.Value || c.task == machine.Classification &&
				r.Scores[0].Value < b.Value {
				t.Errorf("%s: %+v, no better than the baseline %+v", c.args, r.Scores[0], b)
			}
		}
		m, err := machine.Load(out)
		if err != nil {
			t.Fatal(err)
		}
		if m.Schema == nil || m.Kind != c.kind {
			t.Errorf("%s: model of kind %s with schema %v", c.args, m.Kind, m.Schema)
		}
		first, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		text := ok(t, args...).stdout
		again, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Errorf("%s: the same command gave another model", c.args)
		}
		for _, want := range []string{"300 rows, 3 columns", "CHOICE", "95 % INTERVAL", "randfeat predict " + out +
			" new.csv", "randfeat serve " + out, "Seed 1."} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the summary does not say %q:\n%s", c.args, want, text)
			}
		}
	}
}

// An interruption ends with a message and without a model.
func TestFitInterrupted(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "m.rf")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := runChecked(ctx, []string{"fit", "--demo", "-o", out}, strings.NewReader(""), &stdout, &stderr)
	if code != exitInterrupted || stdout.Len() > 0 || !strings.Contains(stderr.String(),
		"interrupted: no model was written; with --checkpoint FILE a fit can go on") {
		t.Errorf("exit %d, %s%s", code, stdout.String(), stderr.String())
	}
	if got := names(t, dir); got != "" {
		t.Errorf("files left: %s", got)
	}
}

// The Python program of docs/modelfile.md reads a model file and predicts the same numbers.
func TestPythonReadsModels(t *testing.T) {
	if err := exec.Command("python3", "-c", "import numpy").Run(); err != nil {
		t.Skip("no python3 with numpy")
	}
	doc, err := os.ReadFile("../../docs/modelfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(doc), "```python\n")
	program, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("docs/modelfile.md has no Python program")
	}
	dir := t.TempDir()
	model, table := filepath.Join(dir, "model.rf"), filepath.Join(dir, "demo.csv")
	var classes strings.Builder
	classes.WriteString("a,b,kind\n")
	const fewRows = 300
	for i := range fewRows {
		fmt.Fprintf(&classes, "%d,%g,%s\n", i%7, math.Sin(float64(i)), []string{"x", "y", "z"}[(i%7+i%3)%3])
	}
	sorts := filepath.Join(dir, "classes.csv")
	if err := os.WriteFile(sorts, []byte(classes.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	few := filepath.Join(dir, "few.csv") // the mean of several kernels
	lines := strings.SplitAfter(classes.String(), "\n")
	lines[9] = "1000000" + lines[9][1:] // an outlier
	if err := os.WriteFile(few, []byte(strings.Join(lines[:91], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--features 128 --bandwidth 2 --scaling robust", "--map exact --bandwidth 2",
		"--map nystrom --features 100 --bandwidth 2", "--map nystrom --features 60 --bandwidth 6 --kernel laplace",
		"--map nystrom --features 60 --bandwidth 3 --kernel matern52", "--model gp --features 64 --bandwidth 2",
		"--model smoother --family oprf --features 64 --bandwidth 2",
		"--model smoother --family trig --features 64 --bandwidth 3",
		"--model smoother --family adaptive --features 64 --bandwidth 2", "--family oprf --features 64 --bandwidth 4 --lambda 1",
		"classes --model logistic --features 32 --bandwidth 1 --lambda 0.1",
		"--features 64 --scaling learned", "classes --map exact --scaling learned --folds 2",
		"classes --map exact --bandwidth 1 --lambda 0.1 --folds 2", "classes --features 32 --bandwidth 1 --lambda 0.1 --class-weight balanced --folds 2",
		"classes --map exact --loss margins --bandwidth 1 --lambda 0.1 --folds 2",
		"classes --model smoother --family adaptive --features 32 --bandwidth 0.5", "few --folds 2",
		"rows --model density --family adaptive --features 64 --bandwidth 0.5", "rows --model density --family oprf --features 64"} {
		table, from, more := table, []string{"--demo", "--save-data", table}, []string{"--ids", ""}
		flags, rows := strings.Fields(args), demoTableRows
		if flags[0] == "classes" || flags[0] == "rows" {
			rows = fewRows
		}
		switch flags[0] {
		case "few":
			table, from, more, flags = few, []string{few, "--target", "kind"}, []string{"--probabilities"}, flags[1:]
			rows = 90
		case "classes":
			table, from, more = sorts, []string{sorts, "--target", "kind"}, []string{"--probabilities"}
			flags = flags[1:]
		case "rows":
			table, from, more, flags = sorts, []string{sorts, "--skip", "kind"}, nil, flags[1:]
		}
		ok(t, slices.Concat([]string{"fit", "-o", model, "--folds", "1"}, from, flags)...)
		var stderr bytes.Buffer
		cmd := exec.Command("python3", "-c", program, model, table)
		cmd.Stderr = &stderr
		python, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		lines := strings.Split(strings.TrimSpace(string(python)), "\n")
		predicted := ok(t, slices.Concat([]string{"predict", model, table}, more)...).stdout
		ours := strings.Split(strings.TrimSpace(predicted), "\n")[1:]
		if len(lines) != rows || len(ours) != rows {
			t.Fatalf("%d predictions in Python, %d here, want %d", len(lines), len(ours), rows)
		}
		for i, line := range lines {
			theirs, cells := strings.Fields(line), strings.Split(ours[i], ",")
			cells = cells[len(cells)-len(theirs):] // of classes the prediction comes before the probabilities
			for k := range theirs {
				u, errU := strconv.ParseFloat(theirs[k], 64)
				v, errV := strconv.ParseFloat(cells[k], 64)
				// Rounding of sums of products; predictions are about 30.
				if errU != nil || errV != nil || math.Abs(u-v) > 1e-7 {
					t.Fatalf("%s: row %d: %s in Python, %s here", args, i, line, ours[i])
				}
			}
		}
	}
}

// Families without projections, whose features are those of the columns or of given weights, are fitted like others.
func TestFitWithoutProjections(t *testing.T) {
	dir := t.TempDir()
	model, table := filepath.Join(dir, "model.rf"), filepath.Join(dir, "demo.csv")
	ok(t, "fit", "--demo", "-o", model, "--save-data", table, "--features", "16", "--folds", "1")
	m, err := machine.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, info := range family.List() {
		for _, e := range info.Examples(m.Spec.Dim) {
			if draws, err := e.Family.Draws(kernel.Gaussian, m.Spec.Dim, 1); err != nil || len(draws) > 0 {
				continue
			}
			tried++
			text, err := family.Encode(e.Family)
			if err != nil {
				t.Fatal(err)
			}
			ok(t, "fit", "--demo", "-o", model, "--family", string(text), "--folds", "1")
			rows := strings.Count(ok(t, "predict", model, table, "--ids", "").stdout, "\n")
			if rows != demoTableRows+1 {
				t.Errorf("%s: %d lines of predictions", e.Name, rows)
			}
			ok(t, "inspect", model)
		}
	}
	if tried < 2 { // elu and lfk
		t.Errorf("only %d families without projections", tried)
	}
}

// demoTableRows is the number of rows of the table of fit --demo.
const demoTableRows = 3000
