package httpd

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Memory bounds the bytes that requests hold together.
type Memory struct {
	most    int64
	used    atomic.Int64
	joining sync.Mutex // one long body is joined at a time
}

// NewMemory returns a bound of some bytes.
func NewMemory(bytes int64) *Memory { return &Memory{most: bytes} }

// Take counts n more bytes and reports whether they are within the bound. If not, nothing is counted.
func (m *Memory) Take(n int64) bool {
	for {
		used := m.used.Load()
		if n > m.most-used {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Give returns n bytes.
func (m *Memory) Give(n int64) { m.used.Add(-n) }

// Used is the number of bytes in use.
func (m *Memory) Used() int64 { return m.used.Load() }

// BodyError says why a body was not read. Its message is for the client.
type BodyError struct {
	Status  int
	Code    string // one word for programs
	Message string
	Retry   bool // the same request may succeed later
}

func (e *BodyError) Error() string { return e.Message }

func bodyError(status int, code, format string, args ...any) *BodyError {
	return &BodyError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Full is the error of a request for which Memory has no room.
func (m *Memory) Full() *BodyError {
	e := bodyError(http.StatusTooManyRequests, "busy", "requests with %d bytes are in work: try again later", m.most)
	e.Retry = true
	return e
}

// Stopped is the error of a request that cannot be answered because the server stops.
func Stopped() *BodyError {
	e := bodyError(http.StatusServiceUnavailable, "shutting_down", "the server is shutting down")
	e.Retry = true
	return e
}

// Body is the body of a request. Its bytes are counted until Free.
type Body struct {
	Bytes  []byte
	memory *Memory
	held   int64
}

// Hold counts n more bytes until Free, such as those of values decoded from the body.
func (b *Body) Hold(n int) *BodyError {
	if !b.memory.Take(int64(n)) {
		return b.memory.Full()
	}
	b.held += int64(n)
	return nil
}

// Shrink forgets the bytes and goes on counting n of those that were counted, such as those of the values that were
// decoded from the body.
func (b *Body) Shrink(n int) {
	n64 := min(int64(n), b.held)
	b.memory.Give(b.held - n64)
	b.held, b.Bytes = n64, nil
}

// Free ends the use of the body.
func (b *Body) Free() {
	b.memory.Give(b.held)
	b.held = 0
	if n := cap(b.Bytes); 0 < n && n <= firstBytes {
		bodies.Put(b)
	}
}

const (
	firstBytes = 4 << 10  // memory of a body that has sent nothing
	chunkBytes = 64 << 10 // step of longer bodies: no client gets more memory in advance than this
)

// bodies and chunks are reused. Otherwise each body would leave garbage of its own size.
var (
	bodies = sync.Pool{New: func() any { return &Body{Bytes: make([]byte, 0, firstBytes)} }}
	chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}
)

// ReadBody reads and decompresses the body of a request, at most most bytes before and after decompression. Every
// byte is counted in m before its memory is allocated. If m is full, bodies that have been arriving for longer than
// patience make room: clients that send slowly get 408, and keep nobody out. When the server stops, ReadBody waits for
// Grace, no longer.
func (s *Server) ReadBody(w http.ResponseWriter, r *http.Request, most int64, m *Memory) (*Body, *BodyError) {
	if r.ContentLength > most {
		return nil, bodyError(http.StatusRequestEntityTooLarge, "too_large", "the body has %d bytes, the limit is %d",
			r.ContentLength, most)
	}
	zipped := false
	switch e := r.Header.Get("Content-Encoding"); strings.ToLower(e) {
	case "", "identity":
	case "gzip", "x-gzip":
		zipped = true
	default:
		return nil, bodyError(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Content-Encoding %.40q, want gzip or none", e)
	}
	a := s.arrive(w)
	b, err := s.readBody(a, w, r, zipped, most, m)
	s.arrived(a, err == nil)
	if err != nil {
		return nil, s.refused(err, most)
	}
	return b, nil
}

func (s *Server) readBody(a *arrival, w http.ResponseWriter, r *http.Request, zipped bool, most int64,
	m *Memory) (*Body, error) {
	var in io.Reader = http.MaxBytesReader(w, r.Body, most)
	if zipped {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = z
	}
	b := bodies.Get().(*Body)
	b.memory, b.Bytes = m, b.Bytes[:0]
	hold := func(n int) error {
		for range roomTries {
			if b.Hold(n) == nil {
				a.held.Add(int64(n))
				return nil
			}
			if !s.makeRoom(a) {
				break
			}
			time.Sleep(roomPause)
		}
		return m.Full()
	}
	if err := b.read(in, most, hold); err != nil {
		b.Free()
		return nil, err
	}
	return b, nil
}

var errTooLong = errors.New("too long")

// refused explains an error of reading a body.
func (s *Server) refused(err error, most int64) *BodyError {
	var p *BodyError
	var long *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &long):
		return bodyError(http.StatusRequestEntityTooLarge, "too_large", "the body has more than %d bytes", most)
	case errors.Is(err, errTooLong):
		return bodyError(http.StatusRequestEntityTooLarge, "too_large", "the decompressed body has more than %d bytes",
			most)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return bodyError(http.StatusBadRequest, "bad_body", "the body is not gzip, as Content-Encoding says")
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		if s.Stopping() {
			return Stopped()
		}
		return bodyError(http.StatusRequestTimeout, "timeout", "the body came too slowly")
	}
	// err may contain addresses, which clients must not see.
	return bodyError(http.StatusBadRequest, "bad_body", "the body ended early or cannot be read")
}

// read is io.ReadAll with a bound. The chunks of a long body are joined when it is complete, for one body at a time
// (Memory.joining). This needs the memory of one more body, which is not counted. A growing buffer would instead leave
// twice the body as garbage while slow clients send.
func (b *Body) read(r io.Reader, most int64, hold func(n int) error) error {
	if err := hold(cap(b.Bytes)); err != nil {
		return err
	}
	part := b.Bytes
	var full [][]byte // complete parts before part
	var taken []*[chunkBytes]byte
	defer func() {
		for _, c := range taken {
			chunks.Put(c)
		}
	}()
	total := int64(0) // bytes in full
	for {
		n, err := r.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		if total+int64(len(part)) > most {
			return errTooLong
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(part) == cap(part) {
			if err := hold(chunkBytes); err != nil {
				return err
			}
			c := chunks.Get().(*[chunkBytes]byte)
			full, taken, total = append(full, part), append(taken, c), total+int64(len(part))
			part = c[:0]
		}
	}
	if len(full) == 0 {
		b.Bytes = part
		return nil
	}
	b.memory.joining.Lock()
	defer b.memory.joining.Unlock()
	whole := make([]byte, 0, total+int64(len(part)))
	for _, p := range full {
		whole = append(whole, p...)
	}
	b.Bytes = append(whole, part...)
	b.memory.Give(b.held - int64(cap(b.Bytes))) // never more than was held before
	b.held = int64(cap(b.Bytes))
	return nil
}

// arrival is a body that is being read.
type arrival struct {
	w     http.ResponseWriter
	since time.Time
	held  atomic.Int64 // bytes
	cut   bool         // its connection has a deadline of ours
	room  bool         // it was told to make room
}

const (
	patience  = 2 * time.Second      // that a body may take when memory is full
	roomPause = 5 * time.Millisecond // for a body that was cut to return its memory
	roomTries = 40
)

// makeRoom cuts the largest of the other bodies that have been arriving for longer than patience. It reports whether
// memory will be returned, by this one or by one that was cut before.
func (s *Server) makeRoom(own *arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest *arrival
	for a := range s.arriving {
		switch {
		case a.room:
			return true
		case a == own || time.Since(a.since) < patience || a.held.Load() <= firstBytes:
		case largest == nil || a.held.Load() > largest.held.Load():
			largest = a
		}
	}
	if largest == nil {
		return false
	}
	largest.deadline(time.Now())
	largest.room = largest.cut
	return largest.cut
}

// arrive registers a body that is being read.
func (s *Server) arrive(w http.ResponseWriter) *arrival {
	a := &arrival{w: w, since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arriving == nil {
		s.arriving = map[*arrival]bool{}
	}
	s.arriving[a] = true
	if !s.cut.IsZero() {
		a.deadline(s.cut)
	}
	return a
}

// arrived ends arrive; whole says that all of the body is there.
func (s *Server) arrived(a *arrival, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.arriving, a)
	// net/http goes on reading after a body has ended, to notice when the client leaves. A deadline would look like a
	// client that left, and cancel the request.
	if a.cut && whole {
		_ = http.NewResponseController(a.w).SetReadDeadline(time.Time{})
	}
}

// deadline makes reads of the body fail at a time. Handlers outside of a connection, as in tests, have none.
func (a *arrival) deadline(at time.Time) {
	a.cut = http.NewResponseController(a.w).SetReadDeadline(at) == nil
}

// cutBodies gives all bodies that arrive now or later a deadline.
func (s *Server) cutBodies(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = at
	for a := range s.arriving {
		a.deadline(at)
	}
}
