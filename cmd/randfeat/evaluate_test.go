package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

func scoreOf(r tables.EvaluateResult, name string) machine.Score {
	for _, s := range r.Scores {
		if s.Name == name {
			return s
		}
	}
	return machine.Score{Value: math.NaN()}
}

func evaluated(t *testing.T, args ...string) tables.EvaluateResult {
	t.Helper()
	r := objects[tables.EvaluateResult](t, ok(t, append([]string{"evaluate", "--json"}, args...)...).stdout)
	if len(r) != 1 {
		t.Fatalf("%d objects", len(r))
	}
	return r[0]
}

// evaluate scores the predictions that predict writes.
func TestEvaluate(t *testing.T) {
	dir := t.TempDir()
	text := shop(3000)
	in := put(t, dir, "shop.csv", text)
	logistic, _ := saveModel(t, dir, machine.KindLogistic, "kind", shop(200))
	r := evaluated(t, logistic, in)
	_, got := cells(t, put(t, dir, "p.csv", ok(t, "predict", logistic, in, "--keep", "kind").stdout))
	right, counts := 0, map[string]int64{}
	for _, row := range got {
		if row[1] == row[2] {
			right++
		}
		counts[row[1]+row[2]]++
	}
	acc := r.Scores[0]
	if acc.Name != "accuracy" || acc.Value != float64(right)/3000 || acc.Rows != 3000 || !(acc.Low < acc.Value &&
		acc.Value < acc.High) {
		t.Errorf("accuracy %+v, counted %d", acc, right)
	}
	if want := [][]int64{{counts["cheapcheap"], counts["cheapdear"]}, {counts["dearcheap"],
		counts["deardear"]}}; fmt.Sprint(r.Confusion) != fmt.Sprint(want) {
		t.Errorf("confusion %v, want %v", r.Confusion, want)
	}
	if r.Rows != 3000 || !slices.Equal(r.Classes, []string{"cheap", "dear"}) ||
		math.IsNaN(scoreOf(r, "log loss").Value) {
		t.Errorf("%+v", r)
	}
	o := ok(t, "evaluate", logistic, in).stdout
	for _, want := range []string{"3000 rows, logistic model, classification of kind", "accuracy", "Brier", " to ",
		"true class (down)", "cheap"} {
		if !strings.Contains(o, want) {
			t.Errorf("%q is not in\n%s", want, o)
		}
	}
	gp, _ := saveModel(t, dir, machine.KindGP, "price", shop(200))
	r = evaluated(t, gp, in)
	_, got = cells(t, put(t, dir, "p.csv", ok(t, "predict", gp, in, "--keep", "price").stdout))
	sum := 0.0
	for _, row := range got {
		var y, p float64
		fmt.Sscan(row[1], &y)
		fmt.Sscan(row[2], &p)
		sum += (y - p) * (y - p)
	}
	if s := r.Scores[0]; s.Name != "RMSE" || math.Abs(s.Value-math.Sqrt(sum/3000)) > 1e-12 || r.Confusion != nil {
		t.Errorf("RMSE %+v, want %g", s, math.Sqrt(sum/3000))
	}
	if c := scoreOf(r, "coverage of 90 % intervals"); math.IsNaN(c.Value) {
		t.Error("no coverage of a Gaussian process")
	}
	if single := evaluated(t, gp, in, "--float32").Scores[0].Value; single == r.Scores[0].Value ||
		math.Abs(single-r.Scores[0].Value) > 1e-3 {
		t.Errorf("RMSE %g in float32, %g in float64", single, r.Scores[0].Value)
	}
	// Bad tables.
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, `no column "kind", the model's target`,
			[]string{logistic, put(t, dir, "a.csv", "id,size,colour\n1,2,red\n")}},
		{exitFailed, `b.csv:3: target "kind" is "free", a class unseen`,
			[]string{logistic, put(t, dir, "b.csv", "size,colour,kind\n1,red,dear\n1,red,free\n")}},
		{exitFailed, `c.csv:3: target "kind" is missing`, []string{logistic,
			put(t, dir, "c.csv", "size,colour,kind\n1,red,dear\n1,red,\n")}},
		{exitFailed, `d.csv:3: target "price" is missing`, []string{gp,
			put(t, dir, "d.csv", "size,colour,price\n1,red,1\n1,red,nan\n")}},
		{exitFailed, "columns but no rows", []string{gp, put(t, dir, "e.csv", "size,colour,price\n"), "--header"}},
		{exitFailed, `/f.csv: columns unknown when the schema was learned: "x"; leave them out with --skip`,
			[]string{gp, put(t, dir, "f.csv", "size,colour,price,x\n1,red,1,1\n")}},
		{exitFailed, `no column "zz"`, []string{gp, in, "--skip", "zz"}},
		{exitMisuse, "--skip size: the model predicts from this column", []string{gp, in, "--skip", "size"}},
		{exitMisuse, "--label is for densities", []string{gp, in, "--label", "kind"}},
		{exitMisuse, "--normal needs --label", []string{gp, in, "--normal", "1"}},
	} {
		fails(t, c.code, c.says, append([]string{"evaluate"}, c.args...)...)
	}
	if r := evaluated(t, gp, filepath.Join(dir, "f.csv"), "--skip", "x"); r.Rows != 1 {
		t.Errorf("a column skipped: %+v", r)
	}
}

// Of many classes people get those that are predicted worst and the largest confusions instead of a matrix, and a rare
// class is pointed out at the fit.
func TestManyClasses(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("x,y\n")
	for i := range 600 {
		c := i % 15
		if i%150 == 0 { // a class of four rows among those of c0
			c = 99
		}
		fmt.Fprintf(&b, "%g,c%d\n", float64(i%15)+0.9*math.Sin(float64(i)), c)
	}
	in, model := put(t, dir, "many.csv", b.String()), filepath.Join(dir, "m.rf")
	out := ok(t, "fit", in, "--target", "y", "--features", "64", "-o", model).stdout
	for _, want := range []string{"ROC AUC", "log loss", "class c99 has 0.67 % of these rows",
		"--model logistic --class-weight balanced"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out := ok(t, "fit", in, "--target", "y", "--features", "64", "--lambda", "1", "--class-weight", "balanced", "-o",
		filepath.Join(dir, "w.rf")).stdout; strings.Contains(out, "class c99 has") {
		t.Errorf("balanced already:\n%s", out)
	}
	out = ok(t, "evaluate", model, in).stdout
	for _, want := range []string{"The 12 of 16 classes with the lowest F1", "The largest confusions:", "predicted as",
		"by the probability it was given", "by chance"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 120 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	r := evaluated(t, model, in)
	if len(r.ByClass) != 16 || len(r.Confusion) != 16 || r.Reliability == nil || len(r.Confusions) == 0 {
		t.Errorf("%d classes, %d rows of confusion, %v", len(r.ByClass), len(r.Confusion), r.Confusions)
	}
	if c := r.Confusions[0]; c.Rows != r.Confusion[c.Truth][c.Predicted] || c.Truth == c.Predicted {
		t.Errorf("largest confusion %+v", c)
	}
	// evaluate judges the probabilities that predict writes.
	_, rows := cells(t, put(t, dir, "p.csv", ok(t, "predict", model, in, "--probabilities", "--keep", "y").stdout))
	loss := 0.0
	for _, row := range rows {
		var p float64
		fmt.Sscan(row[2+slices.Index(r.Classes, row[0])], &p)
		loss -= math.Log(p) / float64(len(rows))
	}
	if got := scoreOf(r, "log loss").Value; math.Abs(got-loss) > 1e-9 {
		t.Errorf("log loss %g, by the predictions %g", got, loss)
	}
}

// The AUC of a density is the fraction of pairs in the right order.
func TestEvaluateDensity(t *testing.T) {
	dir := t.TempDir()
	model, _ := saveModel(t, dir, machine.KindDensity, "", shop(300))
	r := rand.New(rand.NewPCG(1, 9))
	var b strings.Builder
	b.WriteString("size,colour,label\n")
	for i := range 200 {
		if i%8 == 0 {
			fmt.Fprintf(&b, "%.3f,red,odd\n", 4*r.NormFloat64())
		} else {
			fmt.Fprintf(&b, "%.3f,red,fine\n", r.NormFloat64())
		}
	}
	in := put(t, dir, "in.csv", b.String())
	_, got := cells(t, put(t, dir, "p.csv", ok(t, "predict", model, in, "--keep", "label").stdout))
	pairs, right := 0.0, 0.0
	for _, a := range got {
		for _, n := range got {
			if a[0] != "odd" || n[0] != "fine" {
				continue
			}
			var x, y float64
			fmt.Sscan(a[1], &x)
			fmt.Sscan(n[1], &y)
			pairs++
			if x < y {
				right++
			} else if x == y {
				right += 0.5
			}
		}
	}
	e := evaluated(t, model, in, "--label", "label")
	if s := e.Scores[0]; s.Name != "ROC AUC" || math.Abs(s.Value-right/pairs) > 1e-14 || !(s.Low < s.Value &&
		s.Value < s.High) || s.High > 1 {
		t.Errorf("AUC %+v, want %g", s, right/pairs)
	}
	if e.Normal != "fine" || e.Anomalies != 25 || e.Scores[1].Name != "mean log density" {
		t.Errorf("%+v", e)
	}
	if other := evaluated(t, model, in, "--label", "label", "--normal",
		"odd"); math.Abs(other.Scores[0].Value-(1-right/pairs)) > 1e-14 || other.Anomalies != 175 {
		t.Errorf("the other way round: %+v", other)
	}
	if o := ok(t, "evaluate", model, in, "--label", "label").stdout; !strings.Contains(o,
		"25 rows whose label is not fine are taken for anomalies") {
		t.Error(o)
	}
	// 0 is normal even if it is rare.
	digits := put(t, dir, "digits.csv", strings.NewReplacer("fine", "1", "odd", "0.0").Replace(b.String()))
	if e := evaluated(t, model, digits, "--label", "label"); e.Normal != "0" || e.Anomalies != 175 {
		t.Errorf("%+v", e)
	}
	fails(t, exitFailed, `no column "lable", did you mean "label"?`, "evaluate", model, in, "--label",
		"lable")
	fails(t, exitFailed, `is never "x", as --normal says`, "evaluate", model, in, "--label", "label", "--normal", "x")
	fails(t, exitFailed, `is always "red"`, "evaluate", model, in, "--label", "colour", "--skip", "label")
	fails(t, exitFailed, `row 2: label "label" is missing`, "evaluate", model,
		put(t, dir, "gap.csv", "size,colour,label\n1,red,a\n1,red,\n"), "--label", "label")
	fails(t, exitFailed, `"label"; name the one that marks anomalies with --label`, "evaluate", model, in)
}
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	path, m := saveModel(t, dir, machine.KindLogistic, "kind", shop(100))
	r := objects[json.RawMessage](t, ok(t, "inspect", path, "--json").stdout)
	var got struct {
		Kind, Task, Python       string
		TensorsSHA256            string `json:"sha256_tensors"`
		Rows, Bytes              int64
		Features, Width, Outputs int
		FormatVersion            int `json:"format_version"`
		Lambda, Bandwidth        float64
		Schema                   data.Schema
		Spec                     map[string]any
		Tensors                  []machine.TensorInfo
	}
	if err := json.Unmarshal(r[0], &got); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != "logistic" || got.Task != "classification" || got.Rows != 100 || got.Bytes != info.Size() ||
		got.FormatVersion != 2 || got.Features != 64 ||
		got.Width != m.Schema.Width() || got.Outputs != 2 || got.Lambda != 1 || got.Bandwidth != 2 ||
		len(got.TensorsSHA256) != 64 || len(got.Tensors) != 3 ||
		got.Schema.Targets[0].Classes[1] != "dear" || got.Spec["m"] != 32.0 ||
		!strings.Contains(got.Python, "safe_open") {
		t.Errorf("%+v", got)
	}
	o := ok(t, "inspect", path).stdout
	for _, want := range []string{"format version 2", "verified", got.TensorsSHA256,
		"logistic (classification, 2 classes), fitted to 100 rows",
		"64 random features: trig × orthogonal, 32 projections, seed 5",
		"gaussian, bandwidth 2", "penalty λ", "3 levels: ", "2 classes: cheap, dear", "carried along", "safe_open",
		"weights [64, 2]", "ignored"} {
		if !strings.Contains(o, want) {
			t.Errorf("%q is not in\n%s", want, o)
		}
	}
	if o := ok(t, "inspect", path, "--levels", "1").stdout; !strings.Contains(o, "2 classes: cheap, …") {
		t.Errorf("--levels 1:\n%s", o)
	}
	density, d := saveModel(t, dir, machine.KindDensity, "", shop(100))
	d.Schema, d.Extra = nil, map[string]string{"note": "first\nsecond"}
	if err := d.Save(density); err != nil {
		t.Fatal(err)
	}
	if o := ok(t, "inspect", density).stdout; !strings.Contains(o, "No schema") || strings.Contains(o, "λ") ||
		!strings.Contains(o, "first second") {
		t.Errorf("a density without a schema:\n%s", o)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-5] ^= 1
	fails(t, exitFailed, "the checksum of the tensors is wrong", "inspect", put(t, dir, "flipped.rf", string(b)))
	fails(t, exitFailed, "corrupt file", "inspect", put(t, dir, "cut.rf", string(b[:len(b)/2])))
	fails(t, exitMisuse, "want a model", "inspect")
	fails(t, exitMisuse, "--levels is -1", "inspect", path, "--levels", "-1")
}

// A row of weight 3 counts as three rows do, one of weight 0 not at all; intervals know that it is one row.
func TestEvaluateWeight(t *testing.T) {
	dir := t.TempDir()
	m, _ := saveModel(t, dir, machine.KindLogistic, "kind", shop(200))
	head, rows, _ := strings.Cut(shop(300), "\n")
	weighted, repeated := head+",w\n", head+"\n"
	for i, row := range strings.Split(strings.TrimSpace(rows), "\n") {
		weighted += fmt.Sprintf("%s,%d\n", row, i%4)
		repeated += strings.Repeat(row+"\n", i%4)
	}
	in := put(t, dir, "weighted.csv", weighted)
	got := evaluated(t, m, in, "--weight", "w")
	want := evaluated(t, m, put(t, dir, "repeated.csv", repeated))
	if got.Rows != 300 || got.Weight != "w" {
		t.Errorf("%d rows by weights of %q", got.Rows, got.Weight)
	}
	for _, name := range []string{"accuracy", "balanced accuracy", "ROC AUC", "log loss", "Brier"} {
		a, b := scoreOf(got, name), scoreOf(want, name)
		if !(math.Abs(a.Value-b.Value) < 1e-9) {
			t.Errorf("%s is %g by weights, %g by rows", name, a.Value, b.Value)
		}
		if !(a.High-a.Low > b.High-b.Low) {
			t.Errorf("%s: [%g, %g] by weights, [%g, %g] by rows", name, a.Low, a.High, b.Low, b.High)
		}
	}
	if plain := evaluated(t, m, in, "--skip", "w"); scoreOf(plain, "log loss").Value == scoreOf(got, "log loss").Value {
		t.Error("weights change nothing")
	}
	fails(t, 1, `no column "v"`, "evaluate", m, in, "--weight", "v")
	fails(t, 1, "want a number that is not negative", "evaluate", m, in, "--weight", "kind")
	fails(t, 2, "take rows as they are", "evaluate", m, in, "--weight", "w", "--importance")
}

// evaluate warns of rows that the model was fitted to, in any order of columns, and not of new ones; fit does not send
// people there.
func TestEvaluateRecognisesRowsOfTheFit(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	said := ok(t, "fit", "--demo", "-o", path("model.rf"), "--save-data", path("demo.csv"), "--features", "16",
		"--folds", "1").stdout
	if strings.Contains(said, "randfeat evaluate") || !strings.Contains(said, "randfeat predict") {
		t.Errorf("fit sends people to its own rows:\n%s", said)
	}
	b, err := os.ReadFile(path("demo.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	rows := len(lines) - 1
	half := append([]string{}, lines[:1+rows/2]...)
	fresh := lines[:1:1]
	for i, l := range lines[1:] {
		cells := strings.Split(l, ",")
		cells[6] += "5" // another digit of the target
		fresh = append(fresh, strings.Join(cells, ","))
		if i >= rows/2 {
			half = append(half, fresh[i+1])
		}
	}
	turned := []string{}
	for _, l := range lines {
		cells := strings.Split(l, ",")
		slices.Reverse(cells)
		turned = append(turned, strings.Join(cells, ","))
	}
	for _, c := range []struct {
		name  string
		lines []string
		share float64
	}{{"fitted", lines, 1}, {"turned", turned, 1}, {"half", half, 0.5}, {"fresh", fresh, 0}} {
		table := path(c.name + ".csv")
		if err := os.WriteFile(table, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ok(t, "evaluate", path("model.rf"), table, "--json")
		r := objects[tables.EvaluateResult](t, got.stdout)[0]
		if r.Seen == nil || r.Seen.Compared < 900 || math.Abs(r.Seen.Share()-c.share) > 0.07 {
			t.Errorf("%s: %+v", c.name, r.Seen)
		}
		if warned := strings.Contains(got.stderr, "rows that the model was fitted to"); warned != (c.share > 0) {
			t.Errorf("%s: %s", c.name, got.stderr)
		}
	}
}
