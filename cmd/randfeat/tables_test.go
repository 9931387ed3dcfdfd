package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// fixedFlags are flags of a fit that tries nothing.
var fixedFlags = []string{"--features", "64", "--bandwidth", "2", "--lambda", "0.1",
	"--family", "trig", "--coupling", "iid"}

// fitTo fits a model to a table and returns its path.
func fitTo(t *testing.T, table string, args ...string) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model.rf")
	ok(t, append(append([]string{"fit", table, "-o", model}, fixedFlags...), args...)...)
	return model
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A column that cannot be read is no obstacle once it is left out.
func TestSkipRescuesParquet(t *testing.T) {
	type row struct {
		X    float64  `parquet:"x"`
		Y    float64  `parquet:"y"`
		UUID [16]byte `parquet:"uuid,uuid"`
		List []int32  `parquet:"list"`
	}
	var rows []row
	for i := range 60 {
		rows = append(rows, row{X: float64(i), Y: math.Sin(float64(i) / 9)})
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m.rf")
	fails(t, 1, `column "uuid" is of fixed-length bytes`, "fit", path, "--target", "y", "-o", out)
	model := fitTo(t, path, "--target", "y", "--skip", "uuid", "--skip", "list")
	ok(t, "evaluate", model, path)
}

// A table in Latin-1 is the table that it is in UTF-8: in the fit, in its scores, in later tables of either encoding.
func TestLatin1(t *testing.T) {
	var utf, latin strings.Builder
	utf.WriteString("stadt,x,y\n")
	for i := range 120 {
		k := i * 7 % 4
		fmt.Fprintf(&utf, "%s,%d,%.3f\n", []string{"Köln", "Århus", "Genève", "Bonn"}[k], i%9,
			10*float64(k)+math.Sin(float64(i)))
	}
	for _, r := range utf.String() {
		latin.WriteByte(byte(r))
	}
	u, l := writeText(t, "u.csv", utf.String()), writeText(t, "l.csv", latin.String())
	models := []string{fitTo(t, u, "--target", "y"), fitTo(t, l, "--target", "y")}
	var scores []float64
	for _, m := range models {
		for _, table := range []string{u, l} {
			r := objects[tables.EvaluateResult](t, ok(t, "evaluate", m, table, "--json").stdout)[0]
			scores = append(scores, r.Scores[0].Value)
		}
	}
	for _, s := range scores {
		if s != scores[0] || s > 2 {
			t.Fatalf("RMSE %v", scores)
		}
	}
	m := filepath.Join(t.TempDir(), "m.rf")
	summary := ok(t, append([]string{"fit", l, "--target", "y", "-o", m}, fixedFlags...)...)
	if !strings.Contains(summary.stdout, "read as windows-1252") {
		t.Errorf("the summary does not say how the text was read:\n%s", summary.stdout)
	}
	fails(t, 2, `--encoding is "klingon"`, "evaluate", models[0], u, "--encoding", "klingon")
	fails(t, 1, "l.csv:2:2: byte 0xF6 is not UTF-8", "evaluate", models[1], l, "--encoding", "utf-8")
}

// Identifiers come back as they were: all digits, numbers as numbers, strings as strings.
func TestIdentifiersComeBack(t *testing.T) {
	type row struct {
		ID int64   `parquet:"id"`
		S  string  `parquet:"s"`
		X  float64 `parquet:"x"`
		Y  float64 `parquet:"y"`
	}
	var rows []row
	var nd strings.Builder
	for i := range 40 {
		r := row{1<<53 + 1 + int64(i), fmt.Sprintf("%03d", i), float64(i), float64(i % 7)}
		rows = append(rows, r)
		fmt.Fprintf(&nd, `{"id":%d,"s":%q,"x":%g,"y":%g}`+"\n", r.ID, r.S, r.X, r.Y)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	model := fitTo(t, path, "--target", "y", "--task", "regression", "--id", "id", "--id", "s")
	const first = `{"id":9007199254740993,"s":"000","prediction":`
	for _, table := range []string{path, writeText(t, "x.ndjson", nd.String())} {
		if got := ok(t, "predict", model, table, "--to", "ndjson").stdout; !strings.HasPrefix(got, first) {
			t.Errorf("%s: %.60s", filepath.Base(table), got)
		}
		got := ok(t, "predict", model, table, "--to", "csv").stdout
		if !strings.Contains(got, "\n9007199254740993,000,") {
			t.Errorf("%s: %.60s", filepath.Base(table), got)
		}
	}
	out := filepath.Join(t.TempDir(), "p.parquet")
	ok(t, "predict", model, path, "-o", out)
	type answer struct {
		ID int64  `parquet:"id,optional"`
		S  string `parquet:"s,optional"`
	}
	got, err := pq.ReadFile[answer](out)
	if err != nil || len(got) != 40 || got[39] != (answer{1<<53 + 40, "039"}) {
		t.Errorf("%v, %v", got, err)
	}
	out = filepath.Join(t.TempDir(), "p.npy")
	ok(t, "predict", model, path, "--ids", "id", "-o", out) // rounded, as npy has floats
}

// Values unlike the table of the fit are counted, reported and, with --strict, refused.
func TestSurprises(t *testing.T) {
	var text strings.Builder
	text.WriteString("x,city,one,y\n")
	for i := range 60 {
		fmt.Fprintf(&text, "%d,%s,7,%d.5\n", i%10, []string{"Rome", "Oslo"}[i%2], i)
	}
	table := writeText(t, "x.csv", text.String())
	model := fitTo(t, table, "--target", "y")
	other := writeText(t, "new.csv", "x,city,one,y\n3,Rome,7,1\n99,Bern,8,2\n,Oslo,7,3\n")
	out := filepath.Join(t.TempDir(), "p.csv")
	for _, args := range [][]string{{"evaluate", model, other}, {"predict", model, other, "-o", out}} {
		r := ok(t, append(args, "--json")...)
		var list []data.Surprise
		if args[0] == "predict" {
			list = objects[tables.PredictResult](t, r.stdout)[0].Surprises
		} else {
			list = objects[tables.EvaluateResult](t, r.stdout)[0].Surprises
		}
		if len(list) != 4 ||
			!strings.Contains(r.stderr, `column "x": 1 value above 9, the end of the training range`) ||
			!strings.Contains(r.stderr, `column "one": 1 value other than "7"`) {
			t.Errorf("%s: %+v\n%s", args[0], list, r.stderr)
		}
		fails(t, 1, `new.csv:3: column "x" is 99, above 9`, append(args, "--strict")...)
		same := ok(t, append(append([]string{args[0], model, table}, args[3:]...), "--strict")...)
		if strings.Contains(same.stderr, "note:") {
			t.Errorf("%s: %s", args[0], same.stderr)
		}
	}
}

// A table as spreadsheets of half of Europe write it, with rows that have no target yet.
func TestDatesCommasAndGaps(t *testing.T) {
	var b strings.Builder
	b.WriteString("Datum;Preis;Notiz;Menge\n")
	for i := range 90 {
		y := fmt.Sprintf("%d,%d", i%7*10, i%10)
		if i%9 == 0 {
			y = ""
		}
		fmt.Fprintf(&b, "%02d.%02d.2024;%d.%03d,50 €;%s %d;%s\n", 1+i%28, 1+i/28, 1+i%3, i*7, []string{"alt",
			"neu"}[i%2], i, y)
	}
	table := writeText(t, "x.csv", b.String())
	out := filepath.Join(t.TempDir(), "m.rf")
	fails(t, 1, `target "Menge" is missing`, "fit", table, "--target", "Menge", "-o", out)
	args := append([]string{"fit", table, "--target", "Menge", "--text", "Notiz", "--drop-missing-target", "-o", out},
		fixedFlags...)
	got := ok(t, args...).stdout
	for _, want := range []string{"80 rows", "Regression of Menge", "time     Datum", "numeric  Preis",
		"text     Notiz",
		"10 rows without a target were left out"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "baseline (mean): 0\n") {
		t.Errorf("the mean is no perfect prediction:\n%s", got)
	}
	r := ok(t, "evaluate", out, table, "--drop-missing-target", "--json")
	if e := objects[tables.EvaluateResult](t, r.stdout)[0]; e.Rows != 80 || e.Dropped != 10 {
		t.Errorf("%+v", e)
	}
	if p := ok(t, "predict", out, table).stdout; strings.Count(p, "\n") != 91 { // they can be predicted
		t.Errorf("%d lines", strings.Count(p, "\n"))
	}
}

// One word among numbers is missing in all folds, also for the one whose model has not seen it; nested values can be
// left out.
func TestStrayValues(t *testing.T) {
	var csv, nd strings.Builder
	csv.WriteString("a,when,y\n")
	for i := range 60 {
		day, a := fmt.Sprintf("0%d/0%d/2024", 1+i%9, 1+i%7), fmt.Sprint(i%9)
		if i == 20 { // tells that days come first
			day = "25/01/2024"
		}
		if i == 40 {
			a = "Total"
		}
		fmt.Fprintf(&csv, "%s,%s,%d.5\n", a, day, i%9)
		fmt.Fprintf(&nd, `{"a":%d,"tags":["x",{"b":[]}],"y":%d.5}`+"\n", i%9, i%9)
	}
	out := filepath.Join(t.TempDir(), "m.rf")
	table := writeText(t, "x.csv", csv.String())
	got := ok(t, append([]string{"fit", table, "--target", "y", "-o", out, "--folds", "5"}, fixedFlags...)...).stdout
	for _, want := range []string{"numeric  a (1 missing)", "time     when", "day-month-year",
		"each was predicted without itself"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	table = writeText(t, "x.ndjson", nd.String())
	fails(t, 1, `:1:15: column "tags" is nested`, "fit", table, "--target", "y", "-o", out)
	ok(t, append([]string{"fit", table, "--target", "y", "--skip", "tags", "-o", out}, fixedFlags...)...)
	if p := ok(t, "predict", out, table).stdout; strings.Count(p, "\n") != 60 {
		t.Errorf("%s", p)
	}
}

// Control characters of a table do not reach the terminal.
func TestControlCharacters(t *testing.T) {
	text := ""
	for i := range 40 {
		text += fmt.Sprintf(`{"a\u001b[31mb":%d,"city":%q,"y":%d.5}`+"\n", i, []string{"Rome", "O\u001b[2Jslo"}[i%2],
			i%7)
	}
	table := writeText(t, "x.ndjson", strings.ReplaceAll(text, `\x1b`, `\u001b`))
	out := filepath.Join(t.TempDir(), "m.rf")
	o := ok(t, append([]string{"fit", table, "--target", "y", "-o", out}, fixedFlags...)...)
	for _, r := range []outcome{o, ok(t, "inspect", out), ok(t, "evaluate", out, table)} {
		if strings.Contains(r.stdout+r.stderr, "\x1b") {
			t.Errorf("%q", r.stdout+r.stderr)
		}
	}
	if !strings.Contains(o.stdout, `a\x1b[31mb`) {
		t.Errorf("%q", o.stdout)
	}
}

// Small things that were wrong.
func TestMessages(t *testing.T) {
	constant := writeText(t, "c.csv", strings.Repeat("7,a,1.5\n7,a,2.5\n", 20))
	out := filepath.Join(t.TempDir(), "m.rf")
	fails(t, 1, `no column is left to predict from: "c1" (constant 7), "c2" (constant "a"), "c3" (the target)`, "fit",
		constant, "--target", "c3", "-o", out)
	var nd strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&nd, "{\"k%d\":1}\n", i)
	}
	fails(t, 1, "k.ndjson:4097:1: 4097 different keys in 4097 rows of some 1: is a value written as a key?", "fit", writeText(t, "k.ndjson", nd.String()), "--target", "k0", "-o",
		out)
	zero := writeText(t, "z.csv", "x,y\n"+strings.Repeat("0,1.5\n5,2.5\n", 20))
	r := ok(t, append([]string{"fit", zero, "--target", "y", "-o", out, "--json"}, fixedFlags...)...).stdout
	of := regexp.MustCompile(`"missing":0,"mean":([0-9.]+),"scale":([0-9.]+),"min":0,"max":5`).FindStringSubmatch(r)
	if of == nil {
		t.Fatalf("zeros are left out: %s", r)
	}
	for _, text := range of[1:] { // sums of rows in another order end in other bits
		if v, err := strconv.ParseFloat(text, 64); err != nil || math.Abs(v-2.5) > 1e-12 {
			t.Errorf("zeros are left out: %s", r)
		}
	}
	if o := call(t, "", "predict", out, zero, "--probabilities"); o.code != 1 || strings.Contains(o.stderr,
		"invalid setup") {
		t.Errorf("%d %s", o.code, o.stderr)
	}
	dir := t.TempDir()
	x := save(t, dir, "x.npy", dense.Matrix[float64]{Rows: 1, Cols: 1, Stride: 1, Data: []float64{60}})
	f := ok(t, "features", x, "--family", "positive", "--kernel", "gaussian", "--projections", "4", "-o",
		filepath.Join(dir, "f.npy"))
	if !strings.Contains(f.stderr, "--log-scale S.npy") {
		t.Errorf("features of 60: %s", f.stderr)
	}
}
