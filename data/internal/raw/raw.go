// Package raw opens files before their format is known: it decompresses, looks into zip archives and names errors. The
// packages of formats share it.
package raw

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
)

// File is a file, a member of an archive, memory, or a stream.
type File struct {
	Name string
	Size int64 // -1: a stream that can be opened once. 0 also marks files that can be read from their beginning only
	Open func() (io.ReadCloser, error)
}

// Bytes is a file in memory.
func Bytes(name string, b []byte) File {
	return File{name, int64(len(b)), func() (io.ReadCloser, error) { return Memory{bytes.NewReader(b)}, nil }}
}

// Memory is an open file in memory.
type Memory struct{ *bytes.Reader }

// Close does nothing.
func (Memory) Close() error { return nil }

// Joined reads from one reader and closes what is below it.
type Joined struct {
	io.Reader
	Under any // closed if it is an io.Closer
}

// Close closes what is below.
func (j Joined) Close() error {
	if c, ok := j.Under.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Text opens the contents, decompressed.
func (f File) Text() (io.Reader, io.Closer, error) {
	s, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	r, err := Decompress(f.Name, s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return r, s, nil
}

// sampleBytes is how much of a file is inspected to find format, encoding, delimiter, header and the keys of
// NDJSON. It is enough for 200 rows of more than 1 kB.
const sampleBytes = 256 << 10

// Sample reads the beginning of r; whole reports that there is no more.
func Sample(r io.Reader) (sample []byte, whole bool, err error) {
	sample = make([]byte, sampleBytes)
	n, err := io.ReadFull(r, sample)
	if err == io.EOF || err == io.ErrUnexpectedEOF && n > 0 {
		// A cut gzip stream also ends so; then reading the table reports it.
		return sample[:n], true, nil
	}
	return sample[:n], false, err
}

// MaxMembers bounds the arrays of an npz file and the files of an archive, since each costs an open decompressor.
const MaxMembers = 1 << 12

// Zip opens a zip archive, which must be readable at any offset, and checks the number of its files.
func (f File) Zip() (*zip.Reader, io.Closer, error) {
	if f.Size < 0 {
		return nil, nil, Errorf(f.Name, "a zip archive cannot be read from a stream: write it to a file first")
	}
	s, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	at, ok := s.(io.ReaderAt)
	if !ok {
		s.Close()
		return nil, nil, Errorf(f.Name, "a zip archive must not be compressed again")
	}
	z, err := zip.NewReader(at, f.Size)
	if err != nil {
		s.Close()
		detail := fmt.Sprintf("not a readable zip archive: %v", err)
		return nil, nil, &data.InputError{Place: f.Name, Detail: detail, Err: err}
	}
	if len(z.File) > MaxMembers {
		s.Close()
		return nil, nil, Errorf(f.Name, "%d files in the archive, the limit is %d", len(z.File), MaxMembers)
	}
	return z, s, nil
}
