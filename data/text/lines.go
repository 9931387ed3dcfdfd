package text

import (
	"bytes"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data/internal/raw"
)

// lines cuts a stream into records of one or more lines, within bounded memory. The current record is
// buf[pos:pos+n]. It stays in place until next; extend, which adds a line, may move it to the front or to a
// larger buffer.
//
// Usage: next, record, and extend while a quote is open. textReader also fills the struct directly, with a
// whole piece of text as buf and eof set; then nothing is read.
type lines struct {
	in    input
	r     io.Reader
	c     io.Closer
	limit int // most bytes of one record

	buf      []byte
	pos, end int   // buf[pos:end] has been read and not consumed
	n        int   // length of the current record without its line end; -1: before the first
	line     int64 // line number of the current record, from 1
	span     int64 // lines of the current record
	eof      bool
	fail     error // reported after the last record instead of io.EOF
	more     bool  // a record that is incomplete at the end gives errMore: the next piece has its rest
	gone     int64 // bytes that have left buf, not counting a byte order mark
}

// consumed is the number of bytes of text up to the end of the current record, including its line end.
func (l *lines) consumed() int64 { return l.gone + int64(min(l.pos+l.n+1, l.end)) }

func newLines(in input, limit int) (*lines, error) {
	r, c, err := in.text()
	if err != nil {
		return nil, err
	}
	if in.encoding != nil {
		r = newDecoder(in.name, r, in.encoding)
	}
	l := &lines{in: in, r: r, c: c, limit: limit, buf: make([]byte, min(limit+2, 1<<17)), n: -1, line: 1}
	for l.end < len(bom) && !l.eof {
		if err := l.fill(); err != nil {
			c.Close()
			return nil, err
		}
	}
	if bytes.HasPrefix(l.buf[:l.end], []byte(bom)) {
		l.pos = len(bom)
		l.gone = -int64(len(bom))
	}
	return l, nil
}

// next moves to the following line. It returns io.EOF after the last one.
func (l *lines) next() error {
	if l.n >= 0 {
		l.pos = min(l.pos+l.n+1, l.end)
		l.line += l.span
	}
	l.n, l.span = 0, 1
	return l.find(0)
}

// extend adds a line to the record. It returns io.EOF if there is none.
func (l *lines) extend() error {
	if err := l.find(l.n + 1); err != nil {
		if err == io.EOF && l.more {
			return errMore
		}
		return err
	}
	l.span++
	return nil
}

// find sets n to the first line end at or after offset from of the record, or to the end of the input.
func (l *lines) find(from int) error {
	start := from
	for {
		if l.pos+from <= l.end {
			if i := bytes.IndexByte(l.buf[l.pos+from:l.end], '\n'); i >= 0 {
				l.n = from + i
				break
			}
			from = l.end - l.pos
		}
		if l.eof {
			// A line that is too long is the better message: the failure may come from cutting it.
			if l.fail != nil && l.end-l.pos > l.limit+1 {
				return l.tooLong()
			}
			if l.fail != nil {
				return l.fail
			}
			if l.pos+start >= l.end {
				return io.EOF
			}
			l.n = l.end - l.pos
			break
		}
		if err := l.fill(); err != nil {
			return err
		}
	}
	if l.n > l.limit {
		return l.tooLong()
	}
	return nil
}

func (l *lines) tooLong() error {
	return raw.Errorf(l.place(0), "a row of more than %d bytes: a quote that is not closed, too many columns, or not a text table", l.limit)
}

// fill reads more after the current record. It makes room first: by moving the record to the front, or by
// doubling the buffer up to the limit of a record.
func (l *lines) fill() error {
	if l.end == len(l.buf) {
		switch {
		case l.pos > 0:
			copy(l.buf, l.buf[l.pos:l.end])
			l.gone += int64(l.pos)
			l.pos, l.end = 0, l.end-l.pos
		case len(l.buf) > l.limit+1:
			return l.tooLong()
		default:
			grown := make([]byte, min(2*len(l.buf), l.limit+2))
			copy(grown, l.buf[:l.end])
			l.buf = grown
		}
	}
	// A reader may return 0 bytes without an error; io.ErrNoProgress after 100 times, as package bufio does.
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if err == io.EOF {
			l.eof = true
			return nil
		}
		if err != nil {
			return l.in.wrap(err)
		}
		if n > 0 {
			return nil
		}
	}
	return l.in.wrap(io.ErrNoProgress)
}

// record is the current record without the carriage return before its line end.
func (l *lines) record() []byte {
	b := l.buf[l.pos : l.pos+l.n]
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	return b
}

// place returns file:line:column of byte off of the record, both from 1. It takes time in proportion to off.
func (l *lines) place(off int) string {
	before := l.buf[l.pos:min(l.pos+off, l.end)]
	line := l.in.before.lines() + l.line + int64(bytes.Count(before, []byte("\n")))
	return fmt.Sprintf("%s:%d:%d", l.in.name, line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// returns translates carriage returns to line ends. It serves encodings in which the byte is never part of another
// character.
type returns struct{ io.Reader }

func (r returns) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

func (l *lines) Close() error { return l.c.Close() }
