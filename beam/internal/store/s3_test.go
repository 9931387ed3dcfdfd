package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/beam/internal/fakes3"
)

// server starts a server, with a client of its own.
func server(t *testing.T) *fakes3.Server {
	s := fakes3.Start(t)
	Tables.Forget()
	t.Cleanup(Tables.Forget)
	return s
}

// Objects of one part and of several, with names that URLs escape.
func TestObjects(t *testing.T) {
	server(t)
	ctx := t.Context()
	r := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]int{"s3://b/empty": 0, "s3://b/folder/a b%3A?#": 1000,
		"s3://b/folder/one":   partSize,
		"s3://b/folder/parts": 2*partSize + 7} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		if err := WriteFile(ctx, name, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFile(ctx, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), size, err)
		}
	}
	names, err := Names(ctx, "s3://b/folder")
	if want := []string{"s3://b/folder/a b%3A?#", "s3://b/folder/one", "s3://b/folder/parts"}; err != nil ||
		!slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
	if err := RemoveAll(ctx, "s3://b/folder"); err != nil {
		t.Fatal(err)
	}
	if names, err = Names(ctx, "s3://b/folder"); err != nil || len(names) > 0 {
		t.Errorf("%q are left, %v", names, err)
	}
	if _, err := ReadFile(ctx, "s3://b/folder/one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that was removed: %v", err)
	}
}

// Storage that fails 30 % of the requests is survived in seconds. Storage that always fails, or so often that the
// pauses would take longer than the limit, is an error that says so.
func TestFailingRequests(t *testing.T) {
	s := server(t)
	r := rand.New(rand.NewPCG(3, 4))
	s.Fail = func(*http.Request) bool { return r.Float64() < 0.3 }
	began := time.Now()
	for i := range 60 {
		name := fmt.Sprintf("s3://b/%d", i)
		if err := WriteFile(t.Context(), name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadFile(t.Context(), name); err != nil || string(b) != name {
			t.Fatalf("%s: %q, %v", name, b, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second || s.Failed < 40 {
		t.Errorf("%d of %d requests failed, it took %v", s.Failed, s.Requests, took)
	}
	s.Fail = func(*http.Request) bool { return true }
	began = time.Now()
	if err := WriteFile(t.Context(), "s3://b/x", nil); err == nil ||
		!strings.Contains(err.Error(), "cannot write s3://b/x") ||
		!strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("a server that always fails: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a server that always fails took %v", took)
	}
	defer func(most time.Duration) { retryTime = most }(retryTime)
	retryTime = 200 * time.Millisecond
	Tables.Forget()
	_, err := ReadFile(t.Context(), "s3://b/1")
	if err == nil || !strings.Contains(err.Error(),
		"the storage fails too often: 2 requests were repeated, with pauses of 150ms, at most 200ms") {
		t.Errorf("with a limit of .2 s: %v", err)
	}
}

// An answer whose ETag is that of other contents is an error, of reads and writes, whole and in parts.
func TestWrongETag(t *testing.T) {
	s := server(t)
	ctx := t.Context()
	wrong := func(_ *http.Request, etag string) string { return "0" + etag[:31] + etag[32:] }
	large := make([]byte, partSize+1)
	s.Put("b/x", []byte("contents"))
	s.Tag = wrong
	if _, err := ReadFile(ctx, "s3://b/x"); err == nil || !strings.Contains(err.Error(), "the object is damaged") {
		t.Errorf("reading: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("contents"), large} {
		if err := WriteFile(ctx, "s3://b/y", b); err == nil || !strings.Contains(err.Error(), "the object is damaged") {
			t.Errorf("writing %d bytes: %v", len(b), err)
		}
	}
	// An ETag that is no MD5 says nothing about the contents.
	s.Tag = func(*http.Request, string) string { return "version-7" }
	if err := WriteFile(ctx, "s3://b/y", []byte("z")); err != nil {
		t.Error(err)
	}
	if b, err := ReadFile(ctx, "s3://b/y"); err != nil || string(b) != "z" {
		t.Errorf("%q, %v", b, err)
	}
}

// A table that changes between two passes is noticed.
func TestTableChanges(t *testing.T) {
	s := server(t)
	read := func(name string) (string, error) {
		f, err := Tables.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return string(b), err
	}
	s.Put("b/0", []byte("old"))
	for i := range mostCopies + 1 { // more than are kept, so that the first is fetched again
		s.Put(fmt.Sprintf("b/%d", i), []byte("old"))
		if b, err := read(fmt.Sprintf("s3://b/%d", i)); err != nil || b != "old" {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if b, err := read("s3://b/0"); err != nil || b != "old" {
		t.Errorf("the same contents again: %q, %v", b, err)
	}
	for i := range mostCopies + 1 {
		s.Put(fmt.Sprintf("b/%d", i), []byte("new"))
	}
	for i := range mostCopies + 1 {
		b, err := read(fmt.Sprintf("s3://b/%d", i))
		if b != "old" && (err == nil || !strings.Contains(err.Error(), "has changed since it was first read")) {
			t.Errorf("object %d: %q, %v", i, b, err)
		}
	}
}

// Work folders of killed runs are removed by the next run, those of living runs and all others stay.
func TestSweep(t *testing.T) {
	s := server(t)
	old := func(name string) bool { return strings.Contains(name, "old") }
	s.Age = func(name string) time.Duration {
		if old(name) {
			return SweepAge + time.Hour
		}
		return SweepAge - time.Hour
	}
	names := []string{"b/m/.model.rf.work-0123/fit/old-1", "b/m/.model.rf.work-0123/old",
		"b/m/.model.rf.work-4567/fit/old-1",
		"b/m/.model.rf.work-4567/fit/new", "b/m/.other.rf.work-0123/fit/old-1", "b/m/old", "b/m/model.rf"}
	for _, name := range names {
		s.Put(name, nil)
	}
	dir, err := WorkDir(t.Context(), "s3://b/m/model.rf")
	if err != nil || !strings.HasPrefix(dir, "s3://b/m/.model.rf.work-") {
		t.Errorf("%q, %v", dir, err)
	}
	if got := s.Names(); !slices.Equal(got, slices.Sorted(slices.Values(names[2:]))) {
		t.Errorf("%q are left", got)
	}

	local := t.TempDir()
	t.Setenv("TMPDIR", local)
	long := time.Now().Add(-SweepAge - time.Hour)
	put := func(name string, at time.Time) {
		path := filepath.Join(local, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for ; path != local; path = filepath.Dir(path) {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{".model.rf.work-1/fit/a", ".other.rf.work-1/fit/a", "rfbeam-1/rfbeam-object-2/a",
		"rfbeam-object-3/a", "another-4/a", "model.rf"} {
		put(name, long)
	}
	put(".model.rf.work-2/fit/a", long)
	put(".model.rf.work-2/fit/b", time.Now())
	put("rfbeam-object-4/a", time.Now())
	SweepTemp()
	if dir, err = WorkDir(t.Context(), filepath.Join(local, "model.rf")); err != nil {
		t.Fatal(err)
	}
	os.Remove(dir)
	entries, err := os.ReadDir(local)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".model.rf.work-2", ".other.rf.work-1", "another-4", "model.rf", "rfbeam-object-4"}
	if !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q", left, want)
	}
}
