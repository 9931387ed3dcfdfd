// Package store gives the steps of rfbeam the same access to local files and to objects in buckets. File
// systems of Beam's kind read and write objects: s3:// (s3.go) and gs:// (Beam's own), with credentials and settings
// from the environment.
//
// Objects are always transferred whole, through a local copy. A reader can therefore seek, which Parquet needs, and a
// written object appears in one step, complete or not at all.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs" // gs://

	"github.com/randfeat/randfeat/internal/localfile"
)

// Remote reports whether a path names an object in a bucket.
func Remote(path string) bool { return localfile.Scheme(path) != "" }

// Join is filepath.Join for local paths and objects.
func Join(dir string, elem ...string) string {
	if !Remote(dir) {
		return filepath.Join(append([]string{dir}, elem...)...)
	}
	return strings.TrimRight(dir, "/") + "/" + path.Join(elem...)
}

// Split returns the folder and the last element of a path.
func Split(p string) (dir, base string) {
	if !Remote(p) {
		return filepath.Dir(p), filepath.Base(p)
	}
	p = strings.TrimRight(p, "/")
	i := strings.LastIndexByte(p, '/')
	return p[:i], p[i+1:]
}

// Abs is filepath.Abs for local paths and objects. Names of objects must not contain the characters of patterns,
// because Beam finds objects by pattern.
func Abs(p string) (string, error) {
	if !Remote(p) {
		return filepath.Abs(p)
	}
	bucket, key, _ := strings.Cut(p[len(localfile.Scheme(p))+len("://"):], "/")
	if bucket == "" || key == "" || strings.ContainsAny(p, "*?[\\") {
		return "", fmt.Errorf("%s: want a name such as %s://bucket/folder/name, without *, ?, [ and \\", p, localfile.Scheme(p))
	}
	return strings.TrimRight(p, "/"), nil
}

var (
	systemsMu sync.Mutex
	systems   = map[string]filesystem.Interface{}
)

// system returns Beam's file system of a scheme. It is made once, because making it reads settings and credentials.
func system(ctx context.Context, name string) (s filesystem.Interface, err error) {
	systemsMu.Lock()
	defer systemsMu.Unlock()
	scheme := localfile.Scheme(name)
	if s := systems[scheme]; s != nil {
		return s, nil
	}
	defer func() { // Beam panics if the settings are wrong
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", name, p)
		}
	}()
	if s, err = filesystem.New(context.WithoutCancel(ctx), name); err != nil {
		return nil, fmt.Errorf("%s: objects of %s:// cannot be used: want s3:// or gs://", name, scheme)
	}
	systems[scheme] = s
	return s, nil
}

// escaped returns a name as Beam's file systems expect it: gs parses it as a URL.
func escaped(name string) string {
	if localfile.Scheme(name) != "gs" {
		return name
	}
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(name)
}

// maxDepth is the largest depth of folders below a table.
const maxDepth = 6

// List returns objects, sorted. The name may be a pattern, a folder ending in / (all objects below it, up to
// maxDepth), or the name of one object.
func List(ctx context.Context, name string) ([]string, error) {
	s, err := system(ctx, name)
	if err != nil {
		return nil, err
	}
	patterns := []string{name}
	if strings.HasSuffix(name, "/") {
		patterns = nil
		for depth := range maxDepth {
			patterns = append(patterns, name+strings.Repeat("*/", depth)+"*")
		}
	}
	var out []string
	for _, p := range patterns {
		// Beam takes everything before the first * as a literal prefix, even ? and [. So list with a more general
		// pattern and match below.
		general := p
		if i := strings.IndexAny(p, "?["); i >= 0 && !strings.Contains(p[:i], "*") {
			general = p[:i] + "*" + strings.Repeat("/*", strings.Count(p[i:], "/"))
		}
		found, err := s.List(ctx, escaped(general))
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", name, oneLine(err))
		}
		for _, f := range found {
			if match, err := path.Match(p, f); err != nil {
				return nil, fmt.Errorf("the pattern %s: %w", name, err)
			} else if match {
				out = append(out, f)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// oneLine puts the multi-line errors of cloud clients on one line.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// Exists reports whether a file or object exists.
func Exists(ctx context.Context, name string) (bool, error) {
	if !Remote(name) {
		_, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	found, err := List(ctx, name)
	return len(found) > 0, err
}

// Names returns the paths of the files in a folder, or none if there is no such folder.
func Names(ctx context.Context, dir string) ([]string, error) {
	if Remote(dir) {
		return List(ctx, strings.TrimRight(dir, "/")+"/")
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out, err
}

// fetch copies an object to a local file and checks its size. It returns the ETag, "" if the file system has none.
func fetch(ctx context.Context, name string, to io.Writer) (etag string, err error) {
	s, err := system(ctx, name)
	if err != nil {
		return "", err
	}
	if there, err := Exists(ctx, name); err != nil {
		return "", err
	} else if !there {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	r, err := s.OpenRead(ctx, escaped(name))
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, oneLine(err))
	}
	defer r.Close()
	n, err := io.Copy(to, r)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, oneLine(err))
	}
	if size, err := s.Size(ctx, escaped(name)); err == nil && size != n {
		return "", fmt.Errorf("cannot read %s: %d of %d bytes came", name, n, size)
	}
	if tagged, ok := r.(interface{ ETag() string }); ok {
		etag = tagged.ETag()
	}
	return etag, nil
}

// Get returns the local path of a file: its own, or that of a copy. done removes the copy.
func Get(ctx context.Context, name string) (local string, done func(), err error) {
	if !Remote(name) {
		return name, func() {}, nil
	}
	local, done, err = temporary(name)
	if err != nil {
		return "", nil, err
	}
	f, err := os.Create(local)
	if err == nil {
		_, err = fetch(ctx, name, f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return local, done, nil
}

// temporary returns a path in a new folder, with the base name of an object.
func temporary(name string) (local string, done func(), err error) {
	dir, err := os.MkdirTemp("", tempPrefix+"object-*")
	_, base := Split(name)
	return filepath.Join(dir, base), func() { os.RemoveAll(dir) }, err
}

// ReadFile is os.ReadFile for local paths and objects.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	local, done, err := Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	return os.ReadFile(local)
}

// Put calls write to make a file. For an object, write makes a local file, which is then uploaded; the object
// appears complete or not at all.
func Put(ctx context.Context, name string, write func(local string) error) (err error) {
	if !Remote(name) {
		return write(name)
	}
	s, err := system(ctx, name)
	if err != nil {
		return err
	}
	local, done, err := temporary(name)
	if err != nil {
		return err
	}
	defer done()
	if err := write(local); err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	// Beam creates the object in Close. After an error Close is not called, and the end of the context stops the
	// upload.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.OpenWrite(ctx, escaped(name))
	if err == nil {
		if _, err = io.Copy(w, f); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, oneLine(err))
	}
	return nil
}

// WriteFile writes a file or an object atomically.
func WriteFile(ctx context.Context, name string, b []byte) error {
	return Put(ctx, name, func(local string) error { return localfile.Write(local, b) })
}

// MkdirAll makes a local folder. Buckets need none.
func MkdirAll(dir string) error {
	if Remote(dir) {
		return nil
	}
	return os.MkdirAll(dir, 0o777)
}

// Remove removes a file or an object. A missing one is not an error.
func Remove(ctx context.Context, name string) error {
	if !Remote(name) {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	s, err := system(ctx, name)
	if err != nil {
		return err
	}
	there, err := Exists(ctx, name)
	if err != nil || !there {
		return err
	}
	r, ok := s.(filesystem.Remover)
	if !ok {
		return fmt.Errorf("cannot remove %s: its file system cannot remove objects", name)
	}
	if err := r.Remove(ctx, escaped(name)); err != nil {
		return fmt.Errorf("cannot remove %s: %w", name, oneLine(err))
	}
	return nil
}

// RemoveAll removes a folder and everything below it.
func RemoveAll(ctx context.Context, dir string) error {
	if !Remote(dir) {
		return os.RemoveAll(dir)
	}
	names, err := Names(ctx, dir)
	for _, name := range names {
		err = errors.Join(err, Remove(ctx, name))
	}
	return err
}

// Rename moves a file. Both names must be local, or both objects.
func Rename(ctx context.Context, from, to string) error {
	if !Remote(from) {
		return os.Rename(from, to)
	}
	local, done, err := Get(ctx, from)
	if err != nil {
		return err
	}
	defer done()
	// Not every file system can copy objects of all names, so the object is downloaded and uploaded.
	if err := Put(ctx, to, func(path string) error { return os.Rename(local, path) }); err != nil {
		return err
	}
	return Remove(ctx, from)
}
