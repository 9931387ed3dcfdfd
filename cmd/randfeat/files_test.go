package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
)

// Several files are one table: by names, a pattern and a directory, in CSV and with columns in another order; the model
// is the same, predictions come in the order of the rows, and a file at fault is named.
func TestManyFiles(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	dir := t.TempDir()
	text := shop(240)
	lines := strings.SplitAfter(text, "\n")
	header, rows := lines[0], lines[1:]
	parts := filepath.Join(dir, "parts")
	if err := os.Mkdir(parts, 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, cut := range [][2]int{{0, 20}, {20, 200}, {200, 240}} {
		part := header + strings.Join(rows[cut[0]:cut[1]], "")
		names = append(names, put(t, parts, "p"+string(rune('0'+i))+".csv", part))
	}
	model := func(data ...string) []byte {
		t.Helper()
		out := filepath.Join(dir, "model.rf")
		ok(t, append(append([]string{"fit"}, data...), "--target", "price", "--skip", "kind", "--skip", "d", "--id",
			"id", "--features", "16", "--bandwidth", "1", "--lambda", "1", "--map", "random", "--family", "trig",
			"--coupling", "orthogonal", "--folds", "2", "-o", out)...)
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := model(names...)
	if !bytes.Equal(model(filepath.Join(parts, "p*.csv")), want) || !bytes.Equal(model(parts), want) {
		t.Error("a pattern or a directory gives another model than the names")
	}
	one := put(t, dir, "one.csv", text)
	predict := func(data ...string) string {
		t.Helper()
		args := []string{"predict", filepath.Join(dir, "model.rf"), "--skip", "price,kind,d"}
		return ok(t, append(args, data...)...).stdout
	}
	if a, b := predict(names...), predict(one); a != b {
		t.Errorf("predictions of three files:\n%s\nof one:\n%s", a, b)
	}
	var a, b tables.EvaluateResult
	for r, data := range map[*tables.EvaluateResult][]string{&a: {parts}, &b: {one}} {
		args := []string{"evaluate", filepath.Join(dir, "model.rf"), "--skip", "kind,d", "--json"}
		o := ok(t, append(args, data...)...)
		if err := json.Unmarshal([]byte(o.stdout), r); err != nil {
			t.Fatal(err)
		}
	}
	if a.Rows != 240 || a.Rows != b.Rows || len(a.Scores) == 0 || a.Scores[0] != b.Scores[0] ||
		!strings.Contains(a.Data, "(3 files)") {
		t.Errorf("%+v of three files, %+v of one", a, b)
	}

	put(t, parts, "p3.csv", "id,size,colour,cost,kind,d\n1,2,red,3,cheap,0\n")
	fails(t, exitFailed, `p3.csv: no column "price"`, "fit", parts, "--target", "price", "-o",
		filepath.Join(dir, "x.rf"))
	put(t, parts, "p3.csv", "id,size,colour,price,kind,d\n1,big,red,3,cheap,0\n")
	fails(t, exitFailed, "p3.csv", "fit", parts, "--target", "price", "-o", filepath.Join(dir, "x.rf"))
	fails(t, exitFailed, "p0.csv", "fit", parts, "--target", "price", "-o", filepath.Join(dir, "x.rf"))
	fails(t, exitFailed, "no file matches", "fit", filepath.Join(dir, "none-*.csv"), "--target", "price", "-o",
		filepath.Join(dir, "x.rf"))
	fails(t, exitMisuse, "cannot be one of several", "predict", filepath.Join(dir, "model.rf"), one, "-")
	if _, err := os.Stat(filepath.Join(dir, "x.rf")); err == nil {
		t.Error("a model was written")
	}
}
