package localfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/randfeat/randfeat/internal/localfile"
)

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Files of dead writers are removed; files of living writers and all others stay.
func TestAtomicFileRemovesOrphans(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd", "netbsd", "openbsd", "dragonfly":
	default:
		t.Skip("no file locks here")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "m.rf")
	keep := []string{".m.rf.tmp", ".m.rf..tmp", ".m.rf.a.b.tmp", ".m.rf.A-.tmp", "m.rf.abc.tmp", ".n.rf.abc.tmp",
		".m.rf.abc", ".m.rf.x.zzz.tmp"}
	for _, name := range append(keep, ".m.rf.abc123.tmp") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	living, err := localfile.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Abort()
	if _, err := living.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	second, err := localfile.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Abort()
	names := strings.Join(listed(t, dir), "\n") + "\n"
	if strings.Contains(names, "abc123") {
		t.Error("the file of a dead writer is still there")
	}
	for _, name := range keep {
		if !strings.Contains(names, name+"\n") {
			t.Errorf("%s is gone", name)
		}
	}
	for _, f := range []*localfile.File{second, living} {
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	if n := len(listed(t, dir)); n != len(keep)+1 {
		t.Errorf("%d files are left, want %d", n, len(keep)+1)
	}
}

// Many writers of one target at once: none takes the file of another for an orphan.
func TestAtomicFileConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for range 25 {
				f, err := localfile.Create(path)
				if err == nil {
					_, err = f.Write([]byte(strings.Repeat(string(rune('a'+w)), 1000)))
				}
				if err == nil {
					err = f.Commit()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 1000 || strings.Count(string(b), string(b[:1])) != 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if names := listed(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left over: %v", names)
	}
}

// A write that failed cannot be committed, even by a caller who did not look.
func TestAtomicFileDoesNotCommitAfterAFailedWrite(t *testing.T) {
	full, err := localfile.Create("/dev/full")
	if errors.Is(err, os.ErrNotExist) || runtime.GOOS != "linux" {
		t.Skip("no /dev/full here")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Write([]byte("x")); err == nil || !strings.Contains(err.Error(),
		"cannot write /dev/full: no space left on device") {
		t.Errorf("write to a full device: %v", err)
	}
	if err := full.Commit(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("commit after it: %v", err)
	}
}

// A folder that does not exist, or is a file, is named.
func TestCannotWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "x"): "the directory " + filepath.Join(dir, "none") + " does not exist",
		filepath.Join(file, "x"):        file + " is not a directory",
	} {
		_, err := localfile.Create(path)
		if err == nil || !strings.Contains(err.Error(), "cannot write "+path+": "+want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// A replaced file keeps its permissions, also those that the umask takes from new files; new files follow the umask.
func TestModesStay(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions here")
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	if path := filepath.Join(dir, "new"); localfile.Write(path, nil) != nil || mode(path) != mode(plain) {
		t.Errorf("a new file has %v, want %v", mode(path), mode(plain))
	}
	for _, want := range []os.FileMode{0o600, 0o640, 0o666, 0o400} {
		path := filepath.Join(dir, "old")
		os.Remove(path)
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, want)); err != nil {
			t.Fatal(err)
		}
		f, err := localfile.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := mode(f.F.Name()); got&^(want|0o200) != 0 {
			t.Errorf("the temporary file of one with %v has %v", want, got)
		}
		if _, err := f.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := mode(path); got != want {
			t.Errorf("%v became %v", want, got)
		}
	}
}

// A symbolic link stays, and the file that it names is replaced or created with its permissions.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.MkdirAll(filepath.Join(real, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"folder": filepath.Join(real, "deep"), "relative": "real/a",
		"chain":   "relative",
		"through": "folder/b", "up": "folder/../c"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	if err := os.WriteFile(filepath.Join(real, "a"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ link, file string }{{"relative", "real/a"}, {"chain", "real/a"},
		{"through", "real/deep/b"},
		{"up", "real/c"}} {
		if err := localfile.Write(filepath.Join(dir, c.link), []byte(c.link)); err != nil {
			t.Error(err)
			continue
		}
		if info, err := os.Lstat(filepath.Join(dir, c.link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is a link no more: %v, %v", c.link, info, err)
		}
		info, err := os.Lstat(filepath.Join(dir, c.file))
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", c.file, info, err)
			continue
		}
		if c.file == "real/a" && info.Mode() != 0o600 {
			t.Errorf("%s has %v", c.file, info.Mode())
		}
		if b, _ := os.ReadFile(filepath.Join(dir, c.file)); string(b) != c.link {
			t.Errorf("%s: %s has %q", c.link, c.file, b)
		}
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := localfile.Write(loop, nil); err == nil || !strings.Contains(err.Error(), "cannot write "+loop) {
		t.Errorf("a loop: %v", err)
	}
}
