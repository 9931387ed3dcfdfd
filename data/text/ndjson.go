package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/cell"
)

// jsonSource is NDJSON: one flat JSON object per line, of numbers, strings, true, false and null. The columns
// are the keys found in the sample. A key that a row lacks is a missing value; a key that occurs only after the
// sample is an error, because the columns are already fixed.
type jsonSource struct {
	in      input
	o       data.Options
	columns []string
	width   int // bytes of the first row, to estimate rows per piece
	blocks  *textBlocks
}

func newJSONSource(in input, sample []byte, whole bool, o data.Options) (data.Source, error) {
	if !whole { // use complete lines only, unless the first line is longer than the sample
		if i := bytes.LastIndexByte(sample, '\n'); i >= 0 {
			sample = sample[:i+1]
		} else if in.size < 0 {
			return nil, raw.Errorf(in.name, "the first line is longer than %d bytes, too long for a stream: write it to a file first", len(sample))
		} else {
			return newJSONSourceFrom(in, in, 1, o)
		}
	}
	first := input{name: in.name, size: int64(len(sample)), open: raw.Bytes("", sample).Open}
	return newJSONSourceFrom(in, first, math.MaxInt, o)
}

// newJSONSourceFrom collects the columns from at most rows rows of first, another view of the input.
func newJSONSourceFrom(in, first input, rows int, o data.Options) (data.Source, error) {
	// JSON strings contain no raw line ends, so every line end is a boundary.
	blocks, err := newTextBlocks(in, o, 0, func(text []byte, _ bool) (int, bool) {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			return -1, false
		}
		return end, true
	})
	if err != nil {
		return nil, err
	}
	s := &jsonSource{in: in, o: o, blocks: blocks}
	l, err := newLines(first, o.MaxLine)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	seen := map[string]bool{}
	for _, c := range o.Columns {
		seen[c] = true
	}
	s.columns = slices.Clone(o.Columns)
	cells := 0
	for n := 0; n < rows; {
		switch err := l.next(); {
		case err == io.EOF && n == 0:
			return nil, raw.Errorf(in.name, "the file has no rows")
		case err == io.EOF:
			return s, nil
		case err != nil:
			return nil, err
		}
		p := lineScanner{JSONScanner: cell.JSONScanner{Data: l.record()}, lines: l}
		if p.blank() {
			continue
		}
		if n++; n == 1 {
			s.width = l.n
		}
		err := p.object(func(key, _ []byte, at, _ int) error {
			cells++
			if !seen[string(key)] {
				if o.Columns != nil {
					return raw.Errorf(l.place(at), "the key %s is not among the columns, %s", cell.Quote(key),
						cell.QuoteList(o.Columns))
				}
				seen[string(key)] = true
				s.columns = append(s.columns, string(key))
				if len(s.columns) > o.MaxColumns { // test first: place takes time in proportion to the line
					return raw.CheckWidth(l.place(at), len(s.columns), o.MaxColumns)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(s.columns) == 0 {
			return nil, raw.Errorf(l.place(0), "an object without keys")
		}
		// Every row gets a cell for every column. New keys in every row would therefore take time and memory
		// quadratic in the size of the file.
		if all := n * len(s.columns); all > 1<<24 && cells < all/256 {
			return nil, raw.Errorf(l.place(0), "%d different keys in %d rows of some %d: is a value written as a key? "+
				"Give every row the same keys", len(s.columns), n, cells/n)
		}
	}
	return s, nil
}

func (s *jsonSource) Name() string      { return s.in.name }
func (s *jsonSource) Columns() []string { return s.columns }
func (s *jsonSource) Encoding() string  { return s.in.encoding.name() }

// Resolved returns o with the keys that were found, as csvSource.Resolved does.
func (s *jsonSource) Resolved(o data.Options) data.Options {
	o.Delimiter, o.Header, o.Columns = s.o.Delimiter, s.o.Header, s.Columns()
	return o
}

// TextEncoding is for [data.As].
func (s *jsonSource) TextEncoding() string { return s.in.encoding.decided() }

// Blocks is how many blocks the file is cut into.
func (s *jsonSource) Blocks() int { return s.blocks.n }

// Block is a source of one of them.
func (s *jsonSource) Block(i int) (data.Source, error) { return s.block(i) }

func (s *jsonSource) block(i int) (*jsonSource, error) {
	out := *s
	if s.blocks.n == 1 && i == 0 {
		out.in.encoding = s.blocks.fresh()
		return &out, nil
	}
	in, _, err := s.blocks.block(i)
	out.in, out.blocks = in, &textBlocks{in: in, n: 1, text: s.blocks.text}
	return &out, err
}

func (s *jsonSource) Open(want []data.Kind) (data.Reader, error) {
	return openText(s, s.blocks, s.columns, want)
}

func (s *jsonSource) open(kinds []data.Kind) (*textReader, error) {
	missing := data.NewMissingTexts(s.o.Missing)
	index := make(map[string]int, len(s.columns))
	for j, c := range s.columns {
		index[c] = j
	}
	return newTextReader(s.in, s.o, s.columns, kinds, nil, 0, s.width, func(l *lines) rows {
		return &jsonReader{lines: l, columns: s.columns, want: kinds, missing: missing, index: index,
			seen: make([]int64, len(s.columns)), strict: s.o.Strict}
	})
}

// jsonReader parses one object per line.
type jsonReader struct {
	*lines
	columns []string
	want    []data.Kind
	missing *data.MissingTexts
	index   map[string]int
	seen    []int64 // last row, from 1, that had the key: finds duplicate and missing keys
	row     int64
	strict  bool
}

// parseRow appends the next object to the block.
func (r *jsonReader) parseRow(b *data.Block) error {
	for {
		if err := r.next(); err != nil {
			return err
		}
		p := lineScanner{JSONScanner: cell.JSONScanner{Data: r.record()}, lines: r.lines}
		if p.blank() {
			continue
		}
		r.row++
		return r.parse(b, &p)
	}
}

func (r *jsonReader) parse(b *data.Block, p *lineScanner) error {
	expect, row := 0, r.row
	err := p.object(func(key, text []byte, at, cellAt int) error {
		j := expect // rows usually have their keys in one order, so try the next column before the map
		if j >= len(r.columns) || string(key) != r.columns[j] {
			var ok bool
			if j, ok = r.index[string(key)]; !ok {
				return raw.Errorf(r.place(at), "the key %s is not in the first rows: give it there too, null if unknown", cell.Quote(key))
			}
		}
		if r.seen[j] == row {
			return raw.Errorf(r.place(at), "the key %s comes twice", cell.Quote(key))
		}
		r.seen[j], expect = row, j+1
		if p.nested && r.want[j] != data.Skip {
			return &data.InputError{Place: r.place(cellAt), Column: r.columns[j], Err: data.ErrNested,
				Detail: fmt.Sprintf("column %s is nested: leave it out, or write its parts as columns of their own",
					cell.Quote(r.columns[j]))}
		}
		if text != nil && r.missing.Has(text) {
			text = nil
		}
		switch r.want[j] {
		case data.Text:
			if text != nil && p.Data[cellAt] != '"' {
				b.AppendBare(j, text)
			} else {
				b.AppendText(j, text)
			}
		case data.Number:
			c := &b.Cols[j]
			if text == nil {
				c.Num = append(c.Num, math.NaN())
			} else if c.AppendNumber(text); r.strict && c.Unreadable(len(c.Num)-1) {
				return raw.ColumnErrorf(r.place(cellAt), r.columns[j], data.ErrUnreadable,
					"column %s is %s, want a number",
					cell.Quote(r.columns[j]), cell.Quote(text))
			}
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
		case data.Text:
			b.AppendText(j, nil)
		case data.Number:
			b.Cols[j].Num = append(b.Cols[j].Num, math.NaN())
		}
	}
	return nil
}

// lineScanner reads the object of a line and reports errors with their place.
type lineScanner struct {
	cell.JSONScanner
	lines  *lines
	nested bool // the value is an object or an array, which was skipped
}

// blank reports whether nothing is left on the line.
func (p *lineScanner) blank() bool {
	p.Skip()
	return p.Pos == len(p.Data)
}

// object reads the whole line as an object and passes every entry to f, with the offsets of key and value. null
// and nested values are nil. key and value are valid until the next entry.
func (p *lineScanner) object(f func(key, value []byte, keyAt, valueAt int) error) error {
	err := p.Object(func(key []byte, keyAt int) error {
		p.Skip()
		valueAt := p.Pos
		value, err := p.Scalar()
		var e *cell.JSONError
		if p.nested = errors.As(err, &e) && e.Wrong == cell.Nested; p.nested {
			err = p.Ignore()
		}
		if err != nil {
			return err
		}
		return f(key, value, keyAt, valueAt)
	})
	if err == nil && !p.blank() {
		err = &cell.JSONError{Pos: p.Pos, Want: "the end of the line"}
	}
	var e *cell.JSONError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Want == "":
		return raw.Errorf(p.lines.place(e.Pos), "%s", e.Wrong)
	}
	found := "the end of the line"
	if e.Pos < len(p.Data) {
		found = cell.Quote(p.Data[e.Pos:])
	}
	return raw.Errorf(p.lines.place(e.Pos), "%s, want %s", found, e.Want)
}
