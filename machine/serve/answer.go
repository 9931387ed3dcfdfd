package serve

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/cell"
)

// answer writes predictions as JSON, CSV or NDJSON into a buffer. The answer is complete before a byte is sent,
// so an error in the last row still becomes a status.
type answer struct {
	w       *bytes.Buffer
	kind    string
	records bool // rows are objects, not arrays
	all     []column
	shown   []int // columns of all that are written
	rows    int
	cell    []byte // memory for one cell
}

// column is a column of the rows that a batcher returns.
type column struct {
	name string
	key  []byte // the name as a JSON key, with its colon
	kind data.Kind
}

func newColumn(name string, kind data.Kind) column {
	return column{name, append(cell.AppendJSON(nil, []byte(name)), ':'), kind}
}

// begin starts an answer of the model with a given checksum: the identifiers that the request had, then
// predictions. given says which of the first columns, the identifiers, to write.
func (a *answer) begin(kind string, records bool, sha256 string, all []column, given []bool) {
	a.kind, a.records, a.all, a.shown, a.rows = kind, records || kind == typeNDJSON, all, a.shown[:0], 0
	for j := range all {
		if j >= len(given) || given[j] {
			a.shown = append(a.shown, j)
		}
	}
	switch kind {
	case typeCSV:
		for i, j := range a.shown {
			if i > 0 {
				a.w.WriteByte(',')
			}
			a.csvText([]byte(all[j].name))
		}
		a.w.WriteByte('\n')
	case typeJSON:
		a.w.WriteString(`{"model":"`)
		a.w.WriteString(sha256)
		a.w.WriteString(`","columns":[`)
		for i, j := range a.shown {
			if i > 0 {
				a.w.WriteByte(',')
			}
			a.w.Write(all[j].key[:len(all[j].key)-1])
		}
		a.w.WriteString(`],"rows":[`)
	}
}

// block writes the rows of a block.
func (a *answer) block(b *data.Block) {
	for i := range b.Rows {
		switch {
		case a.kind == typeCSV:
			a.csvRow(b, i)
		default:
			if a.kind == typeJSON && a.rows > 0 {
				a.w.WriteByte(',')
			}
			a.jsonRow(b, i)
		}
		a.rows++
	}
}

func (a *answer) csvRow(b *data.Block, i int) {
	for c, j := range a.shown {
		if c > 0 {
			a.w.WriteByte(',')
		}
		if a.all[j].kind == data.Text {
			a.csvText(b.Cols[j].Text[i])
		} else if v := b.Cols[j].Num[i]; !math.IsNaN(v) {
			a.w.Write(cell.AppendNumber(a.w.AvailableBuffer(), v))
		} else {
			a.csvText(nil)
		}
	}
	a.w.WriteByte('\n')
}

// csvText writes a field.
func (a *answer) csvText(t []byte) {
	a.w.Write(cell.AppendCSV(a.w.AvailableBuffer(), t, ',', len(a.shown) == 1))
}

func (a *answer) jsonRow(b *data.Block, i int) {
	open, shut := byte('['), byte(']')
	if a.records {
		open, shut = '{', '}'
	}
	a.w.WriteByte(open)
	for c, j := range a.shown {
		if c > 0 {
			a.w.WriteByte(',')
		}
		if a.records {
			a.w.Write(a.all[j].key)
		}
		a.cell = a.cell[:0]
		if a.all[j].kind == data.Text {
			a.cell = cell.AppendJSONCell(a.cell, b.Cols[j].Text[i], b.Cols[j].IsBare(i))
		} else if v := b.Cols[j].Num[i]; math.IsNaN(v) || math.IsInf(v, 0) {
			a.cell = append(a.cell, "null"...)
		} else {
			a.cell = cell.AppendNumber(a.cell, v)
		}
		a.w.Write(a.cell)
	}
	a.w.WriteByte(shut)
	if a.kind == typeNDJSON {
		a.w.WriteByte('\n')
	}
}

// close ends an answer. In JSON it lists values that are unlike the training rows.
func (a *answer) close(surprises []data.Surprise) error {
	if a.kind != typeJSON {
		return nil
	}
	a.w.WriteByte(']')
	if len(surprises) > 0 {
		text, err := json.Marshal(surprises)
		if err != nil {
			return err
		}
		a.w.WriteString(`,"surprises":`)
		a.w.Write(text)
	}
	a.w.WriteString("}\n")
	return nil
}
