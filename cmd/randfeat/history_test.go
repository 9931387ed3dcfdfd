package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/machine"
)

// A model file has the date, program and scores of its fit, and inspect shows them; with SOURCE_DATE_EPOCH the same
// command writes the same bytes.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	in := put(t, dir, "shop.csv", shop(200))
	fit := func(name string) []byte {
		path := filepath.Join(dir, name)
		ok(t, "fit", in, "--target", "price", "--skip", "kind", "--id", "id", "--features", "32", "--bandwidth", "2",
			"-o",
			path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	a, b := fit("a.rf"), fit("b.rf")
	if !bytes.Equal(a, b) {
		t.Error("the same command wrote other bytes")
	}
	out := ok(t, "inspect", filepath.Join(dir, "a.rf")).stdout
	for _, want := range []string{"2001-09-09T01:46:40Z by randfeat ", "RMSE", "R²", "has not seen ("} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	r := objects[tables.InspectResult](t, ok(t, "inspect", "--json", filepath.Join(dir, "a.rf")).stdout)[0]
	if r.History == nil || r.History.Scores[0].Name != "RMSE" || r.History.Created != "2001-09-09T01:46:40Z" {
		t.Errorf("history %+v", r.History)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	if m, err := machine.Read(fit("c.rf")); err != nil || m.History.Created != "" {
		t.Errorf("without a date: %+v, %v", m.History, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "noon")
	fails(t, exitFailed, "SOURCE_DATE_EPOCH is \"noon\"", "fit", in, "--target", "price", "--lambda", "1",
		"--bandwidth",
		"1", "--features", "16", "-o", filepath.Join(dir, "d.rf"))
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if m, err := machine.Read(fit("e.rf")); err != nil || !strings.HasPrefix(m.History.Created, "20") {
		t.Errorf("date of today: %+v, %v", m.History, err)
	}
	// Prediction intervals: of most rows, and as asked for.
	_, rows := cells(t, put(t, dir, "p.csv", ok(t, "predict", filepath.Join(dir, "a.rf"), in, "--interval",
		"0.8").stdout))
	for _, row := range rows {
		if len(row) != 4 {
			t.Fatalf("columns %v", row)
		}
	}
	fails(t, exitMisuse, "--interval is 2", "predict", filepath.Join(dir, "a.rf"), in, "--interval", "2")
	fails(t, exitFailed, "too few rows were held out", "predict", filepath.Join(dir, "a.rf"), in, "--interval",
		"0.9999")
	e := evaluated(t, filepath.Join(dir, "a.rf"), in, "--skip", "kind")
	if c := scoreOf(e, "coverage of 90 % intervals"); !(c.Value > 0.85) {
		t.Errorf("coverage %+v", c)
	}
}

// The importance of columns: size makes the price, and a column of noise does not.
func TestImportance(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("a,b,noise,y\n")
	for i := range 400 {
		x, z := math.Sin(float64(i)), math.Cos(1.7*float64(i))
		fmt.Fprintf(&b, "%.4g,%.4g,%.4g,%.4g\n", x, z, math.Sin(5.3*float64(i)), 3*x+z)
	}
	in := put(t, dir, "t.csv", b.String())
	model := filepath.Join(dir, "m.rf")
	ok(t, "fit", in, "--target", "y", "--features", "64", "--bandwidth", "2", "--lambda", "0.01", "-o", model)
	r := evaluated(t, model, in, "--importance")
	if len(r.Importance) != 3 || r.Importance[0].Column != "a" || r.Importance[1].Column != "b" ||
		r.Importance[0].Drop.Value < 1 || r.Importance[2].Drop.Value > 0.05 {
		t.Errorf("%+v", r.Importance)
	}
	out := ok(t, "evaluate", model, in, "--importance").stdout
	if !strings.Contains(out, "R² falls by this if the column is shuffled") {
		t.Error(out)
	}
	if r := evaluated(t, model, in); r.Importance != nil {
		t.Error("importance that was not asked for")
	}
	density := filepath.Join(dir, "d.rf")
	ok(t, "fit", in, "--model", "density", "--features", "32", "--bandwidth", "1", "-o", density)
	fails(t, exitMisuse, "--importance is for models with a target", "evaluate", density, in, "--importance")
}
