package text

import (
	"bytes"
	"io"

	"github.com/randfeat/randfeat/data/internal/raw"
)

// isJSONArray reports whether a text begins like an array of objects.
func isJSONArray(text []byte) bool {
	t := bytes.TrimLeft(bytes.TrimPrefix(text, []byte(bom)), " \t\r\n")
	return len(t) > 0 && t[0] == '[' && bytes.HasPrefix(bytes.TrimLeft(t[1:], " \t\r\n"), []byte("{"))
}

// arrayLines translates a JSON array of objects into NDJSON while it is read. Line ends inside an object are
// moved after it, as empty lines. An object that begins a line thus keeps its line number; if several objects
// share a line, the number counts objects. The translation tracks only nesting and strings: the reader of the
// lines checks the objects.
type arrayLines struct {
	in            input
	r             io.Reader
	buf           []byte
	text, out     []byte // translated text, and the part of it not yet handed out
	state         arrayState
	depth         int  // nesting of braces and brackets in the object; 0: between objects
	quoted, slash bool // in a string; after a backslash in it
	comma         bool // the comma became a line end, so the line end that usually follows it is dropped
	held          int  // line ends inside the object, written after it
	err           error
}

// arrayState names the tokens that may come next between objects.
type arrayState int

const (
	wantArray arrayState = iota
	wantFirst            // an object, or the end of an empty array
	wantComma            // or the end
	wantObject
	wantNothing
)

func newArrayLines(in input, r io.Reader) *arrayLines {
	return &arrayLines{in: in, r: r, buf: make([]byte, 1<<16)}
}

func (a *arrayLines) Read(p []byte) (int, error) {
	for len(a.out) == 0 && a.err == nil {
		n, err := a.r.Read(a.buf)
		a.text = a.text[:0]
		b := a.buf[:n]
		if a.state == wantArray {
			b = bytes.TrimPrefix(b, []byte(bom))
		}
		for _, c := range b {
			if a.err == nil {
				a.take(c)
			}
		}
		a.out = a.text
		if a.err == nil && err != nil {
			if a.err = err; err == io.EOF && a.state != wantNothing {
				a.err = raw.Errorf(a.in.name, "the JSON array ends early: damaged or cut file")
			}
		}
	}
	if len(a.out) == 0 {
		return 0, a.err
	}
	n := copy(p, a.out)
	a.out = a.out[n:]
	return n, nil
}

// take translates one byte.
func (a *arrayLines) take(c byte) {
	switch {
	case a.depth > 0:
		a.inside(c)
	case c == '\n':
		if !a.comma {
			a.text = append(a.text, c)
		}
		a.comma = false
	case c == ' ' || c == '\t' || c == '\r':
	case a.state == wantArray && c == '[':
		a.state = wantFirst
	case (a.state == wantFirst || a.state == wantObject) && c == '{':
		a.text = append(a.text, c)
		a.depth, a.comma = 1, false
	case a.state == wantComma && c == ',':
		a.text = append(a.text, '\n')
		a.state, a.comma = wantObject, true
	case (a.state == wantFirst || a.state == wantComma) && c == ']':
		a.state = wantNothing
	default:
		want := [...]string{"[", "{ or ]", "a comma or ]", "{", "nothing behind the array"}[a.state]
		a.err = raw.Errorf(a.in.name, "%q between the objects of a JSON array, want %s", rune(c), want)
	}
}

// inside translates one byte of an object.
func (a *arrayLines) inside(c byte) {
	switch {
	case c == '\n':
		a.held++
		c = ' '
	case c == '\r':
		c = ' '
	case a.slash:
		a.slash = false
	case a.quoted:
		a.slash, a.quoted = c == '\\', c != '"'
	case c == '"':
		a.quoted = true
	case c == '{' || c == '[':
		a.depth++
	case c == '}' || c == ']':
		a.depth--
	}
	if a.text = append(a.text, c); a.depth == 0 {
		a.state = wantComma
		for ; a.held > 0; a.held-- {
			a.text = append(a.text, '\n')
		}
	}
}
