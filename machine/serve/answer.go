package serve

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/randfeat/randfeat/data"
)

// answer writes predictions as JSON, CSV or NDJSON.
type answer struct {
	w       *bytes.Buffer
	kind    string
	records bool // rows are objects
	columns []int
	names   [][]byte // JSON strings, with a colon for records
	kinds   []data.Kind
	rows    int
	cell    []byte
}

// newAnswer begins an answer: identifiers that were given, then predictions.
func newAnswer(w *bytes.Buffer, kind string, records bool, d *loaded, given []bool, names []string, kinds []data.Kind) *answer {
	a := &answer{w: w, kind: kind, records: records || kind == typeNDJSON}
	var columns []string
	for j := d.fields; j < len(d.columns); j++ {
		if given[j] {
			a.columns = append(a.columns, j-d.fields)
			a.kinds = append(a.kinds, data.Text)
			columns = append(columns, d.columns[j])
		}
	}
	for i, n := range names {
		a.columns = append(a.columns, len(d.columns)-d.fields+i)
		a.kinds = append(a.kinds, kinds[i])
		columns = append(columns, n)
	}
	if kind == typeCSV {
		for i, n := range columns {
			if i > 0 {
				w.WriteByte(',')
			}
			a.csvText([]byte(n))
		}
		w.WriteByte('\n')
		return a
	}
	if kind == typeJSON {
		w.WriteString(`{"model":"` + d.sha256 + `","columns":[`)
	}
	for i, n := range columns {
		name := appendString(nil, []byte(n))
		if kind == typeJSON {
			if i > 0 {
				w.WriteByte(',')
			}
			w.Write(name)
		}
		a.names = append(a.names, append(name, ':'))
	}
	if kind == typeJSON {
		w.WriteString(`],"rows":[`)
	}
	return a
}

// block writes rows.
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
	for c, j := range a.columns {
		if c > 0 {
			a.w.WriteByte(',')
		}
		if a.kinds[c] == data.Text {
			a.csvText(b.Cols[j].Text[i])
		} else if v := b.Cols[j].Num[i]; !math.IsNaN(v) {
			a.w.Write(strconv.AppendFloat(a.w.AvailableBuffer(), v, 'g', -1, 64))
		}
	}
	a.w.WriteByte('\n')
}

// csvText quotes a field where reading it back needs that.
func (a *answer) csvText(t []byte) {
	blank := func(c byte) bool { return c == ' ' || c == '\t' }
	if !bytes.ContainsAny(t, ",\"\r\n") && (len(t) == 0 || !blank(t[0]) && !blank(t[len(t)-1])) {
		a.w.Write(t)
		return
	}
	a.w.WriteByte('"')
	a.w.Write(bytes.ReplaceAll(t, []byte{'"'}, []byte{'"', '"'}))
	a.w.WriteByte('"')
}

func (a *answer) jsonRow(b *data.Block, i int) {
	open, shut := byte('['), byte(']')
	if a.records {
		open, shut = '{', '}'
	}
	a.w.WriteByte(open)
	for c, j := range a.columns {
		if c > 0 {
			a.w.WriteByte(',')
		}
		if a.records {
			a.w.Write(a.names[c])
		}
		a.cell = a.cell[:0]
		if a.kinds[c] == data.Text {
			a.cell = appendString(a.cell, b.Cols[j].Text[i])
		} else if v := b.Cols[j].Num[i]; math.IsNaN(v) || math.IsInf(v, 0) {
			a.cell = append(a.cell, "null"...)
		} else {
			a.cell = strconv.AppendFloat(a.cell, v, 'g', -1, 64)
		}
		a.w.Write(a.cell)
	}
	a.w.WriteByte(shut)
	if a.kind == typeNDJSON {
		a.w.WriteByte('\n')
	}
}

func (a *answer) close() {
	if a.kind == typeJSON {
		a.w.WriteString("]}\n")
	}
}

// appendString appends a JSON string; nil is null.
func appendString(dst, t []byte) []byte {
	if t == nil {
		return append(dst, "null"...)
	}
	for _, c := range t {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			s, err := json.Marshal(string(t))
			if err != nil { // a string: it cannot
				return append(dst, "null"...)
			}
			return append(dst, s...)
		}
	}
	return append(append(append(dst, '"'), t...), '"')
}
