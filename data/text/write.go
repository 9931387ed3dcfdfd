package text

import (
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// NewCSVWriter writes a table as delimited text with a header. Abort keeps the blocks written so far.
func NewCSVWriter(w io.Writer, delim byte, columns []string, kinds []data.Kind) data.Writer {
	c := &csvTable{tableOut: tableOut{w: w, kinds: kinds}, delim: delim}
	for j, name := range columns {
		if j > 0 {
			c.buf = append(c.buf, delim)
		}
		c.buf = cell.AppendCSV(c.buf, []byte(name), delim, len(columns) == 1)
	}
	c.buf = append(c.buf, '\n')
	return c
}

// NewNDJSONWriter writes a table as one object for every row. Abort keeps the blocks written so far.
func NewNDJSONWriter(w io.Writer, columns []string, kinds []data.Kind) data.Writer {
	n := &jsonTable{tableOut: tableOut{w: w, kinds: kinds}}
	for _, name := range columns {
		n.keys = append(n.keys, append(cell.AppendJSON(nil, []byte(name)), ':'))
	}
	return n
}

// tableOut collects bytes for w.
type tableOut struct {
	w     io.Writer
	kinds []data.Kind
	buf   []byte
}

// writeBytes is how many bytes are written at once.
const writeBytes = 1 << 16

// spill writes the collected rows if there are many, or in any case if all is set.
func (t *tableOut) spill(all bool) error {
	if len(t.buf) < writeBytes && !all {
		return nil
	}
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

func (t *tableOut) Close() error { return t.spill(true) }
func (t *tableOut) Abort()       {}

type csvTable struct {
	tableOut
	delim byte
}

func (c *csvTable) WriteBlock(b *data.Block) error {
	if err := b.Check(c.kinds); err != nil {
		return err
	}
	for i := range b.Rows {
		for j, k := range c.kinds {
			if j > 0 {
				c.buf = append(c.buf, c.delim)
			}
			switch {
			case k != data.Number:
				c.buf = cell.AppendCSV(c.buf, b.Cols[j].Text[i], c.delim, len(c.kinds) == 1)
			case !math.IsNaN(b.Cols[j].Num[i]):
				c.buf = cell.AppendNumber(c.buf, b.Cols[j].Num[i])
			// A line without any byte would be an empty line, which readers skip.
			case len(c.kinds) == 1:
				c.buf = append(c.buf, `""`...)
			}
		}
		c.buf = append(c.buf, '\n')
		if err := c.spill(false); err != nil {
			return err
		}
	}
	return nil
}

type jsonTable struct {
	tableOut
	keys [][]byte // with their colons
}

func (n *jsonTable) WriteBlock(b *data.Block) error {
	if err := b.Check(n.kinds); err != nil {
		return err
	}
	for i := range b.Rows {
		sep := byte('{')
		for j, k := range n.kinds {
			n.buf = append(append(n.buf, sep), n.keys[j]...)
			sep = ','
			if k != data.Number {
				n.buf = cell.AppendJSONCell(n.buf, b.Cols[j].Text[i], k == data.Integer || b.Cols[j].IsBare(i))
				continue
			}
			v := b.Cols[j].Num[i]
			switch {
			case math.IsNaN(v):
				n.buf = append(n.buf, "null"...)
			case math.IsInf(v, 0):
				return fmt.Errorf("row %d, column %d is infinite, which JSON cannot say: %w", b.First+int64(i)+1, j+1,
					dense.ErrNotFinite)
			default:
				n.buf = cell.AppendNumber(n.buf, v)
			}
		}
		n.buf = append(n.buf, '}', '\n')
		if err := n.spill(false); err != nil {
			return err
		}
	}
	return nil
}
