package serve

import (
	"io"
	"math"
	"net/http"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/cell"
)

// rowReader returns the rows of a request in blocks with the columns of a batcher.
type rowReader interface {
	// read replaces b by the next rows, at most max; io.EOF follows the last. Errors about rows are *fault.
	read(b *data.Block, max int) error
	// given says which identifier columns the request has.
	given() []bool
}

// missing are the texts that mean a missing value, in every format.
var missing = data.NewMissingTexts(nil)

// appendCell appends a cell as package data does for NDJSON. nil is missing; bare says that it was not a
// string. It reports false for a text in a column of numbers.
func appendCell(b *data.Block, j int, kind data.Kind, text []byte, bare bool) bool {
	if text != nil && missing.Has(text) {
		text = nil
	}
	switch {
	case kind == data.Text && bare && text != nil:
		b.AppendBare(j, text)
		return true
	case kind == data.Text:
		b.AppendText(j, text)
		return true
	}
	v := math.NaN()
	if text != nil {
		var ok bool
		if v, ok = cell.ParseNumber(cell.TrimBlanks(text)); !ok {
			return false
		}
	}
	b.Cols[j].Num = append(b.Cols[j].Num, v)
	return true
}

// tableRows reads a table of package data and puts its columns in the order of a batcher.
type tableRows struct {
	r     data.Reader
	raw   data.Block
	from  []int // column of the table; unread: an identifier that it does not have
	ids   []bool
	kinds []data.Kind
	rows  int64
}

// gzipMagic marks data that package data would decompress without a bound, so such bodies are refused.
var gzipMagic = []byte{0x1f, 0x8b}

func newTableRows(body []byte, format data.Format, delimiter byte, d *loaded, kinds []data.Kind) (*tableRows, error) {
	if len(body) >= 2 && body[0] == gzipMagic[0] && body[1] == gzipMagic[1] {
		return nil, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body is compressed: send Content-Encoding: gzip with it")
	}
	header := true
	src, err := text.OpenBytes("request", body, data.Options{Format: format, Delimiter: delimiter, Header: &header,
		Encoding: "utf-8"})
	if err != nil {
		return nil, badTable(err)
	}
	columns := src.Columns()
	if _, err := d.model.Schema.Encoder(columns, false); err != nil { // every field once, nothing unknown
		return nil, err
	}
	t := &tableRows{from: make([]int, len(d.columns)), ids: make([]bool, len(d.columns)), kinds: kinds}
	for j := range t.from {
		t.from[j] = unread
	}
	want := make([]data.Kind, len(columns))
	for c, name := range columns {
		want[c] = data.Skip
		if j := d.index[name]; j != unread {
			t.from[j], want[c], t.ids[j] = c, kinds[j], j >= d.fields
		}
	}
	if t.r, err = src.Open(want); err != nil {
		return nil, badTable(err)
	}
	return t, nil
}

func (t *tableRows) given() []bool { return t.ids }

func (t *tableRows) read(b *data.Block, max int) error {
	if err := t.r.Read(&t.raw, max); err != nil {
		if err == io.EOF {
			return err
		}
		p := problemOf(err, t.rows+int64(t.raw.Rows)+1)
		if p.Column == "" { // about the text, whose places are lines
			return badTable(err)
		}
		return p
	}
	b.Reset(t.rows, t.kinds)
	b.Rows = t.raw.Rows
	t.rows += int64(b.Rows)
	for j, c := range t.from {
		switch {
		case c != unread:
			// Columns are borrowed, not copied: raw lives until the next read.
			b.Cols[j] = t.raw.Cols[c]
		default:
			for range b.Rows {
				b.AppendText(j, nil)
			}
		}
	}
	return nil
}

// badTable is a problem with the text itself. It keeps the line number.
func badTable(err error) error {
	return problem(http.StatusBadRequest, "bad_rows", "%v", err)
}
