package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// What people do first: fit, look at scores, predict, and look into the folder.
func TestCommands(t *testing.T) {
	table, err := writeDemo()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(table)
	dir := t.TempDir()
	model := filepath.Join(dir, "model.rf")
	flags := []string{"--features", "32", "--bandwidth", "1", "--lambda", "1", "--scaling", "standard"}
	code, out, errs := call(t, append([]string{"fit", table, "--target", demoTarget, "--id", demoID, "-o", model,
		"--json"}, flags...)...)
	var fit FitResult
	if err := json.Unmarshal([]byte(out), &fit); code != 0 || err != nil || len(fit.SHA256) != 64 || fit.Bytes == 0 {
		t.Fatalf("fit: %d %v %s%s", code, err, out, errs)
	}
	if code, out, errs = call(t, append([]string{"fit", "--demo"}, flags...)...); code != 0 ||
		!strings.Contains(out, fit.SHA256) {
		t.Errorf("the demo: %d %s%s, want SHA-256 %s", code, out, errs, fit.SHA256)
	}
	if code, out, errs = call(t, "evaluate", model, table); code != 0 || !strings.HasPrefix(out, "2000 rows\n") {
		t.Errorf("evaluate: %d %s%s", code, out, errs)
	}
	folder := filepath.Join(dir, "predictions")
	if code, out, errs = call(t, "predict", model, table, "-o", folder); code != 0 ||
		!strings.HasSuffix(out, "2000 rows in 4 files\n") {
		t.Errorf("predict: %d %s%s", code, out, errs)
	}
	code, _, errs = call(t, "predict", model, table, "-o", folder)
	if code != 1 || !strings.Contains(errs, "not empty") {
		t.Errorf("predict into a folder that has something: %d %s", code, errs)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v: want the model and the predictions alone", left)
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"no data", 2, []string{"fit", "-o", "x.rf"}},
		{"-o is missing", 2, []string{"fit", "x.csv"}},
		{"--family", 2, []string{"fit", "x.csv", "-o", "x.rf", "--family", "none-such"}},
		{"--to", 2, []string{"predict", "x.rf", "x.csv", "-o", "y", "--to", "xml"}},
		{"want a model", 2, []string{"evaluate", "x.rf"}},
		{"none-such.csv", 1, []string{"fit", "none-such.csv", "-o", "x.rf"}},
		{"none-such.rf", 1, []string{"evaluate", "none-such.rf", "x.csv"}},
	} {
		code, _, errs := call(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d, %q; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
