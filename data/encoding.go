package data

import (
	"bytes"
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

// DefaultAssume is the encoding of text that is not UTF-8: what most programs mean by Latin-1.
const DefaultAssume = "windows-1252"

// textEncoding is how a file stores its text.
type textEncoding struct {
	name  string
	table charTable        // one byte a character
	order binary.ByteOrder // UTF-16
}

var (
	utf8Text = &textEncoding{name: "utf-8"}
	utf16LE  = &textEncoding{name: "utf-16le", order: binary.LittleEndian}
	utf16BE  = &textEncoding{name: "utf-16be", order: binary.BigEndian}
)

// encodings are all that are known, by name.
var encodings = append([]*textEncoding{utf8Text, utf16LE, utf16BE}, byteEncodings()...)

// Encodings are the names of the encodings of text that can be read; case, blanks and dashes do not matter.
func Encodings() []string {
	var out []string
	for _, e := range encodings {
		out = append(out, e.name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// KnownEncoding reports whether text of an encoding can be read.
func KnownEncoding(name string) bool {
	_, err := encodingNamed(name)
	return err == nil
}

// encodingNamed finds an encoding by its name or a usual other one.
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

// encodingState is the encoding of an input as far as it is known. Text that is ASCII so far fits several encodings;
// the first byte beyond ASCII decides, while the input is read.
type encodingState struct {
	assume *textEncoding
	is     atomic.Pointer[textEncoding] // nil: ASCII so far
}

// newEncodingState looks at the beginning of a file.
func newEncodingState(sample []byte, o Options) (*encodingState, error) {
	s := new(encodingState)
	assume := o.Assume
	if assume == "" {
		assume = DefaultAssume
	}
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
	// The sample may end within a character. A text that is mostly UTF-8 is so, with an error that reading reports.
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

// sniffUTF16 recognises UTF-16 by its byte order mark, or by zeros at every other byte, as mostly ASCII text has.
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

// name is the encoding if it is another than UTF-8, else empty.
func (s *encodingState) name() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil && e != utf8Text {
		return e.name
	}
	return ""
}

// decided is the encoding of the text, empty if it is ASCII so far.
func (s *encodingState) decided() string {
	if s == nil {
		return ""
	}
	if e := s.is.Load(); e != nil {
		return e.name
	}
	return ""
}

// TextEncodingOf is the encoding of the text of a source, UTF-8 too; empty: all of it is ASCII, or it is binary.
func TextEncodingOf(src Source) string {
	for {
		if e, ok := src.(interface{ TextEncoding() string }); ok {
			return e.TextEncoding()
		}
		w, ok := src.(interface{ Unwrap() Source })
		if !ok {
			return EncodingOf(src)
		}
		src = w.Unwrap()
	}
}

// EncodingOf is the encoding that the text of a source was read as, or empty for UTF-8 and binary formats. It is
// certain once all rows have been read.
func EncodingOf(src Source) string {
	for {
		if e, ok := src.(interface{ Encoding() string }); ok {
			return e.Encoding()
		}
		w, ok := src.(interface{ Unwrap() Source })
		if !ok {
			return ""
		}
		src = w.Unwrap()
	}
}

// decodeSample is the beginning of a file as UTF-8; whole says that there is no more.
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

// more stands for what follows a sample.
type more struct{}

var errMore = errors.New("more follows")

func (more) Read([]byte) (int, error) { return 0, errMore }

// decoder reads text as UTF-8. Bytes that are no text in the encoding are errors that name their place.
type decoder struct {
	name  string
	r     io.Reader
	state *encodingState

	buf   []byte // read, not decoded
	ready []byte // decoded, not handed out
	out   []byte // memory of ready
	line  int64  // of what comes next, from 0
	col   int64
	begun bool
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

// fill reads and decodes some more.
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
	if len(d.ready) > 0 && &d.ready[0] == &d.buf[0] { // it is handed out from where it was read
		d.out = append(d.out[:0], d.ready...)
		d.ready = d.out
	}
	d.buf = d.buf[:copy(d.buf, d.buf[used:])]
}

// decode sets ready to the decoded text of b and returns the number of bytes used; end means that no more will come.
func (d *decoder) decode(b []byte, end bool) (used int, err error) {
	e := d.state.is.Load()
	if e == nil {
		i := asciiPrefix(b)
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

// decode returns the text of b and the number of bytes used; end means that no more will come. The text is in b or in
// the memory of out. An error refers to the bytes after the returned text.
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

// valid reports whether b begins with a character in UTF-8.
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

// wrongText is an error behind some text that begins at byte col, from 0, of a line.
func wrongText(name string, text []byte, line, col int64, detail string) error {
	col += int64(len(text))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		line += int64(bytes.Count(text, []byte("\n")))
		col = int64(len(text) - i - 1)
	}
	return &InputError{Place: fmt.Sprintf("%s:%d:%d", name, line, col+1), Detail: detail, Err: ErrEncoding}
}

// mixedText is the error of a file whose parts are in different encodings.
func mixedText(file, one, other string) error {
	return &InputError{Place: file, Err: ErrEncoding,
		Detail: fmt.Sprintf("some of the text is %s and some %s: name the encoding of the file", one, other)}
}
