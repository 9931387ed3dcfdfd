package cell

import (
	"encoding/json"
	"unicode/utf8"
)

// JSONScanner reads JSON (RFC 8259) in Data from Pos on, without building values: keys and cells are slices of Data. It
// is as strict as encoding/json, and bounds the nesting of values that are skipped. A caller moves it with Object,
// Array, Key and Scalar, and skips values with Ignore. It belongs to one goroutine.
type JSONScanner struct {
	Data []byte
	Pos  int

	key, val []byte // memory for strings with escapes
}

// JSONError is a syntax error: Want is set if something is missing at Pos, else Wrong describes the error there.
type JSONError struct {
	Pos   int    // from 0
	Want  string // such as "a colon"; empty: see Wrong
	Wrong string
}

// Error returns the problem without the place: callers know lines.
func (e *JSONError) Error() string {
	if e.Want != "" {
		return "want " + e.Want
	}
	return e.Wrong
}

// Problems other than a missing part.
const (
	Nested   = "a nested value: want numbers, strings, true, false and null"
	Control  = "a control character in a string must be escaped"
	Escape   = "a wrong escape in a string"
	Unclosed = "the string is not closed"
	Deep     = "values are nested too deeply"
)

func (s *JSONScanner) want(what string) error { return &JSONError{Pos: s.Pos, Want: what} }

// Skip skips blanks.
func (s *JSONScanner) Skip() {
	for s.Pos < len(s.Data) {
		switch s.Data[s.Pos] {
		case ' ', '\t', '\r', '\n':
			s.Pos++
		default:
			return
		}
	}
}

// Eat skips blanks and then c, and reports whether c was there.
func (s *JSONScanner) Eat(c byte) bool {
	s.Skip()
	if s.Pos < len(s.Data) && s.Data[s.Pos] == c {
		s.Pos++
		return true
	}
	return false
}

// End is an error if anything but blanks is left.
func (s *JSONScanner) End() error {
	if s.Skip(); s.Pos < len(s.Data) {
		return s.want("the end")
	}
	return nil
}

// Object passes every key to f with its offset; f must read the value. A key is valid until the next one is
// read.
func (s *JSONScanner) Object(f func(key []byte, at int) error) error {
	if !s.Eat('{') {
		return s.want("a JSON object")
	}
	for first := true; !s.Eat('}'); first = false {
		if !first && !s.Eat(',') {
			return s.want("a comma or }")
		}
		s.Skip()
		at := s.Pos
		key, err := s.Key()
		if err != nil {
			return err
		}
		if !s.Eat(':') {
			return s.want("a colon")
		}
		if err := f(key, at); err != nil {
			return err
		}
	}
	return nil
}

// Array calls f at every element, which f must read; i counts from 0.
func (s *JSONScanner) Array(f func(i int) error) error {
	if !s.Eat('[') {
		return s.want("an array")
	}
	for i := 0; !s.Eat(']'); i++ {
		if i > 0 && !s.Eat(',') {
			return s.want("a comma or ]")
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// Key reads a string; it is valid until the next key.
func (s *JSONScanner) Key() ([]byte, error) { return s.string(&s.key) }

// Scalar reads a number, string, true, false or null and returns its text, nil for null. It is valid until the
// next scalar.
func (s *JSONScanner) Scalar() ([]byte, error) {
	s.Skip()
	if s.Pos == len(s.Data) {
		return nil, s.want("a value")
	}
	at := s.Pos
	switch c := s.Data[s.Pos]; {
	case c == '"':
		return s.string(&s.val)
	case c == '{' || c == '[':
		return nil, &JSONError{Pos: s.Pos, Wrong: Nested}
	case c == 't' && s.word("true"), c == 'f' && s.word("false"), (c == '-' || c >= '0' && c <= '9') && s.number():
		if s.Pos == len(s.Data) || !inWord(s.Data[s.Pos]) {
			return s.Data[at:s.Pos:s.Pos], nil
		}
	case c == 'n' && s.word("null"):
		if s.Pos == len(s.Data) || !inWord(s.Data[s.Pos]) {
			return nil, nil
		}
	}
	s.Pos = at // report the whole word as wrong
	return nil, s.want("a number, string, true, false or null")
}

// inWord reports whether c after a literal can only be a part of it that should not be there.
func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '+' || c == '-' ||
		c == '_'
}

func (s *JSONScanner) word(w string) bool {
	if len(s.Data)-s.Pos < len(w) || string(s.Data[s.Pos:s.Pos+len(w)]) != w {
		return false
	}
	s.Pos += len(w)
	return true
}

func (s *JSONScanner) digits() bool {
	from := s.Pos
	for s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9' {
		s.Pos++
	}
	return s.Pos > from
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (s *JSONScanner) number() bool {
	if s.Data[s.Pos] == '-' {
		s.Pos++
	}
	from := s.Pos
	if !s.digits() || s.Data[from] == '0' && s.Pos > from+1 {
		return false
	}
	if s.Pos < len(s.Data) && s.Data[s.Pos] == '.' {
		s.Pos++
		if !s.digits() {
			return false
		}
	}
	if s.Pos < len(s.Data) && (s.Data[s.Pos] == 'e' || s.Data[s.Pos] == 'E') {
		s.Pos++
		if s.Pos < len(s.Data) && (s.Data[s.Pos] == '+' || s.Data[s.Pos] == '-') {
			s.Pos++
		}
		return s.digits()
	}
	return true
}

// string reads a string. Without escapes it is a slice of the text, else a copy in buf.
func (s *JSONScanner) string(buf *[]byte) ([]byte, error) {
	if s.Pos == len(s.Data) || s.Data[s.Pos] != '"' {
		return nil, s.want("a string")
	}
	start, plain := s.Pos, true
	for i := start + 1; i < len(s.Data); i++ {
		switch c := s.Data[i]; {
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, &JSONError{Pos: i, Wrong: Control}
		case c == '"':
			if plain && utf8.Valid(s.Data[start+1:i]) { // encoding/json replaces invalid UTF-8, so that goes through it
				s.Pos = i + 1
				return s.Data[start+1 : i : i], nil
			}
			var text string
			if err := json.Unmarshal(s.Data[start:i+1], &text); err != nil {
				return nil, &JSONError{Pos: start, Wrong: Escape}
			}
			s.Pos = i + 1
			*buf = append((*buf)[:0], text...)
			return *buf, nil
		}
	}
	return nil, &JSONError{Pos: start, Wrong: Unclosed}
}

// maxDepth bounds the nesting of skipped values, and so the recursion of ignore.
const maxDepth = 16

// Ignore skips any value.
func (s *JSONScanner) Ignore() error { return s.ignore(0) }

func (s *JSONScanner) ignore(depth int) error {
	s.Skip()
	if s.Pos == len(s.Data) {
		return s.want("a value")
	}
	if depth > maxDepth {
		return &JSONError{Pos: s.Pos, Wrong: Deep}
	}
	switch s.Data[s.Pos] {
	case '{':
		return s.Object(func([]byte, int) error { return s.ignore(depth + 1) })
	case '[':
		return s.Array(func(int) error { return s.ignore(depth + 1) })
	}
	_, err := s.Scalar()
	return err
}
