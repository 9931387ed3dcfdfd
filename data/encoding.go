package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"
)

// defaultAssume is the encoding assumed for text that is not UTF-8. Most programs that say Latin-1 write it.
const defaultAssume = "windows-1252"

// textEncoding is an encoding of text: UTF-8 if neither table nor order is set. States compare encodings by
// pointer, so there is one value of each.
type textEncoding struct {
	name  string
	table charTable        // single-byte encodings
	order binary.ByteOrder // UTF-16
}

var (
	utf8Text = &textEncoding{name: "utf-8"}
	utf16LE  = &textEncoding{name: "utf-16le", order: binary.LittleEndian}
	utf16BE  = &textEncoding{name: "utf-16be", order: binary.BigEndian}
)

// encodings lists all supported encodings.
var encodings = append([]*textEncoding{utf8Text, utf16LE, utf16BE}, byteEncodings()...)

// Encodings returns the names of the encodings that can be read, sorted. Names are matched without regard to
// case, blanks and dashes.
func Encodings() []string {
	var out []string
	for _, e := range encodings {
		out = append(out, e.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// KnownEncoding reports whether text in the named encoding can be read.
func KnownEncoding(name string) bool {
	_, err := encodingNamed(name)
	return err == nil
}

// encodingNamed finds an encoding by its name or a common alias.
func encodingNamed(name string) (*textEncoding, error) {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(s))
	}
	key := plain(name)
	switch other := map[string]string{"utf16": "utf16le", "latin1": "iso88591", "l1": "iso88591", "latin2": "iso88592",
		"latin9": "iso885915", "ansi": "windows1252", "ascii": "utf8", "usascii": "utf8"}[key]; {
	case other != "":
		key = other
	case strings.HasPrefix(key, "cp125"):
		key = "windows" + key[2:]
	case strings.HasPrefix(key, "cp"):
		key = "ibm" + key[2:]
	}
	for _, e := range encodings {
		if plain(e.name) == key {
			return e, nil
		}
	}
	return nil, fmt.Errorf("unknown encoding %q: want one of %s", name, strings.Join(Encodings(), ", "))
}

// encodingState is the knowledge about the encoding of an input so far. Text that is ASCII so far fits every encoding;
// the first byte beyond ASCII decides, while the input is read. Readers of one source share the state, hence the atomic
// pointer; it changes once, from nil.
type encodingState struct {
	assume *textEncoding                // if the text turns out not to be UTF-8
	is     atomic.Pointer[textEncoding] // nil: ASCII so far
}

// newEncodingState determines the encoding from the beginning of a file: the option, a byte order mark, zeros
// of UTF-16, or the share of valid UTF-8 sequences.
func newEncodingState(sample []byte, o Options) (*encodingState, error) {
	s := new(encodingState)
	assume := o.Assume
	assume = cmp.Or(assume, defaultAssume)
	var err error
	if s.assume, err = encodingNamed(assume); err != nil {
		return nil, err
	}
	if o.Encoding != "" {
		e, err := encodingNamed(o.Encoding)
		if err == nil && e.order != nil && strings.HasPrefix(string(sample), "\xfe\xff") {
			e = utf16BE
		}
		s.is.Store(e)
		return s, err
	}
	if e := sniffUTF16(sample); e != nil {
		s.is.Store(e)
		return s, nil
	}
	// The sample may end inside a character. If most sequences are valid, the text is UTF-8 with an error,
	// which reading reports with its place.
	good, wrong := 0, 0
	for b := sample[asciiPrefix(sample):]; len(b) > 0; {
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
		s.is.Store(utf8Text)
	default:
		s.is.Store(s.assume)
	}
	return s, nil
}

// sniffUTF16 recognises UTF-16 by its byte order mark, or by zeros in every other byte, which mostly-ASCII text
// has.
func sniffUTF16(b []byte) *textEncoding {
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return utf16LE
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return utf16BE
	}
	b = b[:min(len(b), 1<<12)]
	var zeros [2]int
	for i, c := range b {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case len(b) < 8 || zeros[0] > 0 && zeros[1] > 0:
	case zeros[1] > len(b)/4:
		return utf16LE
	case zeros[0] > len(b)/4:
		return utf16BE
	}
	return nil
}

// name returns the encoding if it is not UTF-8, else "".
func (s *encodingState) name() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil && e != utf8Text {
		return e.name
	}
	return ""
}

// decided returns the encoding of the text, "" if it is ASCII so far.
func (s *encodingState) decided() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil {
		return e.name
	}
	return ""
}

// decodeSample decodes the beginning of a file to UTF-8; whole says that there is no more. A character that the
// end of the sample cuts off is dropped.
func (s *encodingState) decodeSample(name string, sample []byte, whole bool) ([]byte, error) {
	if s.is.Load() == nil && asciiPrefix(sample) == len(sample) {
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
		i := asciiPrefix(b)
		// ASCII so far, or the first byte beyond it belongs to a character that is still incomplete: decide
		// with more input.
		if i == len(b) || !end && !utf8.FullRune(b[i:]) {
			d.ready = b[:i]
			return i, nil
		}
		if e = utf8Text; !valid(b[i:]) {
			e = d.state.assume
		}
		d.state.is.Store(e)
	}
	text, used, wrong := e.decode(&d.out, b, !d.begun, end)
	d.ready, d.begun = text, d.begun || used > 0
	if wrong != "" {
		err = wrongText(d.name, text, d.line+1, d.col, wrong)
	}
	return used, err
}

// decode converts b to UTF-8 and returns the number of bytes used; end means that no more input follows. The
// text is in b (UTF-8) or in the memory of out. wrong describes an invalid byte, which comes directly after the
// returned text.
func (e *textEncoding) decode(out *[]byte, b []byte, first, end bool) (text []byte, used int, wrong string) {
	switch {
	case e.order != nil:
		return e.decode16(out, b, first, end)
	case e.table != nil:
		text = (*out)[:0]
		for i, c := range b {
			r := e.table.DecodeByte(c)
			if r == utf8.RuneError {
				return text, i, fmt.Sprintf("byte 0x%02X is no character of %s", c, e.name)
			}
			text = utf8.AppendRune(text, r)
		}
		*out = text
		return text, len(b), ""
	}
	if utf8.Valid(b) {
		return b, len(b), ""
	}
	i := 0
	for i < len(b) && valid(b[i:]) {
		_, n := utf8.DecodeRune(b[i:])
		i += n
	}
	if !end && !utf8.FullRune(b[i:]) {
		return b[:i], i, ""
	}
	return b[:i], i, fmt.Sprintf("byte 0x%02X is not UTF-8, the encoding of the text before it: correct it, or name "+
		"the encoding of the file", b[i])
}

// valid reports whether b begins with a valid UTF-8 sequence.
func valid(b []byte) bool {
	r, n := utf8.DecodeRune(b)
	return r != utf8.RuneError || n > 1
}

func (e *textEncoding) decode16(out *[]byte, b []byte, first, end bool) (text []byte, used int, wrong string) {
	i := 0
	if first && len(b) >= 2 && e.order.Uint16(b) == 0xfeff {
		i = 2
	}
	text = (*out)[:0]
	for ; i+2 <= len(b); i += 2 {
		r := rune(e.order.Uint16(b[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(b) && !end {
				break
			}
			low := rune(0)
			if i+4 <= len(b) {
				low = rune(e.order.Uint16(b[i+2:]))
			}
			full := utf16.DecodeRune(r, low)
			if full == utf8.RuneError {
				return text, i, fmt.Sprintf("half of a character, 0x%04X, in UTF-16", r)
			}
			r = full
			i += 2
		}
		text = utf8.AppendRune(text, r)
	}
	*out = text
	if end && i < len(b) {
		return text, i, "half of a character at the end, in UTF-16"
	}
	return text, i, ""
}

// wrongText is an error directly after some text that begins at byte col, from 0, of a line.
func wrongText(name string, text []byte, line, col int64, detail string) error {
	col += int64(len(text))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		line += int64(bytes.Count(text, []byte("\n")))
		col = int64(len(text) - i - 1)
	}
	return &InputError{Place: fmt.Sprintf("%s:%d:%d", name, line, col+1), Detail: detail, Err: ErrEncoding}
}

// mixedText is the error for a file whose parts decided on different encodings.
func mixedText(file, one, other string) error {
	return &InputError{Place: file, Err: ErrEncoding,
		Detail: fmt.Sprintf("some of the text is %s and some %s: name the encoding of the file", one, other)}
}
