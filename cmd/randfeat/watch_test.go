package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
	"github.com/randfeat/randfeat/machine"
)

// A model of fit carries its reference; watch compares rows with it, or one table with another.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	in := put(t, dir, "shop.csv", shop(400))
	same := put(t, dir, "same.csv", shop(300))
	head, rest, _ := strings.Cut(shop(300), "\n")
	moved := put(t, dir, "moved.csv", head+"\n"+strings.ReplaceAll(rest, "red", "crimson"))
	model := filepath.Join(dir, "m.rf")
	ok(t, "fit", in, "--target", "kind", "--quick", "--model", "logistic", "-o", model)

	r := objects[tables.WatchResult](t, ok(t, "watch", model, same, "--json", "--fail").stdout)[0]
	if r.Changed || r.Rows != 300 || len(r.Expected) == 0 || len(r.Scores) == 0 || r.Model != model {
		t.Errorf("the same kind of rows: %+v", r)
	}
	for _, e := range r.Expected {
		if !(e.Low <= e.Value && e.Value <= e.High && e.AtFit > 0) {
			t.Errorf("expected %+v", e)
		}
	}
	html, svg := filepath.Join(dir, "w.html"), filepath.Join(dir, "w.svg")
	o := call(t, "", "watch", model, moved, "--fail", "--html", html, "--svg", svg)
	if o.code != cli.ExitChanged || !strings.HasPrefix(o.stdout, "Changed: 300 rows") ||
		!strings.Contains(o.stdout, "unknown levels") || !strings.Contains(o.stdout, "Expected accuracy") {
		t.Errorf("levels renamed: exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for path, want := range map[string]string{html: "unknown levels", svg: "<svg"} {
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := ok(t, "watch", "--reference", in, same, "--level", "0.001").stdout; !strings.HasPrefix(got, "No change") {
		t.Errorf("a table against a table: %s", got)
	}
	if got := ok(t, "watch", model, moved, "--reference", in).stdout; !strings.Contains(got, "Expected accuracy") {
		t.Errorf("a model and a reference: %s", got)
	}
	if info := ok(t, "inspect", model).stdout; !strings.Contains(info, "reference of 400 rows") {
		t.Errorf("inspect: %s", info)
	}

	old, _ := saveModel(t, dir, machine.KindLogistic, "kind", shop(200))
	fails(t, 1, "the model has no reference: fit again, or name the old table with --reference", "watch", old, same)
	fails(t, 1, "1 row, a test needs at least", "watch", model, put(t, dir, "one.csv", head+"\n"+
		strings.SplitAfter(rest, "\n")[0]))
	fails(t, 1, "columns missing", "watch", model, put(t, dir, "other.csv", "a,b\n1,2\n"))
	fails(t, 2, "--level is 2", "watch", model, same, "--level", "2")
	fails(t, 2, "would overwrite the input", "watch", model, same, "--html", same)
	fails(t, 2, "is a model: name the new table after it", "watch", "--reference", in, model)
}
