package main

// #include "randfeat.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// predictor predicts tables of given columns.
type predictor struct {
	p       *machine.TablePredictor
	columns []string // of the tables
	names   []string // of the predictions
	kinds   []data.Kind
	classes map[string]float64
	runs    sync.Pool // of *predicting
}

// predicting is the memory of a prediction.
type predicting struct {
	run        *machine.TableRun
	kinds      []data.Kind
	in, out    data.Block
	rows       table // of rf_predict_rows
	rowsReader reader
}

type predictorOptions struct {
	Columns       []string `json:"columns"`
	Probabilities bool     `json:"probabilities"`
	Scores        bool     `json:"scores"`
	Variance      bool     `json:"variance"`
	Interval      float64  `json:"interval"`
	Float32       bool     `json:"float32"`
	Strict        bool     `json:"strict"`
	Workers       int      `json:"workers"`
}

//export rf_predictor_new
func rf_predictor_new(h C.uint64_t, options C.rf_string, handle *C.uint64_t, info, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		m, err := get[*model](h)
		if err != nil {
			return err
		}
		var o predictorOptions
		if err := parse(options, &o); err != nil {
			return err
		}
		tp, err := machine.NewTablePredictor(m.Model, machine.TableOptions{Probabilities: o.Probabilities,
			Scores: o.Scores, Variance: o.Variance, Interval: o.Interval, Float32: o.Float32, Strict: o.Strict,
			Workers: o.Workers, NoIDs: true, Watch: true})
		if err != nil {
			return err
		}
		p := &predictor{p: tp, columns: o.Columns}
		p.names, p.kinds = tp.Columns()
		if m.Task == machine.Classification {
			p.classes = map[string]float64{}
			for i, c := range m.Schema.Targets[0].Classes {
				p.classes[c] = float64(i)
			}
		}
		s, err := p.open() // finds wrong columns now
		if err != nil {
			return err
		}
		p.runs.Put(s)
		if err := giveJSON(info, map[string]any{"columns": p.names}); err != nil {
			return err
		}
		*handle = put(p)
		return nil
	})
}

func (p *predictor) open() (*predicting, error) {
	if s, ok := p.runs.Get().(*predicting); ok {
		return s, nil
	}
	r, err := p.p.Open(p.columns)
	if err != nil {
		return nil, err
	}
	s := &predicting{run: r, kinds: r.Kinds()}
	s.rows = table{names: p.columns, cols: make([]column, len(p.columns))}
	for j := range s.rows.cols {
		s.rows.cols[j].chunks = make([]chunk, 1)
	}
	return s, nil
}

//export rf_predict
func rf_predict(h, th C.uint64_t, out *C.rf_array, jobOut *C.uint64_t, surprises, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		p, err := get[*predictor](h)
		if err != nil {
			return err
		}
		t, err := get[*table](th)
		if err != nil {
			return err
		}
		if !slices.Equal(t.names, p.columns) {
			return fmt.Errorf("the table has the columns %q, the predictor %q: %w", t.names, p.columns, data.ErrSchema)
		}
		dst, err := p.output(out, t.rows)
		if err != nil {
			return err
		}
		return run(func(ctx context.Context, progress func(string, int64, int64)) (any, any, error) {
			s, err := p.open()
			if err != nil {
				return nil, nil, err
			}
			r, err := p.predict(ctx, progress, s, t, dst)
			return nil, r, err
		}, jobOut, nil, surprises)
	})
}

//export rf_predict_rows
func rf_predict_rows(h C.uint64_t, x, out *C.rf_array, jobOut *C.uint64_t, surprises, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		p, err := get[*predictor](h)
		if err != nil {
			return err
		}
		if err := check(x, "x"); err != nil {
			return err
		}
		if int(x.cols) != len(p.columns) {
			return fmt.Errorf("x has %d columns, the predictor has %d: %w", int(x.cols), len(p.columns), dense.ErrShape)
		}
		if size := sizeOf(byte(x.dtype)); size == 0 {
			return errors.New("x is of an unknown type")
		}
		dst, err := p.output(out, int64(x.rows))
		if err != nil {
			return err
		}
		array := *x
		work := func(ctx context.Context, progress func(string, int64, int64)) (any, any, error) {
			s, err := p.open()
			if err != nil {
				return nil, nil, err
			}
			s.rows.rows = int64(array.rows)
			for j := range s.rows.cols {
				c := &s.rows.cols[j]
				c.integer = array.dtype != C.RF_F64 && array.dtype != C.RF_F32
				c.chunks[0] = chunk{n: int(array.rows), base: unsafe.Add(array.data, j*int(array.col_stride)),
					stride: int(array.row_stride), dtype: byte(array.dtype)}
			}
			r, err := p.predict(ctx, progress, s, &s.rows, dst)
			return nil, r, err
		}
		return run(work, jobOut, nil, surprises)
	})
}

func (p *predictor) output(out *C.rf_array, rows int64) (dense.Matrix[float64], error) {
	if out == nil || out.dtype != C.RF_F64 {
		return dense.Matrix[float64]{}, errors.New("out must be of float64")
	}
	dst, err := output[float64](out, "out")
	if err == nil && (int64(dst.Rows) != rows || dst.Cols != len(p.names)) {
		err = fmt.Errorf("out is %d × %d, want %d × %d", dst.Rows, dst.Cols, rows, len(p.names))
	}
	return dst, err
}

// fewRows are predicted in the calling goroutine: the next block of a long table is read meanwhile.
const fewRows = 512

// predict fills dst and puts s back. The list of surprises is nil if there are none.
func (p *predictor) predict(ctx context.Context, progress func(string, int64, int64), s *predicting, t *table,
	dst dense.Matrix[float64]) (any, error) {
	row := 0
	write := func(b *data.Block) {
		for j := range b.Cols {
			if p.kinds[j] == data.Number {
				for i, v := range b.Cols[j].Num {
					dst.Data[(row+i)*dst.Stride+j] = v
				}
				continue
			}
			for i, v := range b.Cols[j].Text {
				dst.Data[(row+i)*dst.Stride+j] = p.classes[string(v)]
			}
		}
		row += b.Rows
	}
	var err error
	if t.rows <= fewRows {
		s.rowsReader = reader{t: t, want: s.kinds, at: slices.Grow(s.rowsReader.at[:0], len(t.cols))[:len(t.cols)],
			buf: s.rowsReader.buf}
		clear(s.rowsReader.at)
		if t.rows > 0 {
			if err = s.rowsReader.Read(&s.in, fewRows); err == nil {
				if err = s.run.Predict(&s.out, &s.in, s.rowsReader.Where); err == nil {
					write(&s.out)
				}
			}
		}
	} else {
		err = s.run.Each(t, s.kinds, 4096, func(b, _ *data.Block) error {
			write(b)
			progress("predict", int64(row), t.rows)
			return ctx.Err()
		})
	}
	if err != nil {
		return nil, err // s is dropped: what it counted is not known
	}
	var list any
	if found := s.run.TakeSurprises(); len(found) > 0 {
		list = texts(found)
	}
	s.rows.rows = 0
	for j := range s.rows.cols {
		s.rows.cols[j].chunks[0] = chunk{}
	}
	p.runs.Put(s)
	return list, nil
}

// surprise is one with its sentence.
type surprise struct {
	data.Surprise
	Text string `json:"text"`
}

func texts(found []data.Surprise) []surprise {
	list := make([]surprise, len(found))
	for i, f := range found {
		list[i] = surprise{f, f.String()}
	}
	return list
}
