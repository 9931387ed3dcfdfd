// Package datasets lists the public data sets that tests, benchmarks and the laboratory read: origin, licence,
// and the SHA-256 of every file in the form that our code reads. The files themselves are not in the
// repository. They lie in a folder that --data or RANDFEAT_DATA names; [Fetcher] downloads those that have a
// public copy, and [File.Verify] checks them.
package datasets

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxDownload bounds one download: about five times the largest.
const maxDownload = 1 << 26

// Variable is the environment variable that names the folder of the data sets.
const Variable = "RANDFEAT_DATA"

// Set is a data set.
type Set struct {
	Name    string `json:"name"`           // name for data fetch
	Title   string `json:"title"`          // full name
	Size    string `json:"size"`           // rows × columns × classes
	Origin  string `json:"origin"`         // who publishes it
	Page    string `json:"page,omitempty"` // where the origin describes it
	Licence string `json:"licence"`        // licence of the data
	// Source is the copy that the checksums were measured on, and how it was changed.
	Source string `json:"source"`
	Files  []File `json:"files"` // files with size and checksum
}

// File is one file of a set.
type File struct {
	Path   string `json:"path"` // in the folder of the data sets, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Content is the SHA-256 of the decompressed contents of a file that ends in .gz: the same contents may be
	// compressed in other ways.
	Content string `json:"content,omitempty"`
	// URLs are alternatives that Fetcher downloads; the first that works counts.
	URLs []string `json:"urls,omitempty"`
	// Why says why there is nothing to download.
	Why string `json:"why,omitempty"`

	convert func([]byte) ([]byte, error) // from the download to the file before compression; nil: unchanged
}

// In returns the path of the file in a folder of data sets.
func (f File) In(dir string) string { return filepath.Join(dir, filepath.FromSlash(f.Path)) }

// compressed reports whether our code decompresses the file when it reads it.
func (f File) compressed() bool { return strings.HasSuffix(f.Path, ".gz") }

// State is the result of Verify.
type State string

// The states.
const (
	OK      State = "ok"      // the bytes that the checksums were measured on, or the same content compressed otherwise
	Missing State = "missing" // there is no such file
	Differs State = "differs" // other contents: results will differ
)

// maxContent bounds the bytes read from a file or its decompressed contents: about ten times the largest.
const maxContent = 1 << 29

// Verify compares a file in a folder with its checksum. The error is a failure to read.
func (f File) Verify(dir string) (State, error) {
	file, err := os.Open(f.In(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing, nil
	case err != nil:
		return "", err
	}
	defer file.Close()
	return f.check(file)
}

// check compares the contents of r with the checksums.
func (f File) check(r io.ReadSeeker) (State, error) {
	sum, err := digest(r)
	switch {
	case err != nil:
		return "", err
	case sum == f.SHA256:
		return OK, nil
	case f.Content == "":
		return Differs, nil
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return Differs, nil
	}
	if sum, err := digest(z); err != nil || sum != f.Content {
		return Differs, nil // a file that cannot be decompressed differs, too
	}
	return OK, nil
}

func digest(r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, maxContent+1))
	if err != nil {
		return "", err
	}
	if n > maxContent {
		return "", nil // equals no checksum
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
