package weights

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/randfeat/randfeat/internal/par"
)

// Source is the folder that holds the files of a model: one of the operating system (Folder), or any fs.FS, such as an
// embed.FS. It remembers every byte that readers took from it for [Source.Fingerprint].
type Source struct {
	FS   fs.FS
	Name string // of the folder, for messages

	mu     sync.Mutex
	pieces []piece
	unmap  []func() error
}

// piece is a file that was read.
type piece struct {
	name string
	data []byte
	kept bool // data is a mapping
}

// Folder is the source of a folder of the operating system.
func Folder(path string) *Source { return &Source{FS: os.DirFS(path), Name: path} }

// Bytes is a source of one file that is already in memory. The bytes must not change.
func Bytes(name string, data []byte) *Source {
	return &Source{Name: name, pieces: []piece{{name, data, false}}}
}

// Path returns the name of a file of the source, for messages.
func (s *Source) Path(name string) string { return filepath.Join(s.Name, name) }

// fail names the file of an error as the user does.
func (s *Source) fail(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", s.Path(name), err)
}

func (s *Source) open(name string) (fs.File, int64, error) {
	if s.FS == nil || !fs.ValidPath(name) {
		return nil, 0, s.fail(name, fs.ErrNotExist)
	}
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, 0, s.fail(name, err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != int64(int(info.Size()))) {
		err = fmt.Errorf("not a regular file, or too large: %w", ErrFormat)
	}
	if err != nil {
		f.Close()
		return nil, 0, s.fail(name, err)
	}
	return f, info.Size(), nil
}

// Read returns the bytes of a file of at most most bytes. A file that is not there gives [fs.ErrNotExist].
func (s *Source) Read(name string, most int64) ([]byte, error) {
	f, size, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, fmt.Errorf("%s: %d bytes, want at most %d: %w", s.Path(name), size, most, ErrFormat)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, s.fail(name, err)
	}
	s.add(piece{name, b, false}, nil)
	return b, nil
}

// ReadJSON reads a file of at most most bytes into v. A file that is not there gives [fs.ErrNotExist].
func (s *Source) ReadJSON(name string, most int64, v any) error {
	b, err := s.Read(name, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w: %w", s.Path(name), ErrFormat, err)
	}
	return nil
}

// Has tells whether there is a file.
func (s *Source) Has(name string) bool {
	f, _, err := s.open(name)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// Map returns the contents of a file until Close. Files of the operating system are mapped into memory where it can:
// pages are read when they are used, and processes share them. If another program truncates such a file, this process
// crashes with SIGBUS. Replace files by renaming instead.
func (s *Source) Map(name string) ([]byte, error) {
	for _, p := range s.pieces { // of Bytes
		if p.name == name {
			return p.data, nil
		}
	}
	f, size, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if system, ok := f.(*os.File); ok && size > 0 {
		if data, unmap, err := mapFile(system, int(size)); err == nil {
			s.add(piece{name, data, true}, unmap)
			return data, nil
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return nil, s.fail(name, err)
		}
	}
	var b bytes.Buffer
	b.Grow(int(size))
	if _, err := b.ReadFrom(f); err != nil {
		return nil, s.fail(name, err)
	}
	s.add(piece{name, b.Bytes(), false}, nil)
	return b.Bytes(), nil
}

func (s *Source) add(p piece, unmap func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.pieces {
		if q.name == p.name && !p.kept {
			return // two readers want the same file, for example config.json
		}
	}
	s.pieces = append(s.pieces, p)
	if unmap != nil {
		s.unmap = append(s.unmap, unmap)
	}
}

// Release gives the memory of mapped pages back. They are read again when they are used.
func (s *Source) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pieces {
		if p.kept {
			release(p.data)
		}
	}
}

// Fingerprint is a hash of every byte that was read, with the names of the files, so a change of any weight, token or
// setting changes it. It reads all weights.
func (s *Source) Fingerprint() (sum [sha256.Size]byte) {
	const part = 1 << 22
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces := slices.Clone(s.pieces)
	slices.SortFunc(pieces, func(a, b piece) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	all := sha256.New()
	for _, p := range pieces {
		sums := make([][sha256.Size]byte, (len(p.data)+part-1)/part)
		par.For(len(sums), 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				sums[i] = sha256.Sum256(p.data[i*part : min(len(p.data), (i+1)*part)])
			}
		})
		if len(s.pieces) > 1 { // a file alone may have any name
			fmt.Fprintf(all, "%q ", p.name)
		}
		fmt.Fprintf(all, "%d %x\n", len(p.data), sums)
	}
	all.Sum(sum[:0])
	return sum
}

// Close unmaps the files. Nothing that Map returned may be used afterwards.
func (s *Source) Close() error {
	var errs []error
	for _, unmap := range s.unmap {
		errs = append(errs, unmap())
	}
	s.unmap = nil
	return errors.Join(errs...)
}
