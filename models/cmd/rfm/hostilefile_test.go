//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/models/internal/tiny"
)

// Files that are something else, a session or an index that gigabytes were appended to, and a device without an end are
// refused before they cost memory.
func TestHostileFilesCostNoMemory(t *testing.T) {
	bert, llama, dir := tiny.Folder(t, "bert"), tiny.Folder(t, "llama"), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	sparse := func(name string) string {
		f, err := os.OpenFile(path(name), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(6 << 30); err != nil {
			t.Skip(err)
		}
		return path(name)
	}
	zeros := sparse("zeros")
	texts := path("texts")
	if err := os.Mkdir(texts, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(texts, "a.txt"), []byte("what is looked for"), 0o600); err != nil {
		t.Fatal(err)
	}
	session, index := path("session"), path("index")
	done(t, "", "ask", "--model", llama, "--read", filepath.Join(texts, "a.txt"), "--session", session, "why?", "-n",
		"2")
	done(t, "", "search", bert, texts, "what", "--index", index)
	sparse("session")
	sparse("index")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"not a usable session", []string{"ask", "x", "--session", zeros}},
		{"not the length that the header says", []string{"ask", "x", "--session", session}},
		{"not the length that the header says", []string{"ask", "x", "--session", session, "--model", llama}},
		{"not a regular file", []string{"ask", "x", "--session", "/dev/zero"}},
		{"a text has at most", []string{"ask", "x", "--model", llama, "--session", path("new"), "--read", zeros}},
		{"zero bytes, want a text", []string{"ask", "x", "--model", llama, "--session", path("new"), "--read",
			"/dev/zero"}},
		{"not a usable index", []string{"search", bert, texts, "x", "--index", zeros}},
		{"bytes after the last tensor", []string{"search", bert, texts, "x", "--index", index}},
		{"not a regular file", []string{"search", bert, texts, "x", "--index", "/dev/zero"}},
		{"a calibration of a model has at most", []string{"generate", llama, "x", "--compact", "2",
			"--calibration", zeros}},
		{"does not begin with {", []string{"generate", llama, "x", "--compact", "2", "--calibration", "/dev/zero"}},
		{"not a GGUF file", []string{"info", zeros}},
		{"a file with a token has at most", []string{"serve", bert, "--addr", "127.0.0.1:0", "--token-file",
			"/dev/zero"}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, _, errs := rfm(t, "", c.args...)
		runtime.ReadMemStats(&after)
		if code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("rfm %q: exit %d, %s, want %q", c.args, code, errs, c.says)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
			t.Errorf("rfm %q: allocated %d MiB", c.args, n>>20)
		}
	}
}
