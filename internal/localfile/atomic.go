package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// File writes a temporary file next to its target and renames it in one step. Readers see the old file or the new
// one, and a failure leaves the target unchanged. A target that is not a regular file (a pipe, /dev/null) is written
// directly, because it cannot be replaced.
//
// A file that is replaced keeps its permissions; a new file has those of the umask. A symbolic link is followed: the
// file that it names is replaced or created, and the link stays.
//
// A killed process leaves its temporary file behind: a dot, the target's name, a random part and .tmp. The next
// Create of the same target removes it on systems with file locks. A file that another process is still writing
// is locked and stays.
type File struct {
	F      *os.File
	target string
	mode   fs.FileMode // permissions of the file that is replaced; 0 if there is none
	Direct bool
	done   bool
	failed error // the first failed write: there is nothing to commit
}

// Create opens a temporary file in the directory of path. The caller must Commit or Abort.
func Create(path string) (*File, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory, want a file to write", path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{F: f, target: path, Direct: true}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, CannotWrite(path, err)
	}
	target, err := follow(path)
	if err != nil {
		return nil, CannotWrite(path, err)
	}
	var mode fs.FileMode
	if info != nil {
		mode = info.Mode().Perm()
	}
	removeOrphans(target)
	for range 100 {
		f, err := createTemporary(target, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, CannotWrite(target, err)
		}
		return &File{F: f, target: target, mode: mode}, nil
	}
	return nil, fmt.Errorf("cannot write %s: no free name for a temporary file", path)
}

// follow returns the path that a chain of symbolic links ends in, whether or not there is a file. Directories on the
// way may be links as well, so paths are joined as they are: to clean x/../y would drop the link x.
func follow(path string) (string, error) {
	for range 40 {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // the caller finds other errors
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			dir, _ := filepath.Split(path)
			link = dir + link
		}
		path = link
	}
	return "", errors.New("too many symbolic links")
}

// createTemporary opens and locks a new file beside path, which replaces a file with the given permissions. It returns
// fs.ErrExist if another name may work.
func createTemporary(path string, mode fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(path)
	// Not os.CreateTemp: its files are private (0600), while a result should follow the umask.
	// The random name is no result, so it needs no seed.
	name := filepath.Join(dir, "."+base+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
	perm := fs.FileMode(0o666)
	if mode != 0 {
		perm = mode | 0o200 // never more readable than the old file; writable, so that an orphan can be locked
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	lock(f)
	// Between creating and locking, another process may have locked the file and removed it as an orphan.
	if !isAt(f, name) {
		f.Close()
		return nil, fs.ErrExist
	}
	return f, nil
}

// isAt reports whether name still refers to the open file f.
func isAt(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(name)
	return err == nil && os.SameFile(a, b)
}

// removeOrphans removes the temporary files of path whose writers are gone. Errors do not matter, because
// nothing depends on it.
func removeOrphans(path string) {
	if !haveLocks {
		return
	}
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "."+base+".")
		random, ok2 := strings.CutSuffix(rest, ".tmp")
		if _, err := strconv.ParseUint(random, 36, 64); !ok || !ok2 || err != nil || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		if tryLock(f) && isAt(f, name) {
			os.Remove(name)
		}
		f.Close()
	}
}

// CannotWrite returns an error that names the target instead of the temporary file in err.
func CannotWrite(path string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	dir := filepath.Dir(path)
	info, missing := os.Stat(dir)
	switch {
	case errors.Is(missing, fs.ErrNotExist):
		err = noFolder{fmt.Sprintf("the directory %s does not exist", dir), err}
	case missing == nil && !info.IsDir():
		err = noFolder{dir + " is not a directory", err}
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}

// noFolder says in text why a folder cannot hold a file. It wraps the error of the operating system.
type noFolder struct {
	text string
	err  error
}

func (e noFolder) Error() string { return e.text }
func (e noFolder) Unwrap() error { return e.err }

// Write appends to the temporary file.
func (a *File) Write(b []byte) (int, error) {
	n, err := a.F.Write(b)
	if err != nil {
		err = CannotWrite(a.target, err)
		if a.failed == nil {
			a.failed = err
		}
	}
	return n, err
}

// Commit syncs the file and renames it to its target. After an error, including an error of an earlier Write, the
// target is unchanged.
func (a *File) Commit() error {
	if a.done {
		return nil
	}
	// If anything below fails, Abort removes the temporary file.
	defer a.Abort()
	if a.failed != nil {
		return a.failed
	}
	if a.Direct {
		a.done = true
		if err := a.F.Close(); err != nil {
			return CannotWrite(a.target, err)
		}
		return nil
	}
	if a.mode != 0 {
		// The umask may have taken bits away. File systems without permissions refuse, and have none to keep.
		_ = a.F.Chmod(a.mode)
	}
	if err := a.F.Sync(); err != nil {
		return CannotWrite(a.target, err)
	}
	// Closing releases the lock, so it comes last on systems that can rename open files.
	if !haveLocks {
		if err := a.F.Close(); err != nil {
			return CannotWrite(a.target, err)
		}
	}
	if err := os.Rename(a.F.Name(), a.target); err != nil {
		return CannotWrite(a.target, err)
	}
	a.done = true
	a.F.Close()
	syncDir(filepath.Dir(a.target))
	return nil
}

// Abort removes the temporary file. It does nothing after Commit.
func (a *File) Abort() {
	if a.done {
		return
	}
	a.done = true
	if !a.Direct {
		if haveLocks {
			os.Remove(a.F.Name())
			a.F.Close()
		} else {
			a.F.Close()
			os.Remove(a.F.Name())
		}
		return
	}
	a.F.Close()
}

// Write writes a complete file in one step; see [File].
func Write(path string, b []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Commit()
}

// syncDir makes a rename durable if directories can be synced; the data are safe either way.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}
