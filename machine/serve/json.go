package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"unicode/utf8"

	"github.com/randfeat/randfeat/data"
)

// jsonRows reads {"rows": [{…}, …]} or {"columns": […], "rows": [[…], …]} without building values: cells go from the
// body to the block.
type jsonRows struct {
	p       jsonParser
	d       *loaded
	kinds   []data.Kind
	arrays  bool
	columns []int // of arrays: where each cell goes
	ids     []bool
	last    []int64 // the last row that had a column, from 1
	rows    int64
	open    bool // the array of rows has begun
	end     bool
}

func newJSONRows(body []byte, d *loaded, kinds []data.Kind) (*jsonRows, error) {
	r := &jsonRows{p: jsonParser{b: body}, d: d, kinds: kinds, ids: make([]bool, len(d.columns)), last: make([]int64, len(d.columns))}
	rowsAt, columnsAt := -1, -1
	p := &r.p
	err := p.object(func(key []byte) error {
		at := &rowsAt
		switch string(key) {
		case "rows":
		case "columns":
			at = &columnsAt
		default:
			return p.fail(`the key %s, want "rows" or "columns"`, show(key))
		}
		if *at >= 0 {
			return p.fail("the key %s comes twice", show(key))
		}
		p.skip()
		*at = p.i
		return p.ignore(0)
	})
	if err != nil {
		return nil, err
	}
	if p.skip(); p.i < len(p.b) {
		return nil, p.fail("something after the object")
	}
	if rowsAt < 0 {
		return nil, p.fail(`no key "rows"`)
	}
	if columnsAt >= 0 {
		r.arrays = true
		p.i = columnsAt
		if err := r.readColumns(); err != nil {
			return nil, err
		}
	}
	p.i = rowsAt
	if !p.eat('[') {
		return nil, p.fail(`"rows" must be an array`)
	}
	return r, nil
}

// readColumns matches the names of the columns of arrays.
func (r *jsonRows) readColumns() error {
	p := &r.p
	var names []string
	if !p.eat('[') {
		return p.fail(`"columns" must be an array of names`)
	}
	for !p.eat(']') {
		if len(names) > 0 && !p.eat(',') {
			return p.fail("want a comma or ]")
		}
		p.skip()
		name, err := p.string(&p.key)
		if err != nil {
			return err
		}
		names = append(names, string(name))
	}
	if _, err := r.d.model.Schema.Encoder(names, false); err != nil {
		return err
	}
	for _, n := range names {
		j := r.d.index[n]
		r.columns = append(r.columns, j)
		if j >= r.d.fields {
			r.ids[j] = true
		}
	}
	return nil
}

func (r *jsonRows) given() []bool { return r.ids }

func (r *jsonRows) read(b *data.Block, max int) error {
	b.Reset(r.rows, r.kinds)
	p := &r.p
	for b.Rows < max && !r.end && !b.Full() {
		if p.eat(']') {
			r.end = true
			break
		}
		if r.open && !p.eat(',') {
			return p.fail("want a comma or ]")
		}
		r.open = true
		r.rows++
		row := r.readObject
		if r.arrays {
			row = r.readArray
		}
		if err := row(b); err != nil {
			if q, ok := err.(*Problem); ok && q.Row == 0 {
				q.Row = r.rows
			}
			return err
		}
		b.Rows++
	}
	if b.Rows == 0 {
		return io.EOF
	}
	return nil
}

func (r *jsonRows) readObject(b *data.Block) error {
	p, expect, fields := &r.p, 0, 0
	if p.skip(); p.i < len(p.b) && p.b[p.i] == '[' {
		return p.fail(`a row is an array, but there are no "columns": add them, or send objects`)
	}
	err := p.object(func(key []byte) error {
		j := expect // rows mostly have their keys in one order
		if j >= len(r.d.columns) || string(key) != r.d.columns[j] {
			var ok bool
			if j, ok = r.d.index[string(key)]; !ok {
				q := problem(http.StatusBadRequest, "bad_columns", "the model does not know the column %s: remove it", show(key))
				q.Column = string(key)
				return q
			}
		}
		if j == unread {
			return p.ignore(0)
		}
		if r.last[j] == r.rows {
			return r.about(j, "the column %s comes twice", show(key))
		}
		if r.last[j], expect = r.rows, j+1; j < r.d.fields {
			fields++
		} else {
			r.ids[j] = true
		}
		return r.cell(b, j)
	})
	if err != nil {
		return err
	}
	for j := range r.last {
		if r.last[j] == r.rows {
			continue
		}
		if j < r.d.fields {
			return r.about(j, "the column %s is not there: send null if its value is unknown", show(r.d.columns[j]))
		}
		b.AppendText(j, nil)
	}
	return nil
}

func (r *jsonRows) readArray(b *data.Block) error {
	p, n := &r.p, 0
	if !p.eat('[') {
		return p.fail("with \"columns\", a row must be an array")
	}
	for ; !p.eat(']'); n++ {
		if n > 0 && !p.eat(',') {
			return p.fail("want a comma or ]")
		}
		if n == len(r.columns) {
			return p.fail("more than the %d cells that \"columns\" names", len(r.columns))
		}
		if j := r.columns[n]; j == unread {
			if err := p.ignore(0); err != nil {
				return err
			}
		} else if err := r.cell(b, j); err != nil {
			return err
		}
	}
	if n != len(r.columns) {
		return p.fail("%d cells, \"columns\" names %d", n, len(r.columns))
	}
	for j := r.d.fields; j < len(r.ids); j++ {
		if !r.ids[j] {
			b.AppendText(j, nil)
		}
	}
	return nil
}

// cell reads a scalar into column j.
func (r *jsonRows) cell(b *data.Block, j int) error {
	text, err := r.p.scalar()
	if err != nil {
		if q, ok := err.(*Problem); ok {
			q.Column = r.d.columns[j]
		}
		return err
	}
	if !appendCell(b, j, r.kinds[j], text) {
		return r.about(j, "column %s is %s, want a number", show(r.d.columns[j]), show(text))
	}
	if r.kinds[j] == data.Number {
		if v := b.Cols[j].Num[len(b.Cols[j].Num)-1]; math.IsInf(v, 0) {
			return r.about(j, "column %s is infinite", show(r.d.columns[j]))
		}
	}
	return nil
}

func (r *jsonRows) about(j int, format string, args ...any) *Problem {
	q := problem(http.StatusBadRequest, "bad_value", format, args...)
	q.Column = r.d.columns[j]
	return q
}

// show quotes a text for a message, cut to a readable length.
func show[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

// maxDepth bounds the nesting of values that are not read.
const maxDepth = 16

// jsonParser reads JSON (RFC 8259) from front to back.
type jsonParser struct {
	b        []byte
	i        int
	key, val []byte // unescaped copies
}

func (p *jsonParser) skip() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\t' || p.b[p.i] == '\r' || p.b[p.i] == '\n') {
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

func (p *jsonParser) fail(format string, args ...any) error {
	found := "the end"
	if p.i < len(p.b) {
		found = show(p.b[p.i:min(len(p.b), p.i+12)])
	}
	return problem(http.StatusBadRequest, "bad_json", "%s (byte %d: %s)", fmt.Sprintf(format, args...), p.i+1, found)
}

// object hands every key to f, which must read the value. The key lives until the next string is read.
func (p *jsonParser) object(f func(key []byte) error) error {
	if !p.eat('{') {
		return p.fail("want an object")
	}
	for first := true; ; first = false {
		if p.eat('}') {
			return nil
		}
		if !first && !p.eat(',') {
			return p.fail("want a comma or }")
		}
		p.skip()
		key, err := p.string(&p.key)
		if err != nil {
			return err
		}
		if !p.eat(':') {
			return p.fail("want a colon")
		}
		if err := f(key); err != nil {
			return err
		}
	}
}

// scalar reads a number, string, true, false or null, and gives its text, nil for null. It lives until the next one.
func (p *jsonParser) scalar() ([]byte, error) {
	p.skip()
	if p.i == len(p.b) {
		return nil, p.fail("want a value")
	}
	at := p.i
	switch c := p.b[p.i]; {
	case c == '"':
		return p.string(&p.val)
	case c == '{' || c == '[':
		return nil, p.fail("a nested value: cells are numbers, strings, true, false and null")
	case c == 't' && p.word("true"), c == 'f' && p.word("false"), (c == '-' || c >= '0' && c <= '9') && p.number():
		return p.b[at:p.i], nil
	case c == 'n' && p.word("null"):
		return nil, nil
	}
	p.i = at
	return nil, p.fail("want a number, string, true, false or null")
}

func (p *jsonParser) word(w string) bool {
	if len(p.b)-p.i < len(w) || string(p.b[p.i:p.i+len(w)]) != w {
		return false
	}
	p.i += len(w)
	return true
}

func (p *jsonParser) digits() bool {
	from := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > from
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (p *jsonParser) number() bool {
	if p.b[p.i] == '-' {
		p.i++
	}
	from := p.i
	if !p.digits() || p.b[from] == '0' && p.i > from+1 {
		return false
	}
	if p.i < len(p.b) && p.b[p.i] == '.' {
		p.i++
		if !p.digits() {
			return false
		}
	}
	if p.i < len(p.b) && (p.b[p.i] == 'e' || p.b[p.i] == 'E') {
		p.i++
		if p.i < len(p.b) && (p.b[p.i] == '+' || p.b[p.i] == '-') {
			p.i++
		}
		return p.digits()
	}
	return true
}

// string reads a string. Without escapes it is a part of the body, else a copy in buf.
func (p *jsonParser) string(buf *[]byte) ([]byte, error) {
	if p.i == len(p.b) || p.b[p.i] != '"' {
		return nil, p.fail("want a string")
	}
	start, plain := p.i, true
	for i := start + 1; i < len(p.b); i++ {
		switch c := p.b[i]; {
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			p.i = i
			return nil, p.fail("a control character in a string must be escaped")
		case c == '"':
			if plain && utf8.Valid(p.b[start+1:i]) { // encoding/json replaces what is not UTF-8
				p.i = i + 1
				return p.b[start+1 : i], nil
			}
			var s string
			if err := json.Unmarshal(p.b[start:i+1], &s); err != nil {
				return nil, p.fail("a wrong escape in a string")
			}
			p.i = i + 1
			*buf = append((*buf)[:0], s...)
			return *buf, nil
		}
	}
	return nil, p.fail("the string is not closed")
}

// ignore reads any value.
func (p *jsonParser) ignore(depth int) error {
	p.skip()
	if p.i == len(p.b) {
		return p.fail("want a value")
	}
	if depth > maxDepth {
		return p.fail("values are nested too deeply")
	}
	switch p.b[p.i] {
	case '{':
		return p.object(func([]byte) error { return p.ignore(depth + 1) })
	case '[':
		p.i++
		for n := 0; !p.eat(']'); n++ {
			if n > 0 && !p.eat(',') {
				return p.fail("want a comma or ]")
			}
			if err := p.ignore(depth + 1); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := p.scalar()
	return err
}
