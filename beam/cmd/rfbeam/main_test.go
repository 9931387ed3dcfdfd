package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/machine/parts"
)

// TestMain keeps temporary files in memory, where the system has a place for such: every step syncs what it writes, and
// tests would wait for the disk most of their time.
func TestMain(m *testing.M) { os.Exit(inMemory(m.Run)) }

func inMemory(run func() int) int {
	if dir, err := os.MkdirTemp("/dev/shm", "rfbeam-test-*"); err == nil {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	return run()
}

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// The first session of a user: fit, look at scores, predict, and look into the folder.
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

// An output that is an input, by whatever name, or that would go with the work folder is refused; the inputs stay.
func TestFitKeepsInputs(t *testing.T) {
	table, err := writeDemo()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(table)
	shard := filepath.Join(table, "part-0.csv")
	before, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := files.Expand(table)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := files.Open(paths, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := parts.NewRun(opened.Manifest(), parts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	folder, work := filepath.Join(dir, "run"), filepath.Join(dir, "work")
	if _, err := parts.CreateFolder(folder, run); err != nil {
		t.Fatal(err)
	}
	hard := filepath.Join(dir, "hard.rf")
	if err := os.Link(shard, hard); err != nil {
		t.Logf("no hard links here: %v", err)
		hard = shard
	}
	fit := []string{"fit", table, "--target", demoTarget}
	for _, args := range [][]string{
		append(fit, "-o", shard),
		append(fit, "-o", table+"/./part-0.csv"),
		append(fit, "-o", hard),
		append(fit, "-o", filepath.Join(work, "model.rf"), "--work", work),
		{"fit", "--run", folder, "-o", shard},
		{"fit", "--run", folder, "-o", filepath.Join(folder, "run.json")},
		{"fit", "--run", folder, "-o", filepath.Join(folder, "plan.safetensors")},
	} {
		code, _, errs := call(t, args...)
		if code != 2 || !strings.Contains(errs, "would be replaced") && !strings.Contains(errs, "removed at the end") {
			t.Errorf("%v: status %d, %q", args, code, errs)
		}
	}
	if after, err := os.ReadFile(shard); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the input has changed: %v", err)
	}
}
