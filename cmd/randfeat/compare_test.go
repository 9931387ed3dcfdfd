package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
)

// halves are the lines of a table: the first for the fit, the others for scores.
func halves(t *testing.T, dir, text string, fit int) (train, test string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return put(t, dir, "train.csv", strings.Join(lines[:fit+1], "\n")+"\n"),
		put(t, dir, "test.csv", lines[0]+"\n"+strings.Join(lines[fit+1:], "\n")+"\n")
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "demo.csv")
	a, b := filepath.Join(dir, "a.rf"), filepath.Join(dir, "b.rf")
	ok(t, "fit", "--demo", "-o", a, "--save-data", data, "--map", "random", "--features", "64", "--bandwidth", "3",
		"--lambda", "1", "--folds", "1")
	text := readAll(t, data)
	train, test := halves(t, dir, text, 2000)
	fit := func(out string, more ...string) string {
		r := ok(t, append([]string{"fit", train, "--target", "kwh", "--id", "meter", "-o", out, "--map", "random",
			"--features", "64", "--bandwidth", "3", "--lambda", "1"}, more...)...)
		return r.stdout
	}
	fit(a, "--folds", "1", "--skip", "temperature")
	if out := fit(b, "--compare"); !strings.Contains(out, "KERNEL − METHOD") || !strings.Contains(out, "–  ") ||
		!strings.Contains(out, "linear") {
		t.Errorf("fit --compare:\n%s", out)
	}
	got := objects[tables.CompareResult](t, ok(t, "compare", a, b, test, "--json").stdout)[0]
	// Each model's scores are those of evaluate, and differences are differences of these.
	first, second := evaluated(t, a, test, "--skip", "temperature"), evaluated(t, b, test)
	for _, d := range got.Differences {
		want := scoreOf(second, d.Score.Name).Value - scoreOf(first, d.Score.Name).Value
		if math.Abs(d.Score.Value-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s differs by %g, want %g", d.Score.Name, d.Score.Value, want)
		}
		if d.Better != "second" || !(d.Score.Low <= d.Score.Value && d.Score.Value <= d.Score.High) {
			t.Errorf("%+v: the second knows the temperature", d)
		}
	}
	if len(got.Differences) != 3 || got.Rows != 1000 {
		t.Errorf("%d differences of %d rows", len(got.Differences), got.Rows)
	}
	// A model equals itself, and is warned of once.
	if r := ok(t, "compare", b, b, train); strings.Count(r.stderr, "was fitted to") != 1 ||
		strings.Count(r.stdout, "equal") != 3 || strings.Contains(r.stdout, "cannot be told") {
		t.Errorf("a model and itself: %s\n%s", r.stderr, r.stdout)
	}
	// The order turns, rows of the fit are known, and people read the same.
	back := objects[tables.CompareResult](t, ok(t, "compare", b, a, test, "--json").stdout)[0]
	turned, before := back.Differences[0], got.Differences[0]
	if turned.Better != "first" || math.Abs(turned.Score.Value+before.Score.Value) > 1e-12 {
		t.Errorf("turned: %+v", turned)
	}
	r := ok(t, "compare", a, b, train)
	if !strings.Contains(r.stderr, "was fitted to") || !strings.Contains(r.stdout, "second") {
		t.Errorf("rows of the fit: %s\n%s", r.stderr, r.stdout)
	}
	other := filepath.Join(dir, "other.rf")
	classes, _ := saveModel(t, dir, "logistic", "kind", shop(200))
	fails(t, cli.ExitMisuse, "do not compare", "compare", a, classes, test)
	rows := put(t, dir, "shop.csv", shop(200))
	out := ok(t, "compare", classes, classes, rows).stdout
	if !strings.Contains(out, "Brier") || strings.Contains(out, "–") {
		t.Errorf("scores of classes:\n%s", out)
	}
	r = ok(t, "fit", rows, "--target", "kind", "--compare", "-o", other, "--map", "random", "--features", "64",
		"--bandwidth", "3", "--lambda", "1")
	if !strings.Contains(r.stdout, "most frequent class  Brier") ||
		!strings.Contains(r.stdout, "models of 80 % of the rows") || strings.Contains(r.stdout, "Brier     –") {
		t.Errorf("fit --compare of classes:\n%s", r.stdout)
	}
	fails(t, cli.ExitMisuse, "two models and a table", "compare", a, test)
	ok(t, "fit", train, "--target", "temperature", "--id", "meter", "-o", other, "--map", "random", "--features", "64",
		"--bandwidth", "3", "--lambda", "1", "--folds", "1")
	fails(t, cli.ExitMisuse, "same target", "compare", a, other, test)
}

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	data, model := filepath.Join(dir, "demo.csv"), filepath.Join(dir, "m.rf")
	ok(t, "fit", "--demo", "-o", model, "--save-data", data, "--map", "random", "--features", "128", "--bandwidth", "3",
		"--lambda", "1", "--folds", "1", "--kernel", "rbf")
	for _, command := range []string{"predict", "evaluate", "explain"} {
		fails(t, cli.ExitMisuse, "name the model first", command, data, model)
	}
	svg, page := filepath.Join(dir, "t.svg"), filepath.Join(dir, "t.html")
	got := objects[tables.ExplainResult](t, ok(t, "explain", model, data, "--column", "temperature", "--row", "5",
		"--svg", svg, "--page", page, "--json").stdout)[0]
	d := got.Dependence[0]
	// kWh of the demo fall with the temperature up to some 16 degrees, and rise above.
	if first, last := d.Points[0], d.Points[len(d.Points)-1]; first.Mean < 40 || last.Mean < 40 || len(d.Points) < 20 {
		t.Errorf("ends %+v, %+v of %d points", first, last, len(d.Points))
	}
	sum := got.Explanation.Mean
	for _, p := range got.Explanation.Parts {
		sum += p.Part
	}
	if math.Abs(sum-got.Explanation.Prediction) > 1e-6 || len(got.Explanation.Parts) != 4 {
		t.Errorf("parts sum to %g of %g", sum, got.Explanation.Prediction)
	}
	if !strings.Contains(got.NoNeighbours, "random features") || got.Neighbours != nil {
		t.Errorf("neighbours of random features: %q", got.NoNeighbours)
	}
	if text := readAll(t, svg); !strings.HasPrefix(text, "<svg") {
		t.Errorf("svg: %.60s", text)
	}
	if text := readAll(t, page); !strings.Contains(text, "<h2>Row 5</h2>") || !strings.Contains(text, "</svg>") {
		t.Errorf("page: %.200s", text)
	}
	// The page of all columns: importances first, then the columns in this order, days in theirs, and no report.
	if r := ok(t, "explain", model, data, "--page", page); r.stdout != "" {
		t.Errorf("--page prints\n%s", r.stdout)
	}
	inOrder(t, readAll(t, page), ">What matters<", "<td>occupancy<", "<td>weekday<", ">occupancy</text>",
		">temperature</text>",
		">Mon</text>", ">Tue</text>", ">Wed</text>", ">Sun</text>")
	ok(t, "evaluate", model, data, "--html", page, "--importance")
	inOrder(t, readAll(t, page), "<td>RMSE<", ">What matters<", "true and predicted", "Residuals of kwh")
	out := ok(t, "explain", model, data).stdout
	if !strings.Contains(out, "weekday") || !strings.Contains(out, "occupancy") {
		t.Errorf("all columns:\n%s", out)
	}
	for want, args := range map[string][]string{
		`did you mean "temperature"`: {"--column", "temperatur"},
		"fewer rows":                 {"--row", "9999"},
		"want 1 or more":             {"--row", "0"},
		"one column":                 {"--svg", svg},
		"the model predicts":         {"--output", "x"},
		"at least 4":                 {"--row", "1", "--orders", "2"},
	} {
		r := call(t, "", append([]string{"explain", model, data}, args...)...)
		if r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
}

// inOrder checks that texts follow each other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		_, after, ok := strings.Cut(text, p)
		if !ok {
			t.Errorf("no %q, or not in this order", p)
			return
		}
		text = after
	}
}

// A table with missing values, texts among numbers, wild cells, a constant column and the same column twice is fitted
// to two targets, and all that explains or compares such models works.
func TestDirtyTable(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("site,heat,light,copy,const,yield,height\n")
	for i := range 160 {
		site, heat := []string{"north", "south", "", "sü d"}[i%4], fmt.Sprint(10+i%23)
		light := fmt.Sprintf("%.1f", 2+math.Mod(float64(i)*1.7, 11))
		switch i {
		case 17, 61, 92:
			heat = []string{"NA", "?", ""}[i%3]
		case 30:
			heat = "1e9"
		case 40:
			light = "free"
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,x,%.3f,%.3f\n", site, heat, light, heat,
			math.Sin(float64(i%23)/4)+math.Mod(float64(i)*0.37, 1)/3, float64(i%23)/7)
	}
	train, test := halves(t, dir, b.String(), 120)
	given := []string{"--bandwidth", "3", "--lambda", "0.1", "--scaling", "standard", "--kernel", "gaussian"}
	fit := func(name string, more ...string) string {
		out := filepath.Join(dir, name)
		ok(t, slices.Concat([]string{"fit", train, "-o", out, "--target", "yield"}, given, more)...)
		return out
	}
	two := fit("two.rf", "--target", "height", "--compare")
	lines := strings.Split(strings.TrimSpace(ok(t, "predict", two, test, "--interval", "0.9").stdout), "\n")
	if len(lines) != 41 || !strings.HasPrefix(lines[0], "prediction_yield,prediction_height,lower_yield") ||
		strings.Contains(strings.Join(lines, "\n"), "NaN") {
		t.Errorf("%d lines of predictions: %q", len(lines), lines[:2])
	}
	one := fit("one.rf", "--skip", "height", "--interval-by", "site")
	bare := fit("bare.rf", "--skip", "height", "--skip", "heat", "--skip", "copy", "--folds", "1")
	if r := ok(t, "compare", one, bare, test); !strings.Contains(r.stdout, "first") {
		t.Errorf("compare:\n%s", r.stdout)
	}
	got := objects[tables.ExplainResult](t, ok(t, "explain", one, test, "--row", "1", "--column", "site",
		"--json").stdout)[0]
	sum := got.Explanation.Mean
	for _, p := range got.Explanation.Parts {
		sum += p.Part
	}
	if math.Abs(sum-got.Explanation.Prediction) > 1e-6 || len(got.Explanation.Parts) != 4 || len(got.Neighbours) == 0 {
		t.Errorf("parts sum to %g of %g, %d neighbours", sum, got.Explanation.Prediction, len(got.Neighbours))
	}
	if n := len(got.Dependence[0].Points); n != 4 { // three levels, and missing
		t.Errorf("%d values of site", n)
	}
}
