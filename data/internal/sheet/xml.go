package sheet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on the XML of a workbook. encoding/xml has none: it holds a whole tag, a whole text and the names of all
// open elements in memory, however large a small archive makes them.
const (
	maxXMLDepth      = 100     // elements inside one another; sheets have about ten
	maxXMLAttributes = 256     // of one element; the format defines at most about 30
	maxXMLPiece      = 1 << 20 // bytes of a tag or of a text; a cell holds at most 32,767 characters
	elementCost      = 16      // bytes of text that take about as long to read as an element
)

// expansion bounds what an archive may expand to, so that a small file costs little time. Sheets compress 10 to 40
// times, but deflate can reach 1000.
type expansion struct{ left, limit int64 }

const (
	maxExpansion  = 200      // times the size of the file,
	freeExpansion = 32 << 20 // and bytes that any file may expand to
)

// newExpansion is the bound for a file of so many bytes.
func newExpansion(size int64) *expansion {
	limit := freeExpansion + maxExpansion*size
	return &expansion{limit, limit}
}

func (e *expansion) take(n int) error {
	if e.left -= int64(n); e.left < 0 {
		return limitError{fmt.Sprintf("the workbook expands to more than %d MiB, 32 MiB and %d times its size: save "+
			"the sheet as CSV", e.limit>>20, maxExpansion)}
	}
	return nil
}

// limitError is an error about a bound. It is not a sign of damage.
type limitError struct{ detail string }

func (e limitError) Error() string { return e.detail }

// xmlToken is what [xmlReader.next] found.
type xmlToken int

const (
	startTag xmlToken = iota
	endTag
	characters
)

// xmlReader is a pull parser of XML 1.0 in UTF-8 without document types, as ECMA-376 part 2, 7.1.4 wants it. It
// uses bounded memory: one tag or text, and the names of the open elements. It does not resolve namespaces:
// prefixes are dropped from names.
type xmlReader struct {
	in    io.Reader
	bound *expansion

	name  []byte // of the last start or end tag, without its prefix
	text  []byte // the last characters
	attrs []xmlAttribute

	buf      []byte
	pos, end int    // buf[pos:end] has been read and not consumed
	open     []byte // names of the open elements, one after another
	ends     []int  // where each of them ends in open
	inTag    bool   // < has been consumed
	closing  bool   // the last start tag ends with />, so its end tag comes next
	seen     bool   // the root element
}

// bom is the byte order mark that some programs put before UTF-8 text.
const bom = "\xef\xbb\xbf"

type xmlAttribute struct {
	name, value []byte
	prefixed    bool
}

func newXMLReader(r io.Reader, bound *expansion) *xmlReader {
	return &xmlReader{in: r, bound: bound, buf: make([]byte, 1<<16)}
}

// depth is the number of open elements.
func (x *xmlReader) depth() int { return len(x.ends) }

// enclosing returns the name of open element i, counted from the root, with its prefix.
func (x *xmlReader) enclosing(i int) []byte {
	begin := 0
	if i > 0 {
		begin = x.ends[i-1]
	}
	return x.open[begin:x.ends[i]]
}

// is reports whether open element i, counted from the root, has this name.
func (x *xmlReader) is(i int, name string) bool {
	if i < 0 || i >= x.depth() {
		return false
	}
	local, _ := unprefixed(x.enclosing(i))
	return string(local) == name
}

// next moves to the next tag or text. name, text and attributes are valid until the following call. It returns
// io.EOF after the root element.
func (x *xmlReader) next() (xmlToken, error) {
	if x.closing {
		x.closing = false
		x.pop()
		return endTag, nil
	}
	for {
		if !x.inTag {
			text, err := x.until(less, 0)
			if x.inTag = err == nil; err != nil {
				return 0, x.atEnd(err)
			}
			switch {
			case len(text) == 0:
			case x.depth() > 0:
				x.text, err = unescape(text, true)
				return characters, err
			case len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte(bom)))) > 0:
				return 0, errors.New("text outside of the root element")
			}
		}
		x.inTag = false
		if x.pos == x.end {
			if err := x.fill(); err != nil {
				return 0, noEOF(err)
			}
		}
		switch x.buf[x.pos] {
		case '!':
			if cdata, err := x.declaration(); err != nil || cdata {
				return characters, err
			}
		case '?':
			if err := x.instruction(); err != nil {
				return 0, err
			}
		case '/':
			return endTag, x.endTag()
		default:
			return startTag, x.startTag()
		}
	}
}

// atEnd turns the error of a text without an end into io.EOF if the file may end there.
func (x *xmlReader) atEnd(err error) error {
	if x.depth() > 0 || !x.seen || len(bytes.TrimSpace(x.buf[x.pos:x.end])) > 0 {
		return noEOF(err)
	}
	return err
}

// The ends of the parts of XML.
var (
	less        = []byte("<")
	commentEnd  = []byte("-->")
	sectionEnd  = []byte("]]>")
	instructEnd = []byte("?>")
)

// until returns the bytes before the next mark, which stands at byte from or later, and moves behind the mark. The
// bytes are valid until the next call.
func (x *xmlReader) until(mark []byte, from int) ([]byte, error) {
	for {
		if i := bytes.Index(x.buf[x.pos+from:x.end], mark); i >= 0 {
			b := x.buf[x.pos : x.pos+from+i]
			x.pos += from + i + len(mark)
			return b, nil
		}
		from = max(from, x.end-x.pos-len(mark)+1)
		if err := x.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more behind buf[pos:end], which it moves to the front of the buffer or of a larger one.
func (x *xmlReader) fill() error {
	if x.end-x.pos > maxXMLPiece {
		return limitError{fmt.Sprintf("a tag or a text of more than %d bytes in the XML of the workbook", maxXMLPiece)}
	}
	to := x.buf
	if x.pos == 0 && x.end == len(x.buf) {
		to = make([]byte, 2*len(x.buf))
	}
	copy(to, x.buf[x.pos:x.end])
	x.buf, x.pos, x.end = to, 0, x.end-x.pos
	n, err := io.ReadAtLeast(x.in, x.buf[x.end:], 1)
	x.end += n
	if err != nil {
		return err
	}
	return x.bound.take(n)
}

// startTag parses a start tag.
func (x *xmlReader) startTag() error {
	body, err := x.tag()
	if err != nil {
		return noEOF(err)
	}
	if err := x.bound.take(elementCost); err != nil {
		return err
	}
	if n := len(body) - 1; n >= 0 && body[n] == '/' {
		x.closing, body = true, body[:n]
	}
	n := nameLength(body)
	if n == 0 || x.depth() == 0 && x.seen {
		return fmt.Errorf("<%.20s is no start of an element here", body)
	}
	if x.depth() == maxXMLDepth {
		return limitError{fmt.Sprintf("more than %d elements inside one another in the XML of the workbook", maxXMLDepth)}
	}
	x.seen = true
	x.open = append(x.open, body[:n]...)
	x.ends = append(x.ends, len(x.open))
	x.name, _ = unprefixed(body[:n])
	x.attrs = x.attrs[:0]
	if n == len(body) {
		return nil
	}
	return x.attributes(body[n:])
}

// tag returns a tag up to its >. A > may also stand in an attribute: the tag goes on while a quote is open.
func (x *xmlReader) tag() ([]byte, error) {
	quote := byte(0)
	for i := x.pos; i < x.end; i++ { // nearly always in the buffer
		switch c := x.buf[i]; {
		case c == '>' && quote == 0:
			b := x.buf[x.pos:i]
			x.pos = i + 1
			return b, nil
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	if err := x.fill(); err != nil {
		return nil, err
	}
	return x.tag()
}

// attributes parses what follows the name in a start tag.
func (x *xmlReader) attributes(b []byte) error {
	for {
		rest := b[skipSpace(b):]
		if len(rest) == 0 {
			return nil
		}
		n := nameLength(rest)
		value := rest[n:]
		value = value[skipSpace(value):]
		if n == 0 || len(rest) == len(b) || len(value) == 0 || value[0] != '=' {
			return fmt.Errorf("%.20q in a tag, want an attribute", rest)
		}
		value = value[1:]
		if value = value[skipSpace(value):]; len(value) == 0 || value[0] != '"' && value[0] != '\'' {
			return fmt.Errorf("attribute %.20s without a value in quotes", rest[:n])
		}
		end := 1 + bytes.IndexByte(value[1:], value[0]) // start has seen that all quotes are closed
		if len(x.attrs) == maxXMLAttributes {
			return limitError{fmt.Sprintf("more than %d attributes of an element in the XML of the workbook", maxXMLAttributes)}
		}
		var a xmlAttribute
		var err error
		a.name, a.prefixed = unprefixed(rest[:n])
		if a.value, err = unescape(value[1:end], false); err != nil {
			return err
		}
		x.attrs = append(x.attrs, a)
		b = value[end+1:]
	}
}

// attr returns an attribute of the last start tag, nil if it has none of that name. It is valid until the next call
// of next.
func (x *xmlReader) attr(name string) []byte { return x.attribute(name, false) }

// prefixedAttr is attr for a name of another namespace, such as that of relations.
func (x *xmlReader) prefixedAttr(name string) []byte { return x.attribute(name, true) }

func (x *xmlReader) attribute(name string, prefixed bool) []byte {
	for _, a := range x.attrs {
		if string(a.name) == name && a.prefixed == prefixed {
			return a.value
		}
	}
	return nil
}

// number is an attribute that is a whole number, 0 if it is missing.
func (x *xmlReader) number(name string) (int, error) {
	value := x.attr(name)
	if len(value) == 0 {
		return 0, nil
	}
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return 0, fmt.Errorf("attribute %s is %.20q, want a number", name, value)
	}
	return n, nil
}

// endTag parses an end tag, which must close the innermost element.
func (x *xmlReader) endTag() error {
	name, err := x.tag()
	if err != nil {
		return noEOF(err)
	}
	for name = name[1:]; len(name) > 0 && skipSpace(name[len(name)-1:]) > 0; {
		name = name[:len(name)-1]
	}
	if x.depth() == 0 {
		return fmt.Errorf("</%.20s> closes no element", name)
	}
	if want := x.pop(); !bytes.Equal(name, want) {
		return fmt.Errorf("</%.20s> closes <%.20s>", name, want)
	}
	return nil
}

// pop closes the innermost element and returns its name with its prefix.
func (x *xmlReader) pop() []byte {
	n := x.depth() - 1
	name := x.enclosing(n)
	x.open, x.ends = x.open[:len(x.open)-len(name)], x.ends[:n]
	x.name, _ = unprefixed(name)
	return name
}

// skip reads up to the end of the element whose start tag was read last.
func (x *xmlReader) skip() error {
	for depth := x.depth(); x.depth() >= depth; {
		if _, err := x.next(); err != nil {
			return err
		}
	}
	return nil
}

// declaration reads a comment, or a section of characters.
func (x *xmlReader) declaration() (cdata bool, err error) {
	const comment, section = "!--", "![CDATA["
	for x.end-x.pos < len(section) && err == nil {
		err = x.fill()
	}
	switch head := x.buf[x.pos:x.end]; {
	case bytes.HasPrefix(head, []byte(comment)):
		_, err = x.until(commentEnd, len(comment))
	case bytes.HasPrefix(head, []byte(section)) && x.depth() > 0:
		cdata = true
		if x.text, err = x.until(sectionEnd, len(section)); err == nil {
			x.text = x.text[len(section):]
		}
	case err == nil:
		err = errors.New("a document type, which workbooks do not have")
	}
	return cdata, noEOF(err)
}

// instruction reads an instruction. The first one of a file may declare an encoding.
func (x *xmlReader) instruction() error {
	b, err := x.until(instructEnd, 1)
	if n := bytes.Index(b, []byte("encoding=")); n >= 0 && bytes.HasPrefix(b, []byte("?xml ")) {
		e := strings.ToLower(string(b[n+len("encoding="):]))
		if len(e) < 6 || !strings.HasPrefix(e[1:], "utf-8") && !strings.HasPrefix(e[1:], "us-ascii") {
			return fmt.Errorf("encoding %.12s, want utf-8", e)
		}
	}
	return noEOF(err)
}

// skipSpace is the number of blanks at the beginning of b.
func skipSpace(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return i
		}
	}
	return len(b)
}

// notName holds the bytes that end a name.
var notName = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c <= ' ' || strings.IndexByte("=/<>\"'&", byte(c)) >= 0
	}
	return t
}()

// nameLength is the length of the name at the beginning of b.
func nameLength(b []byte) int {
	for i, c := range b {
		if notName[c] {
			return i
		}
	}
	return len(b)
}

func unprefixed(name []byte) (local []byte, prefixed bool) {
	for i, c := range name {
		if c == ':' {
			return name[i+1:], true
		}
	}
	return name, false
}

// unescape replaces references to characters in place, and in texts line ends by \n.
func unescape(b []byte, lines bool) ([]byte, error) {
	if bytes.IndexByte(b, '&') < 0 && (!lines || bytes.IndexByte(b, '\r') < 0) {
		return b, nil
	}
	out := b[:0] // no replacement is longer than what it replaces
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\r' && lines:
			if i+1 == len(b) || b[i+1] != '\n' {
				out = append(out, '\n')
			}
		case b[i] == '&':
			n := bytes.IndexByte(b[i:min(len(b), i+12)], ';')
			c := rune(-1)
			if n > 0 {
				c = entity(string(b[i+1 : i+n]))
			}
			if c < 0 {
				return nil, fmt.Errorf("%.12q refers to no character", b[i:])
			}
			out = utf8.AppendRune(out, c)
			i += n
		default:
			out = append(out, b[i])
		}
	}
	return out, nil
}

// entity returns the character that &name; means, -1 if it means none.
func entity(name string) rune {
	switch name {
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "amp":
		return '&'
	case "apos":
		return '\''
	case "quot":
		return '"'
	}
	if len(name) < 2 || name[0] != '#' {
		return -1
	}
	digits, base := name[1:], 10
	if digits[0] == 'x' {
		digits, base = digits[1:], 16
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if err != nil || v > math.MaxInt32 || !utf8.ValidRune(rune(v)) {
		return -1
	}
	return rune(v)
}

// noEOF is err, for places where the input must not end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
