package data

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/randfeat/randfeat/internal/cell"
)

// Dropping is a table without the rows in which one of some columns is missing.
type Dropping struct {
	Source
	at      []int
	dropped atomic.Int64 // rows left out by the last reader that reached the end
}

// DropMissing returns src without the rows that have no value in one of the columns. A name that is not a
// column is an error of kind [ErrSchema].
func DropMissing(src Source, columns []string) (*Dropping, error) {
	d := &Dropping{Source: src}
	names := src.Columns()
	for _, c := range columns {
		j := slices.Index(names, c)
		if j < 0 {
			return nil, &InputError{Place: src.Name(), Err: ErrSchema,
				Detail: fmt.Sprintf("no column %s; the columns are %s", cell.Quote(c), cell.QuoteList(names))}
		}
		d.at = append(d.at, j)
	}
	return d, nil
}

// Unwrap returns the whole table.
func (d *Dropping) Unwrap() Source { return d.Source }

// Dropped returns how many rows the last complete reading left out.
func (d *Dropping) Dropped() int64 { return d.dropped.Load() }

// Open starts at the first row that is kept. Columns to be skipped are still read if they decide about rows,
// and removed afterwards.
func (d *Dropping) Open(want []Kind) (Reader, error) {
	asked := want
	if want != nil {
		want = slices.Clone(want)
		for _, j := range d.at {
			// Text, because a missing value is recognised in any column.
			if want[j] == Skip {
				want[j] = Text
			}
		}
	}
	r, err := d.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &droppingReader{Reader: r, d: d, asked: asked}, nil
}

type droppingReader struct {
	Reader
	d       *Dropping
	asked   []Kind
	row     int64
	unit    Unit
	inUnit  int64 // rows of the unit handed on so far
	dropped int64
	kept    []int // row numbers in the underlying block of the rows kept, for Where
}

func (r *droppingReader) Where(i int) string { return r.Reader.Where(r.kept[i]) }

func (r *droppingReader) Read(b *Block, most int) error {
	for {
		if err := r.Reader.Read(b, most); err != nil {
			r.d.dropped.Store(r.dropped)
			return err
		}
		r.kept = r.kept[:0]
	rows:
		for i := range b.Rows {
			for _, j := range r.d.at {
				c := &b.Cols[j]
				if c.Text != nil && c.Text[i] == nil || c.Num != nil && math.IsNaN(c.Num[i]) {
					r.dropped++
					continue rows
				}
			}
			r.kept = append(r.kept, i)
		}
		if len(r.kept) == 0 {
			continue
		}
		b.Keep(r.kept)
		// Row numbers within a unit restart with the unit, as in the underlying reader.
		if b.Unit != r.unit {
			r.unit, r.inUnit = b.Unit, 0
		}
		b.First, b.Row = r.row, r.inUnit
		r.row += int64(b.Rows)
		r.inUnit += int64(b.Rows)
		for j, k := range r.asked {
			if k == Skip {
				b.Cols[j] = Column{}
			}
		}
		return nil
	}
}
