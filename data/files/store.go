package files

import (
	"math"
	"os"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/localfile"
)

// Store reads files that are not in the file system: objects of a bucket, whose names begin with a scheme such
// as s3://. Several goroutines may use it.
type Store interface {
	// List returns the names of all objects below a folder, at any depth, or of those that match a pattern, in
	// any order. The name of one object gives that name, or nothing if there is no such object.
	List(name string) ([]string, error)
	// Size is the number of bytes of an object.
	Size(name string) (int64, error)
	// Open returns its contents. An object is opened several times while it is read, so a store should keep a
	// copy.
	Open(name string) (data.File, error)
}

var (
	storesMu sync.RWMutex
	stores   = map[string]Store{} // by scheme
)

// RegisterStore makes paths with a scheme readable. Programs call it before they open tables.
func RegisterStore(scheme string, s Store) {
	storesMu.Lock()
	defer storesMu.Unlock()
	stores[scheme] = s
}

// storeOf returns the store of a path; nil means the file system. A scheme without a store is an error.
func storeOf(path string) (Store, error) {
	storesMu.RLock()
	defer storesMu.RUnlock()
	if s := stores[localfile.Scheme(path)]; s != nil {
		return s, nil
	}
	if why := localfile.Remote(path); why != "" {
		return nil, &data.InputError{Place: path, Detail: why}
	}
	return nil, nil
}

// inStore reports whether a file is an object in a store.
func inStore(path string) bool { return localfile.Scheme(path) != "" }

// wholeUnit is a unit size that makes each object one unit. Stores deliver objects as a whole, so a worker that
// reads a part of one would have to fetch all of it.
const wholeUnit = math.MaxInt64 / 4

// sizeOf is the number of bytes of a file.
func sizeOf(path string) (int64, error) {
	s, err := storeOf(path)
	if err != nil {
		return 0, err
	}
	if s != nil {
		return s.Size(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// bytesOf opens the bytes of a file.
func bytesOf(path string) (data.File, error) {
	s, err := storeOf(path)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return s.Open(path)
	}
	return os.Open(path)
}

// endsOf is the hash of the ends of a file. Objects have none: it would fetch each of them.
func endsOf(path string, size int64) (string, error) {
	if inStore(path) {
		return "", nil
	}
	f, err := bytesOf(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return localfile.EndsHash(f, size)
}
