//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// sparse makes a file of 6 GB that occupies no disk: first, then zeros.
func sparse(t *testing.T, path string, first []byte) string {
	t.Helper()
	if err := os.WriteFile(path, first, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 6<<30); err != nil {
		t.Skip(err)
	}
	return path
}

// Files that are something else are refused by their first bytes, or by their length: they cost no memory. So are a
// model that somebody appended gigabytes to, and a device without an end.
func TestHostileFilesCostNoMemory(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	table, model := path("demo.csv"), path("model.rf")
	ok(t, append([]string{"fit", "--demo", "-o", model, "--save-data", table}, quick...)...)
	b, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	x := path("x.npy")
	if err := npy.WriteFile(x, dense.Matrix[float64]{Rows: 3, Cols: 2, Stride: 2,
		Data: []float64{1, 2, 3, 4, 5, 6}}); err != nil {
		t.Fatal(err)
	}
	zeros, long := sparse(t, path("zeros"), nil), sparse(t, path("long.rf"), b)
	npyFile := sparse(t, path("zeros.npy"), nil)
	tensors := sparse(t, path("tensors.safetensors"), []byte("\x00\xe1\xf5\x05\x00\x00\x00\x00"))
	brace := sparse(t, path("brace.json"), []byte(`{"`))
	for _, bad := range []struct{ file, says string }{{zeros, "not a model file"},
		{long, "bytes after the last tensor"},
		{"/dev/zero", "not a regular file"}} {
		for _, args := range [][]string{{"predict", bad.file, table}, {"inspect", bad.file},
			{"evaluate", bad.file, table}, {"explain", bad.file, table}, {"compare", bad.file, model, table},
			{"compare", model, bad.file, table}, {"serve", bad.file, "--addr", "127.0.0.1:0"}} {
			costsNothing(t, bad.says, args...)
		}
	}
	features := []string{"features", x, "-o", path("out.npy"), "--family", "trig"}
	for _, bad := range []string{zeros, brace, "/dev/zero"} {
		costsNothing(t, "specification of a map", "features", x, "-o", path("out.npy"), "--spec", bad)
		costsNothing(t, "choice of attention", "attend", x, x, x, "-o", path("out.npy"), "--spec", bad)
	}
	for _, bad := range []string{npyFile, tensors} {
		costsNothing(t, filepath.Base(bad), append(features, "--omega", bad)...)
		costsNothing(t, filepath.Base(bad), append(features, "--kernel-matrix", bad)...)
		costsNothing(t, filepath.Base(bad), "gram", bad, x, "--family", "trig", "-o", path("out.npy"))
	}
	costsNothing(t, "zeros", append([]string{"fit", table, "--target", "kwh", "-o", path("out.rf"), "--checkpoint",
		zeros}, quick...)...)
	costsNothing(t, "neither text nor a format", append([]string{"fit", "/dev/zero", "--target", "kwh", "-o",
		path("out.rf")}, quick...)...)
	costsNothing(t, "zeros", "explore", "-o", path("out.html"), "--page", zeros)
	for _, bad := range []string{zeros, "/dev/zero"} {
		costsNothing(t, "a file with a token has at most", "serve", model, "--addr", "127.0.0.1:0", "--token-file", bad)
	}
}

// costsNothing runs a command that must fail with a message and must not allocate as much as the file is long.
func costsNothing(t *testing.T, says string, args ...string) {
	t.Helper()
	const most = 256 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := call(t, "", args...)
	runtime.ReadMemStats(&after)
	line := strings.Join(args, " ")
	if o.code == cli.ExitDone || !strings.Contains(o.stderr, says) {
		t.Errorf("randfeat %s: exit %d, %s, want %q", line, o.code, o.stderr, says)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("randfeat %s: allocated %d MiB", line, n>>20)
	}
}
