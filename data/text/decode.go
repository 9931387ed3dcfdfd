package text

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/charset"
)

// defaultAssume is the encoding assumed for text that is not UTF-8. Most programs that say Latin-1 write it.
const defaultAssume = "windows-1252"

// Encodings returns the names of the encodings that can be read, sorted. Names are matched without regard to case,
// blanks and dashes.
func Encodings() []string { return charset.Names() }

// KnownEncoding reports whether text in the named encoding can be read.
func KnownEncoding(name string) bool { return charset.Known(name) }

// encodingState is the knowledge about the encoding of an input so far. Text that is ASCII so far fits every encoding;
// the first byte beyond ASCII decides, while the input is read. Readers of one source share the state, hence the atomic
// pointer; it changes once, from nil.
type encodingState struct {
	assume *charset.Encoding                // if the text turns out not to be UTF-8
	is     atomic.Pointer[charset.Encoding] // nil: ASCII so far
}

// newEncodingState determines the encoding from the beginning of a file: the option, a byte order mark, zeros
// of UTF-16, or the share of valid UTF-8 sequences.
func newEncodingState(sample []byte, o data.Options) (*encodingState, error) {
	s := new(encodingState)
	assume := o.Assume
	assume = cmp.Or(assume, defaultAssume)
	var err error
	if s.assume, err = charset.Named(assume); err != nil {
		return nil, err
	}
	if o.Encoding != "" {
		e, err := charset.Named(o.Encoding)
		if err == nil && e.Wide() && strings.HasPrefix(string(sample), "\xfe\xff") {
			e = charset.UTF16BE
		}
		s.is.Store(e)
		return s, err
	}
	if e := charset.Sniff(sample); e != nil {
		s.is.Store(e)
		return s, nil
	}
	// The sample may end inside a character. If most sequences are valid, the text is UTF-8 with an error,
	// which reading reports with its place.
	good, wrong := 0, 0
	for b := sample[charset.ASCIIPrefix(sample):]; len(b) > 0; {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(b):
			n = len(b)
		case r == utf8.RuneError && n == 1:
			wrong++
		case n > 1:
			good++
		}
		b = b[n:]
	}
	switch {
	case good == 0 && wrong == 0:
	case good >= wrong:
		s.is.Store(charset.UTF8)
	default:
		s.is.Store(s.assume)
	}
	return s, nil
}

// name returns the encoding if it is not UTF-8, else "".
func (s *encodingState) name() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil && e != charset.UTF8 {
		return e.Name
	}
	return ""
}

// decided returns the encoding of the text, "" if it is ASCII so far.
func (s *encodingState) decided() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil {
		return e.Name
	}
	return ""
}

// decodeSample decodes the beginning of a file to UTF-8; whole says that there is no more. A character that the
// end of the sample cuts off is dropped.
func (s *encodingState) decodeSample(name string, sample []byte, whole bool) ([]byte, error) {
	if s.is.Load() == nil && charset.ASCIIPrefix(sample) == len(sample) {
		return sample, nil
	}
	var r io.Reader = bytes.NewReader(sample)
	if !whole {
		r = io.MultiReader(r, more{})
	}
	out, err := io.ReadAll(newDecoder(name, r, s))
	if err == errMore {
		err = nil
	}
	return out, err
}

// more stands for the rest of the file after a sample: its error keeps the decoder from reporting a cut
// character.
type more struct{}

var errMore = errors.New("more follows")

func (more) Read([]byte) (int, error) { return 0, errMore }

// decoder converts text to UTF-8 while it is read. Bytes that are no character of the encoding are errors that
// name their line and byte.
type decoder struct {
	name  string
	r     io.Reader
	state *encodingState

	buf   []byte // read, not yet decoded
	ready []byte // decoded, not yet handed out; in buf or in out
	out   []byte // memory of ready
	line  int64  // line and byte of the next decoded text, from 0
	col   int64
	begun bool // something was decoded: a byte order mark may no longer come
	err   error
}

func newDecoder(name string, r io.Reader, s *encodingState) *decoder {
	return &decoder{name: name, r: r, state: s, buf: make([]byte, 0, 1<<16)}
}

func (d *decoder) Read(p []byte) (int, error) {
	for len(d.ready) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		d.fill()
	}
	n := copy(p, d.ready)
	d.ready = d.ready[n:]
	return n, nil
}

// fill reads and decodes more.
func (d *decoder) fill() {
	n, err := d.r.Read(d.buf[len(d.buf):cap(d.buf)])
	d.buf = d.buf[:len(d.buf)+n]
	d.err = err
	used, problem := d.decode(d.buf, err == io.EOF)
	if problem != nil {
		d.err = problem
	}
	if i := bytes.LastIndexByte(d.ready, '\n'); i >= 0 {
		d.line += int64(bytes.Count(d.ready, []byte("\n")))
		d.col = int64(len(d.ready) - i - 1)
	} else {
		d.col += int64(len(d.ready))
	}
	if used == 0 {
		return
	}
	if len(d.ready) > 0 && &d.ready[0] == &d.buf[0] { // UTF-8 is not copied; its bytes move now
		d.out = append(d.out[:0], d.ready...)
		d.ready = d.out
	}
	d.buf = d.buf[:copy(d.buf, d.buf[used:])]
}

// decode sets ready to the decoded text of b and returns the number of bytes used. end means that no more input
// follows.
func (d *decoder) decode(b []byte, end bool) (used int, err error) {
	e := d.state.is.Load()
	if e == nil {
		i := charset.ASCIIPrefix(b)
		// ASCII so far, or the first byte beyond it belongs to a character that is still incomplete: decide
		// with more input.
		if i == len(b) || !end && !utf8.FullRune(b[i:]) {
			d.ready = b[:i]
			return i, nil
		}
		if e = charset.UTF8; !charset.Valid(b[i:]) {
			e = d.state.assume
		}
		d.state.is.Store(e)
	}
	text, used, wrong := e.Decode(&d.out, b, !d.begun, end)
	d.ready, d.begun = text, d.begun || used > 0
	if wrong != "" {
		err = wrongText(d.name, text, d.line+1, d.col, wrong)
	}
	return used, err
}

// wrongText is an error directly after some text that begins at byte col, from 0, of a line.
func wrongText(name string, text []byte, line, col int64, detail string) error {
	col += int64(len(text))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		line += int64(bytes.Count(text, []byte("\n")))
		col = int64(len(text) - i - 1)
	}
	return &data.InputError{Place: fmt.Sprintf("%s:%d:%d", name, line, col+1), Detail: detail, Err: data.ErrEncoding}
}
