package machine

import (
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// TableRows reads the rows of a table by a schema, with or without targets. Columns are found by name. A value that
// does not fit is an error that names the column and the place. The next block is parsed while f works on the current
// one. Memory is two blocks of encoded rows and one of cells.
func TableRows(src data.Source, s *data.Schema, targets bool) (Rows, error) {
	return tableRowsOf(src, s, targets, false, nil)
}

// ModelRows is TableRows with the schema of m, encoded as m predicts them (see [Model.Limits]). If w is not nil, it
// counts how the rows differ from the training rows.
func ModelRows(src data.Source, m *Model, targets bool, w *data.Watch) (Rows, error) {
	if m.Schema == nil {
		return nil, fmt.Errorf("rows of %s for a model without a schema: %w", src.Name(), ErrSetup)
	}
	return tableRowsOf(src, m.Schema, targets, m.Limits(), w)
}

func tableRowsOf(src data.Source, s *data.Schema, targets, limit bool, w *data.Watch) (Rows, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	r := &tableRows{src: src, dim: s.Width()}
	if targets {
		if r.outputs = len(s.Targets); r.outputs == 0 {
			return nil, fmt.Errorf("targets of %s by a schema that has none: %w", src.Name(), ErrSetup)
		}
	}
	var err error
	if r.enc, err = s.Encoder(src.Columns(), targets); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name(), err)
	}
	if limit {
		r.enc.Limit()
	}
	if w != nil {
		r.enc.Watch(w)
	}
	r.kinds = append(r.kinds, r.enc.Kinds()...)
	for _, j := range r.enc.IDs() {
		r.kinds[j] = data.Skip
	}
	return r, nil
}

type tableRows struct {
	src          data.Source
	enc          *data.Encoder
	kinds        []data.Kind
	dim, outputs int
	cells        func(*data.Block) // if not nil, called with every block of cells that is read
}

func (r *tableRows) Dim() int     { return r.dim }
func (r *tableRows) Outputs() int { return r.outputs }

// readCells bounds the number of cells read at a time.
const readCells = 1 << 20

// Each implements Rows. The reader and the encoder run on the goroutine of ahead, f on the caller's.
func (r *tableRows) Each(block int, f func(x, y dense.Matrix[float64]) error) (err error) {
	if block < 1 {
		return fmt.Errorf("blocks of %d rows, want at least 1: %w", block, dense.ErrShape)
	}
	rd, err := r.src.Open(r.kinds)
	if err != nil {
		return err
	}
	defer func() {
		if closing := rd.Close(); err == nil {
			err = closing
		}
	}()
	type rows struct{ x, y dense.Matrix[float64] }
	var cells data.Block
	end := false
	// A reader may return fewer rows than requested, so blocks are assembled here.
	fill := func(b *rows) error {
		b.x, b.y = extended(b.x, 0, r.dim, block), extended(b.y, 0, r.outputs, block)
		for b.x.Rows < block && !end {
			err := rd.Read(&cells, min(block-b.x.Rows, max(1, readCells/len(r.kinds))))
			if err == io.EOF {
				end = true
				break
			}
			if err != nil {
				return err
			}
			if r.cells != nil {
				r.cells(&cells)
			}
			lo := b.x.Rows
			b.x = extended(b.x, lo+cells.Rows, r.dim, block)
			b.y = extended(b.y, lo+cells.Rows, r.outputs, block)
			if err := r.enc.Encode(b.x.RowRange(lo, b.x.Rows), b.y.RowRange(lo, b.y.Rows), &cells,
				rd.Where); err != nil {
				return err
			}
		}
		if b.x.Rows == 0 {
			return io.EOF
		}
		return nil
	}
	return ahead([2]*rows{{}, {}}, fill, func(b *rows) error { return f(b.x, b.y) })
}

// extended returns m with rows rows; new ones are not set. Memory grows by doubling, up to most rows.
func extended(m dense.Matrix[float64], rows, cols, most int) dense.Matrix[float64] {
	if cap(m.Data) < rows*cols {
		grown := dense.New[float64](min(max(rows, 2*m.Rows), max(most, rows)), cols)
		copy(grown.Data, m.Data[:m.Rows*cols])
		m.Data = grown.Data
	}
	return dense.Matrix[float64]{Rows: rows, Cols: cols, Stride: cols, Data: m.Data[:rows*cols]}
}
