package data

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// AtomicFile collects a file beside its target and moves it there in one step: readers see the old file or the new
// one, and a failure leaves nothing behind. A target that exists and is not a regular file (a pipe, /dev/null) is
// written directly, since it cannot be replaced.
type AtomicFile struct {
	f      *os.File
	target string
	direct bool
	done   bool
}

// CreateAtomic opens a temporary file in the directory of path. The caller must Commit or Abort.
func CreateAtomic(path string) (*AtomicFile, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory, want a file to write", path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &AtomicFile{f: f, target: path, direct: true}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir, base := filepath.Split(path)
	for range 100 {
		// Not os.CreateTemp: its files are private (0600), while a result should follow the umask.
		// The random name is no result, so it needs no seed.
		name := filepath.Join(dir, "."+base+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, cannotWrite(path, err)
		}
		return &AtomicFile{f: f, target: path}, nil
	}
	return nil, fmt.Errorf("cannot write %s: no free name for a temporary file", path)
}

// cannotWrite names the target and not, as err does, the temporary file.
func cannotWrite(path string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}

// Write appends to the temporary file.
func (a *AtomicFile) Write(b []byte) (int, error) {
	n, err := a.f.Write(b)
	if err != nil {
		return n, cannotWrite(a.target, err)
	}
	return n, nil
}

// Commit makes the file durable and moves it to its target. After an error the target is as it was.
func (a *AtomicFile) Commit() error {
	if a.done {
		return nil
	}
	if a.direct {
		a.done = true
		return a.f.Close()
	}
	defer a.Abort()
	if err := a.f.Sync(); err != nil {
		return cannotWrite(a.target, err)
	}
	if err := a.f.Close(); err != nil {
		return cannotWrite(a.target, err)
	}
	if err := os.Rename(a.f.Name(), a.target); err != nil {
		return cannotWrite(a.target, err)
	}
	a.done = true
	syncDir(filepath.Dir(a.target))
	return nil
}

// Abort removes the temporary file. It does nothing after Commit.
func (a *AtomicFile) Abort() {
	if a.done {
		return
	}
	a.done = true
	a.f.Close()
	if !a.direct {
		os.Remove(a.f.Name())
	}
}

// syncDir makes a rename durable where directories can be synced; the data are safe either way.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}
