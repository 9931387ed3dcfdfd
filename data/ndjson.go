package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// jsonSource is one flat JSON object per line: numbers, strings, true, false and null. The columns are the keys found at
// the beginning of the file; a key that a row lacks is a missing value, a key that only a later row has is an error.
type jsonSource struct {
	in      input
	o       Options
	columns []string
}

func newJSONSource(in input, sample []byte, whole bool, o Options) (Source, error) {
	if !whole { // look at complete lines only, unless the first is longer than the sample
		if i := bytes.LastIndexByte(sample, '\n'); i >= 0 {
			sample = sample[:i+1]
		} else if in.size < 0 {
			return nil, inputError(in.name, "the first line is longer than %d bytes, too long for a stream: write it to a file first", len(sample))
		} else {
			return newJSONSourceFrom(in, in, 1, o)
		}
	}
	first := input{name: in.name, size: int64(len(sample)), open: func() (stream, error) { return memory{bytes.NewReader(sample)}, nil }}
	return newJSONSourceFrom(in, first, math.MaxInt, o)
}

// newJSONSourceFrom takes the columns from the first rows of another view of the input.
func newJSONSourceFrom(in, first input, rows int, o Options) (Source, error) {
	s := &jsonSource{in: in, o: o}
	l, err := newLines(first, o.MaxLine)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	seen := map[string]bool{}
	for n := 0; n < rows; {
		switch err := l.next(); {
		case err == io.EOF && n == 0:
			return nil, inputError(in.name, "the file has no rows")
		case err == io.EOF:
			return s, nil
		case err != nil:
			return nil, err
		}
		p := jsonParser{lines: l, b: l.record()}
		if p.skip(); p.i == len(p.b) {
			continue
		}
		n++
		err := p.object(func(key []byte, _ jsonValue, at int) error {
			if !seen[string(key)] {
				seen[string(key)] = true
				s.columns = append(s.columns, string(key))
				if len(s.columns) > o.MaxColumns { // the place takes time in proportion to the line
					return checkWidth(l.place(at), len(s.columns), o.MaxColumns)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(s.columns) == 0 {
			return nil, inputError(l.place(0), "an object without keys")
		}
	}
	return s, nil
}

func (s *jsonSource) Name() string      { return s.in.name }
func (s *jsonSource) Columns() []string { return s.columns }

func (s *jsonSource) Open(want []Kind) (Reader, error) {
	kinds, err := CheckKinds(want, len(s.columns), func(int) Kind { return Text })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.in.name, err)
	}
	l, err := newLines(s.in, s.o.MaxLine)
	if err != nil {
		return nil, err
	}
	r := &jsonReader{lines: l, columns: s.columns, want: kinds, missing: newMissingSet(s.o.Missing),
		index: make(map[string]int, len(s.columns)), seen: make([]int64, len(s.columns))}
	for j, c := range s.columns {
		r.index[c] = j
	}
	return r, nil
}

type jsonReader struct {
	*lines
	columns []string
	want    []Kind
	missing *missingSet
	index   map[string]int
	seen    []int64 // the last row, from 1, in which the key of a column came

	row    int64
	starts []int64
}

func (r *jsonReader) Columns() []string  { return r.columns }
func (r *jsonReader) Where(i int) string { return fmt.Sprintf("%s:%d", r.in.name, r.starts[i]) }

func (r *jsonReader) Read(b *Block, max int) error {
	b.reset(r.row, r.want)
	r.starts = r.starts[:0]
	for b.Rows < max && !b.Full() {
		err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		p := jsonParser{lines: r.lines, b: r.record()}
		if p.skip(); p.i == len(p.b) {
			continue
		}
		if err := r.parse(b, &p); err != nil {
			return err
		}
		b.Rows++
		r.row++
		r.starts = append(r.starts, r.line)
	}
	if b.Rows == 0 {
		return io.EOF
	}
	return nil
}

func (r *jsonReader) parse(b *Block, p *jsonParser) error {
	expect, row := 0, r.row+1
	err := p.object(func(key []byte, v jsonValue, at int) error {
		j := expect // rows mostly have their keys in one order
		if j >= len(r.columns) || string(key) != r.columns[j] {
			var ok bool
			if j, ok = r.index[string(key)]; !ok {
				return inputError(r.place(at), "the key %s is not in the first rows: give it there too, null if unknown", show(key))
			}
		}
		if r.seen[j] == row {
			return inputError(r.place(at), "the key %s comes twice", show(key))
		}
		r.seen[j], expect = row, j+1
		cell := v.text
		if v.null || r.missing.has(cell) {
			cell = nil
		}
		switch r.want[j] {
		case Text:
			b.AppendText(j, cell)
		case Number:
			x := math.NaN()
			if cell != nil {
				var ok bool
				if x, ok = ParseNumber(trimBlanks(cell)); !ok {
					return columnError(r.place(v.at), r.columns[j], nil, "column %s is %s, want a number", show(r.columns[j]), show(cell))
				}
			}
			b.Cols[j].Num = append(b.Cols[j].Num, x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for j, k := range r.want {
		if r.seen[j] == row {
			continue
		}
		switch k {
		case Text:
			b.AppendText(j, nil)
		case Number:
			b.Cols[j].Num = append(b.Cols[j].Num, math.NaN())
		}
	}
	return nil
}

// jsonValue is a scalar: the text of a string without its escapes, or the literal.
type jsonValue struct {
	text []byte
	null bool
	at   int // offset in the line
}

// jsonParser reads one flat object.
type jsonParser struct {
	*lines
	b   []byte
	i   int
	key []byte // unescaped copies
	val []byte
}

func (p *jsonParser) skip() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\t' || p.b[p.i] == '\r') {
		p.i++
	}
}

func (p *jsonParser) eat(c byte) bool {
	p.skip()
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *jsonParser) fail(want string) error {
	found := "the end of the line"
	if p.i < len(p.b) {
		found = show(p.b[p.i:])
	}
	return inputError(p.place(p.i), "%s, want %s", found, want)
}

// object reads the whole line as an object and gives every entry to f. The key and value live until the next entry.
func (p *jsonParser) object(f func(key []byte, v jsonValue, at int) error) error {
	if !p.eat('{') {
		return p.fail("a JSON object")
	}
	for first := true; ; first = false {
		if p.eat('}') {
			break
		}
		if !first && !p.eat(',') {
			return p.fail("a comma or }")
		}
		p.skip()
		at := p.i
		key, err := p.string(&p.key)
		if err != nil {
			return err
		}
		if !p.eat(':') {
			return p.fail("a colon")
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		if err := f(key, v, at); err != nil {
			return err
		}
	}
	if p.skip(); p.i != len(p.b) {
		return p.fail("the end of the line")
	}
	return nil
}

func (p *jsonParser) value() (jsonValue, error) {
	p.skip()
	v := jsonValue{at: p.i}
	if p.i == len(p.b) {
		return v, p.fail("a value")
	}
	switch p.b[p.i] {
	case '"':
		var err error
		v.text, err = p.string(&p.val)
		return v, err
	case '{', '[':
		return v, inputError(p.place(p.i), "a nested value: rows must be flat objects of numbers, strings, true, false and null")
	}
	for p.i < len(p.b) && !bytes.ContainsRune([]byte(",}] \t\r"), rune(p.b[p.i])) {
		p.i++
	}
	v.text = p.b[v.at:p.i]
	if !json.Valid(v.text) {
		p.i = v.at
		return v, p.fail("a number, string, true, false or null")
	}
	v.null = string(v.text) == "null"
	return v, nil
}

// string reads a string literal. Without escapes it is a part of the line, else a copy in buf.
func (p *jsonParser) string(buf *[]byte) ([]byte, error) {
	if p.i == len(p.b) || p.b[p.i] != '"' {
		return nil, p.fail("a string")
	}
	start := p.i
	plain := true
	for i := start + 1; i < len(p.b); i++ {
		switch c := p.b[i]; {
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			p.i = i
			return nil, p.fail("an escaped control character")
		case c == '"':
			p.i = i + 1
			if plain && utf8.Valid(p.b[start:i]) { // encoding/json replaces invalid UTF-8

				return p.b[start+1 : i], nil
			}
			var s string
			if err := json.Unmarshal(p.b[start:p.i], &s); err != nil {
				return nil, inputError(p.place(start), "%v", err)
			}
			*buf = append((*buf)[:0], s...)
			return *buf, nil
		}
	}
	return nil, inputError(p.place(start), "the string is not closed on its line")
}
