//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// Every command that writes a file keeps the permissions of the file that it replaces, and writes through a link.
func TestOutputsKeepModesAndLinks(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	table, model, x := path("demo.csv"), path("model.rf"), path("x.npy")
	fit := append([]string{"fit", "--demo", "--save-data", table, "-o", model}, quick...)
	ok(t, fit...)
	one := dense.Matrix[float64]{Rows: 3, Cols: 2, Stride: 2, Data: []float64{1, 2, 3, 4, 5, 6}}
	if err := npy.WriteFile(x, one); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		append([]string{"fit", table, "--target", "kwh", "-o", "OUT"}, quick...),
		append([]string{"fit", "--demo", "-o", path("other.rf"), "--save-data", "OUT"}, quick...),
		{"predict", model, table, "-o", "OUT.csv"},
		{"predict", model, table, "-o", "OUT.parquet"},
		{"predict", model, table, "--ids", "hour", "-o", "OUT.npy"},
		{"predict", model, table, "--ids", "hour", "-o", "OUT.npz"},
		{"features", x, "--family", "trig", "-o", "OUT"},
		{"gram", x, x, "--family", "trig", "-o", "OUT"},
		{"attend", x, x, x, "-o", "OUT"},
		{"attend", x, x, x, "-o", path("y.npy"), "--save-spec", "OUT"},
	} {
		i := slices.IndexFunc(args, func(s string) bool { return len(s) > 2 && s[:3] == "OUT" })
		link := path("link" + args[i][3:])
		args[i] = link
		file := path("file")
		os.Remove(link)
		if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("file", link); err != nil {
			t.Skip(err)
		}
		ok(t, args...)
		info, err := os.Lstat(file)
		if err != nil || info.Mode() != 0o600 || info.Size() == 3 {
			t.Errorf("%v: %v, %v", args, info.Mode(), err)
		}
		if to, err := os.Readlink(link); err != nil || to != "file" {
			t.Errorf("%v: the link goes to %q, %v", args, to, err)
		}
	}
}
