package serve

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"unicode/utf8"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// jsonRows reads [{…}, …], {"rows": [{…}, …]} or {"columns": […], "rows": [[…], …]} without building values:
// cells go straight from the body to the block. The constructor passes over the whole body once, to find "rows"
// and "columns" in any order and to refuse broken JSON before any row is predicted.
type jsonRows struct {
	p       cell.JSONScanner
	d       *loaded
	kinds   []data.Kind
	arrays  bool
	columns []int // for arrays: the column that each cell goes to
	ids     []bool
	last    []int64 // number of the last row, from 1, that had the column; finds duplicates and gaps without clearing
	rows    int64
	open    bool // a row has been read: the next needs a comma
	end     bool
}

func newJSONRows(body []byte, d *loaded, kinds []data.Kind) (*jsonRows, error) {
	r := &jsonRows{p: cell.JSONScanner{Data: body}, d: d, kinds: kinds, ids: make([]bool, len(d.columns)),
		last: make([]int64, len(d.columns))}
	if !utf8.Valid(body) {
		for {
			c, n := utf8.DecodeRune(body[r.p.Pos:])
			if c == utf8.RuneError && n == 1 {
				break
			}
			r.p.Pos += n
		}
		return nil, r.fail("the body is not UTF-8")
	}
	rowsAt, columnsAt := -1, -1
	p := &r.p
	if p.Skip(); p.Pos < len(body) && body[p.Pos] == '[' { // rows alone
		rowsAt = p.Pos
		if err := p.Ignore(); err != nil {
			return nil, r.wrong(err)
		}
		if p.End() != nil {
			return nil, r.fail("something after the array")
		}
		p.Pos = rowsAt
		p.Eat('[')
		return r, nil
	}
	err := p.Object(func(key []byte, _ int) error {
		at := &rowsAt
		switch string(key) {
		case "rows":
		case "columns":
			at = &columnsAt
		default:
			return r.fail(`the key %s, want "rows" or "columns"`, show(key))
		}
		if *at >= 0 {
			return r.fail("the key %s comes twice", show(key))
		}
		p.Skip()
		*at = p.Pos
		return p.Ignore()
	})
	if err != nil {
		return nil, r.wrong(err)
	}
	if p.End() != nil {
		return nil, r.fail("something after the object")
	}
	if rowsAt < 0 {
		return nil, r.fail(`no key "rows"`)
	}
	if columnsAt >= 0 {
		r.arrays = true
		p.Pos = columnsAt
		if err := r.readColumns(); err != nil {
			return nil, r.wrong(err)
		}
	}
	p.Pos = rowsAt
	if !p.Eat('[') {
		return nil, r.fail(`"rows" must be an array`)
	}
	return r, nil
}

// readColumns matches the names of the columns of arrays.
func (r *jsonRows) readColumns() error {
	p := &r.p
	var names []string
	if p.Skip(); p.Pos == len(p.Data) || p.Data[p.Pos] != '[' {
		return r.fail(`"columns" must be an array of names`)
	}
	err := p.Array(func(int) error {
		p.Skip()
		name, err := p.Key()
		names = append(names, string(name))
		return err
	})
	if err != nil {
		return err
	}
	// The encoder checks that all fields are present and none is unknown.
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
		if p.Eat(']') {
			r.end = true
			break
		}
		if r.open && !p.Eat(',') {
			return r.fail("want a comma or ]")
		}
		r.open = true
		r.rows++
		row := r.readObject
		if r.arrays {
			row = r.readArray
		}
		if err := r.wrong(row(b)); err != nil {
			if q, ok := err.(*fault); ok && q.Row == 0 {
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
	if p.Skip(); p.Pos < len(p.Data) && p.Data[p.Pos] == '[' {
		return r.fail(`a row is an array, but there are no "columns": add them, or send objects`)
	}
	err := p.Object(func(key []byte, _ int) error {
		j := expect // rows usually have their keys in the same order
		if j >= len(r.d.columns) || string(key) != r.d.columns[j] {
			var ok bool
			if j, ok = r.d.index[string(key)]; !ok {
				remedy := ": remove it"
				if near := similar.Nearest(string(key), r.d.columns); near != "" {
					remedy = fmt.Sprintf(", did you mean %q?", near)
				}
				q := problem(http.StatusBadRequest, "bad_columns", "the model does not know the column %s%s",
					show(key), remedy)
				q.Column = string(key)
				return q
			}
		}
		if j == unread {
			return p.Ignore()
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
	if p.Skip(); p.Pos == len(p.Data) || p.Data[p.Pos] != '[' {
		return r.fail("with \"columns\", a row must be an array")
	}
	err := p.Array(func(int) error {
		if n == len(r.columns) {
			return r.fail("more than the %d cells that \"columns\" names", len(r.columns))
		}
		j := r.columns[n]
		if n++; j == unread {
			return p.Ignore()
		}
		return r.cell(b, j)
	})
	if err != nil {
		return err
	}
	if n != len(r.columns) {
		return r.fail("%d cells, \"columns\" names %d", n, len(r.columns))
	}
	for j := r.d.fields; j < len(r.ids); j++ {
		if !r.ids[j] {
			b.AppendText(j, nil)
		}
	}
	return nil
}

// maxNumber is far beyond any input for which features can be computed. A bound keeps squares finite.
const maxNumber = 1e100

// cell reads a scalar into column j.
func (r *jsonRows) cell(b *data.Block, j int) error {
	r.p.Skip()
	bare := r.p.Pos < len(r.p.Data) && r.p.Data[r.p.Pos] != '"'
	// A nested value of a constant column does not matter for the prediction.
	if j >= r.d.ids && bare && (r.p.Data[r.p.Pos] == '{' || r.p.Data[r.p.Pos] == '[') {
		b.AppendText(j, nil)
		return r.p.Ignore()
	}
	text, err := r.p.Scalar()
	if err != nil {
		err = r.wrong(err)
		if q, ok := err.(*fault); ok {
			q.Column = r.d.columns[j]
		}
		return err
	}
	if !appendCell(b, j, r.kinds[j], text, bare) {
		return r.about(j, "column %s is %s, want a number", show(r.d.columns[j]), show(text))
	}
	if r.kinds[j] == data.Number {
		if v := b.Cols[j].Num[len(b.Cols[j].Num)-1]; math.Abs(v) > maxNumber {
			return r.about(j, "column %s is %g, want numbers up to ±%g", show(r.d.columns[j]), v, maxNumber)
		}
	}
	return nil
}

func (r *jsonRows) about(j int, format string, args ...any) *fault {
	q := problem(http.StatusBadRequest, "bad_value", format, args...)
	q.Column = r.d.columns[j]
	return q
}

// fail returns a problem at the current position.
func (r *jsonRows) fail(format string, args ...any) error {
	return r.failAt(r.p.Pos, fmt.Sprintf(format, args...))
}

func (r *jsonRows) failAt(at int, message string) error {
	found := "the end"
	if b := r.p.Data; at < len(b) {
		found = show(b[at:min(len(b), at+12)])
	}
	return problem(http.StatusBadRequest, "bad_json", "%s (byte %d: %s)", message, at+1, found)
}

// wrong turns an error of the scanner into a problem of the client.
func (r *jsonRows) wrong(err error) error {
	var e *cell.JSONError
	if errors.As(err, &e) {
		return r.failAt(e.Pos, e.Error())
	}
	return err
}
