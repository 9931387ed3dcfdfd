package store

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
)

func init() {
	for _, scheme := range []string{"s3", "gs"} {
		files.RegisterStore(scheme, Tables)
	}
}

// Tables reads objects for package data/files. It keeps local copies of the last few, because an object is opened
// several times while its rows are read.
var Tables = &tables{}

// mostCopies is the number of copies that are kept. A step reads its objects one after the other.
const mostCopies = 2

type tables struct {
	mu     sync.Mutex
	copies []*object         // least recently used first
	etags  map[string]string // of the objects that were read, to notice that one changes between two passes
}

// object is a local copy of an object. Its file is removed as soon as it is open, so it vanishes with the process,
// however the process ends.
type object struct {
	name    string
	f       *os.File
	size    int64
	readers int
	dropped bool
}

// List implements files.Store.
func (t *tables) List(name string) ([]string, error) { return List(context.Background(), name) }

// Size implements files.Store.
func (t *tables) Size(name string) (int64, error) {
	ctx := context.Background()
	s, err := system(ctx, name)
	if err != nil {
		return 0, err
	}
	if there, err := Exists(ctx, name); err != nil || !there {
		return 0, missing(name, err)
	}
	n, err := s.Size(ctx, escaped(name))
	if err != nil {
		return 0, missing(name, oneLine(err))
	}
	return n, nil
}

func missing(name string, err error) error {
	if err == nil {
		err = os.ErrNotExist
	}
	return &os.PathError{Op: "open", Path: name, Err: err}
}

// Open implements files.Store.
func (t *tables) Open(name string) (data.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.copies {
		if o.name == name {
			t.copies = append(append(t.copies[:i:i], t.copies[i+1:]...), o)
			return t.reader(o), nil
		}
	}
	f, err := os.CreateTemp("", tempPrefix+"object-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // Windows cannot remove an open file: there close removes it
	o := &object{name: name, f: f}
	etag, err := fetch(context.Background(), name, f)
	if err == nil {
		err = t.same(name, etag)
	}
	if err == nil {
		o.size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	if t.copies = append(t.copies, o); len(t.copies) > mostCopies {
		t.drop(t.copies[0])
		t.copies = t.copies[1:]
	}
	return t.reader(o), nil
}

// same checks that an object has the ETag that it had when this process first read it. The caller holds t.mu.
func (t *tables) same(name, etag string) error {
	if t.etags == nil {
		t.etags = map[string]string{}
	}
	if old, ok := t.etags[name]; ok && old != etag {
		return fmt.Errorf("%s has changed since it was first read: its ETag was %s and is %s", name, old, etag)
	}
	t.etags[name] = etag
	return nil
}

// drop forgets a copy. The last reader closes it.
func (t *tables) drop(o *object) {
	if o.dropped = true; o.readers == 0 {
		o.close()
	}
}

func (o *object) close() {
	o.f.Close()
	os.Remove(o.f.Name())
}

// Forget drops all copies and the clients of buckets, so that objects are fetched again, with the settings of now.
func (t *tables) Forget() {
	systemsMu.Lock()
	clear(systems)
	systemsMu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.copies {
		t.drop(o)
	}
	t.copies, t.etags = nil, nil
}

type reader struct {
	*io.SectionReader
	close func()
}

func (r reader) Close() error {
	r.close()
	return nil
}

// reader opens a copy for one reader. The caller holds t.mu.
func (t *tables) reader(o *object) reader {
	o.readers++
	return reader{io.NewSectionReader(o.f, 0, o.size), sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o.readers--; o.readers == 0 && o.dropped {
			o.close()
		}
	})}
}
