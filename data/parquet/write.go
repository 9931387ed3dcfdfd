package parquet

import (
	"fmt"
	"math"
	"reflect"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// table is a group whose fields keep their order; pq.Group sorts them by name.
type table struct {
	pq.Group
	order []string
}

func (t table) Fields() []pq.Field {
	at := make(map[string]pq.Field, len(t.order))
	for _, f := range t.Group.Fields() {
		at[f.Name()] = f
	}
	fields := make([]pq.Field, len(t.order))
	for i, name := range t.order {
		fields[i] = at[name]
	}
	return fields
}

// GoType is never used for writing rows; that of pq.Group fails on names that differ only in case.
func (t table) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

// rowGroup is the number of rows that are collected before they are written.
const rowGroup = 1 << 16

type writer struct {
	path  string
	file  *data.AtomicFile
	w     *pq.GenericWriter[any]
	kinds []data.Kind
	rows  []pq.Row
	since int // rows since the last flush
	err   error
}

// Create starts a table in a Parquet file: optional doubles and strings, snappy-compressed. The file appears on Close, in
// one step.
func Create(path string, columns []string, kinds []data.Kind) (w data.Writer, err error) {
	if len(columns) == 0 || len(columns) != len(kinds) {
		return nil, fmt.Errorf("%s: %d columns of %d kinds to write: %w", path, len(columns), len(kinds), dense.ErrShape)
	}
	t := table{Group: pq.Group{}, order: columns}
	for j, name := range columns {
		if _, ok := t.Group[name]; ok || name == "" {
			return nil, fmt.Errorf("%s: column name %q is empty or comes twice", path, name)
		}
		switch kinds[j] {
		case data.Number:
			t.Group[name] = pq.Optional(pq.Leaf(pq.DoubleType))
		case data.Text:
			t.Group[name] = pq.Optional(pq.String())
		default:
			return nil, fmt.Errorf("%s: column %q is to be written as %v, want number or text", path, name, kinds[j])
		}
	}
	file, err := data.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Abort()
		}
	}()
	return &writer{path: path, file: file, kinds: kinds,
		w: pq.NewGenericWriter[any](file, pq.NewSchema("table", t), pq.Compression(&pq.Snappy))}, nil
}

func (w *writer) WriteBlock(b *data.Block) error {
	if w.err == nil {
		w.err = w.write(b)
	}
	return w.err
}

func (w *writer) write(b *data.Block) error {
	if err := data.CheckBlock(b, w.kinds); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	for first := 0; first < b.Rows; first += batch {
		w.rows = w.rows[:0]
		for i := first; i < min(first+batch, b.Rows); i++ {
			if len(w.rows) < cap(w.rows) {
				w.rows = w.rows[:len(w.rows)+1]
			} else {
				w.rows = append(w.rows, nil)
			}
			row := w.rows[len(w.rows)-1][:0]
			for j, k := range w.kinds {
				v, level := pq.NullValue(), 0
				if k == data.Number {
					if x := b.Cols[j].Num[i]; !math.IsNaN(x) {
						v, level = pq.DoubleValue(x), 1
					}
				} else if t := b.Cols[j].Text[i]; t != nil {
					v, level = pq.ByteArrayValue(t), 1
				}
				row = append(row, v.Level(0, level, j))
			}
			w.rows[len(w.rows)-1] = row
		}
		if _, err := w.w.WriteRows(w.rows); err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
		if w.since += len(w.rows); w.since >= rowGroup {
			w.since = 0
			if err := w.w.Flush(); err != nil {
				return fmt.Errorf("%s: %w", w.path, err)
			}
		}
	}
	return nil
}

func (w *writer) Close() error {
	defer w.Abort()
	if w.err != nil {
		return w.err
	}
	if err := w.w.Close(); err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	return w.file.Commit()
}

func (w *writer) Abort() {
	if w.err == nil {
		w.err = fmt.Errorf("%s: the writer is closed", w.path)
	}
	w.file.Abort()
}
