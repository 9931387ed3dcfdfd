package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/repro/papers"
)

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		rc   int
		text string
	}{
		{nil, 2, "repro list"},
		{[]string{"walk"}, 2, `unknown command "walk"`},
		{[]string{"run", "nosuch"}, 2, `no item "nosuch", 'repro list' shows all items`},
		{[]string{"run", "simplex-fg4"}, 2, `no item "simplex-fg4", did you mean simplex-fig4?`},
		{[]string{"run", "-resluts", "x"}, 2, "unknown flag -resluts, did you mean -results?"},
		{[]string{"run", "-nosuch"}, 2, "nosuch"},
		{[]string{"list"}, 0, "chefs-table1"},
		{[]string{"run", "chefs-table1", "-data", t.TempDir(), "-cache", ""}, 0, "no abalone/abalone.data"},
	} {
		var out bytes.Buffer
		if rc := run(context.Background(), c.args, &out, &out); rc != c.rc || !strings.Contains(out.String(), c.text) {
			t.Errorf("%v: %d, want %d; %q, want %q", c.args, rc, c.rc, out.String(), c.text)
		}
	}
}

// An item end to end: flags after names, a site, the table of verdicts, and the second run from the cache.
func TestRunWritesSite(t *testing.T) {
	dir := t.TempDir()
	site, md, js := filepath.Join(dir, "site"), filepath.Join(dir, "R.md"), filepath.Join(dir, "R.json")
	var first string
	for range 2 {
		var out, err bytes.Buffer
		args := []string{"run", papers.Smallest, "-out", site, "-explorer=false", "-cache", filepath.Join(dir,
			"cache"), "-results", md, "-json", js}
		if rc := run(context.Background(), args, &out, &err); rc != 0 {
			t.Fatalf("%d: %s", rc, &err)
		}
		text, _, _ := strings.Cut(out.String(), "mode, ")
		if first == "" {
			first = text
		} else if text != first {
			t.Errorf("the second run has\n%s\nthe first\n%s", text, first)
		}
	}
	for _, f := range []string{filepath.Join(site, "index.html"), filepath.Join(site, papers.Smallest+".html"), md,
		js} {
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}
