package search_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/search"
)

var ctx = context.Background()

func write(t *testing.T, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSearch(t *testing.T) {
	m, err := models.Open(tiny.Folder(t, "bert"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	const target = "the words that are looked for, in this order"
	write(t, filepath.Join(dir, "a.txt"), strings.Repeat("some other line of text\n", 50)+"\n"+target+"\n")
	write(t, filepath.Join(dir, "sub", "b.md"), "é é é\n\nunlike the others\n")
	write(t, filepath.Join(dir, "binary"), "a\x00b")
	write(t, filepath.Join(dir, ".hidden"), target)
	read := 0
	count := func(int, int) { read++ }
	x, err := search.Update(ctx, m, dir, nil, count)
	if err != nil || read != 3 {
		t.Fatalf("%d files, %v", read, err)
	}
	// Every passage finds itself, and passages cover their files.
	covered := map[string]int{}
	for _, p := range x.Passages {
		covered[p.File] += p.End - p.Begin
		b, err := os.ReadFile(filepath.Join(dir, p.File))
		if err != nil {
			t.Fatal(err)
		}
		if line := 1 + strings.Count(string(b[:p.Begin]), "\n"); line != p.Line {
			t.Errorf("%+v begins in line %d", p, line)
		}
		hits, err := x.Find(ctx, m, dir, string(b[p.Begin:p.End]), 1)
		if err != nil || len(hits) != 1 || hits[0].Score < 0.9999 {
			t.Errorf("%+v finds %+v (%v)", p, hits, err)
		}
	}
	if covered["a.txt"] < 50*24 || covered["sub/b.md"] == 0 || covered[".hidden"] != 0 || covered["binary"] != 0 {
		t.Errorf("covered %v", covered)
	}
	path := filepath.Join(dir, ".index")
	if err := x.Save(path); err != nil {
		t.Fatal(err)
	}
	y, err := search.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	read = 0
	write(t, filepath.Join(dir, "new.txt"), "a new file")
	z, err := search.Update(ctx, m, dir, y, count)
	if err != nil || read != 1 || len(z.Passages) != len(x.Passages)+1 {
		t.Errorf("%d files read, %d passages, %v", read, len(z.Passages), err)
	}
	hits, err := z.Find(ctx, m, dir, "a new file", 1)
	if err != nil || hits[0].File != "new.txt" || hits[0].Text != "a new file" {
		t.Errorf("%+v, %v", hits, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := len(whole) - 1
	for _, bad := range [][]byte{nil, whole[:last], append(whole[:last:last], whole[last]^1)} {
		write(t, path, string(bad))
		if _, err := search.Open(path); !errors.Is(err, search.ErrIndex) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

// A text without line ends is cut into passages too, between characters.
func TestLongLine(t *testing.T) {
	m, err := models.Open(tiny.Folder(t, "bert"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), strings.Repeat("é", 10000))
	x, err := search.Update(ctx, m, dir, nil, nil)
	if err != nil || len(x.Passages) < 5 {
		t.Fatalf("%+v, %v", x, err)
	}
	hits, err := x.Find(ctx, m, dir, "é", 100)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, h := range hits {
		total += strings.Count(h.Text, "é")
	}
	if total != 10000 {
		t.Errorf("%d characters in passages", total)
	}
}

// An edit that keeps size and time is noticed; a new time alone is not an edit. The nearest passages are those of a
// plain scan.
func TestEdits(t *testing.T) {
	m, err := models.Open(tiny.Folder(t, "bert"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	folder := t.TempDir()
	name, path := filepath.Join(folder, "a.txt"), filepath.Join(t.TempDir(), "index")
	when := time.Unix(1e9, 0)
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	var read int
	update := func(old *search.Index) *search.Index {
		t.Helper()
		read = 0
		x, err := search.Update(t.Context(), m, folder, old, func(int, int) { read++ })
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	write(strings.Repeat("one line of text\n", 500), when)
	x := update(nil)
	if err := x.Save(path); err != nil {
		t.Fatal(err)
	}
	y, err := search.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if update(y) != y || read != 0 {
		t.Errorf("%d files of an unchanged folder were read", read)
	}
	write(strings.Repeat("one line of text\n", 500), when.Add(time.Hour))
	if z := update(y); read != 0 || len(z.Passages) != len(y.Passages) {
		t.Errorf("a new time alone: %d files were embedded", read)
	}
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		write(strings.Repeat("two line of text\n", 500), when)
		if update(y); read != 1 {
			t.Error("an edit of equal size and time was not noticed")
		}
	}
	all, err := y.Find(t.Context(), m, folder, "a text", len(y.Passages))
	if err != nil {
		t.Fatal(err)
	}
	some, err := y.Find(t.Context(), m, folder, "a text", 3)
	descending := func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) }
	if err != nil || !slices.Equal(some, all[:3]) || !slices.IsSortedFunc(all, descending) {
		t.Errorf("%v, %v", some, err)
	}
}
