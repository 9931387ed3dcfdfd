package datasets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	names, paths := map[string]bool{}, map[string]bool{}
	for _, s := range List() {
		if names[s.Name] {
			t.Errorf("two sets %s", s.Name)
		}
		names[s.Name] = true
		for what, text := range map[string]string{"title": s.Title, "size": s.Size, "origin": s.Origin,
			"licence": s.Licence, "source": s.Source} {
			if text == "" {
				t.Errorf("%s has no %s", s.Name, what)
			}
		}
		if len(s.Files) == 0 {
			t.Errorf("%s has no files", s.Name)
		}
		for _, f := range s.Files {
			if paths[f.Path] || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
				t.Errorf("path %q", f.Path)
			}
			paths[f.Path] = true
			if len(f.SHA256) != 64 || f.Bytes < 1 || f.Bytes > maxDownload || f.compressed() != (len(f.Content) == 64) {
				t.Errorf("%s: %+v", f.Path, f)
			}
			if (len(f.URLs) == 0) != (f.Why != "") {
				t.Errorf("%s: addresses %v, and the reason for none %q", f.Path, f.URLs, f.Why)
			}
			for _, u := range f.URLs {
				if p, err := url.Parse(u); err != nil || p.Scheme != "https" {
					t.Errorf("%s: address %s (%v)", f.Path, u, err)
				}
			}
			if set, same, err := Lookup(f.Path); err != nil || set.Name != s.Name || same.SHA256 != f.SHA256 {
				t.Errorf("Lookup(%s): %v %v", f.Path, set.Name, err)
			}
		}
		if found, err := Find(s.Name); err != nil || found.Title != s.Title {
			t.Errorf("Find(%s): %v", s.Name, err)
		}
	}
	if _, err := Find("abalon"); err == nil || !strings.Contains(err.Error(), "did you mean abalone?") {
		t.Errorf("Find(abalon): %v", err)
	}
	if _, _, err := Lookup("nothing"); err == nil {
		t.Error("Lookup finds what is not there")
	}
}

// The files at hand are those of the list.
func TestVerifyAtHand(t *testing.T) {
	dir := os.Getenv(Variable)
	if dir == "" || testing.Short() {
		t.Skip(Variable + " is not set: it names a folder with the public data sets")
	}
	for _, s := range List() {
		for _, f := range s.Files {
			state, err := f.Verify(dir)
			if err != nil || state == Differs {
				t.Errorf("%s: %s %v", f.Path, state, err)
			}
			if state == Missing {
				t.Logf("%s is not there", f.Path)
			}
		}
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func zipped(t *testing.T, b []byte, level int) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(b)
	w.Close()
	return z.Bytes()
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	text := bytes.Repeat([]byte("1,2,3\n"), 1000)
	best := zipped(t, text, gzip.BestCompression)
	f := File{Path: "a/b.csv.gz", SHA256: sum(best), Content: sum(text)}
	expect := func(want State) {
		t.Helper()
		if got, err := f.Verify(dir); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(f.In(dir), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	expect(Missing)
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(best)
	expect(OK)
	stored := zipped(t, text, gzip.NoCompression)
	put(stored)
	expect(OK)
	put(stored[:len(stored)-20])
	expect(Differs)
	put(text)
	expect(Differs)
	put(zipped(t, text[1:], gzip.BestCompression))
	expect(Differs)
	f.Content = ""
	put(stored)
	expect(Differs)
}
