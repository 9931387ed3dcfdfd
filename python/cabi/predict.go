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

// predictor predicts tables with given columns. Concurrent calls take their state from a pool.
type predictor struct {
	p       *machine.TablePredictor
	columns []string // columns of the tables
	names   []string // columns of the predictions
	kinds   []data.Kind
	classes map[string]float64 // number of each class
	runs    sync.Pool          // of *predicting
}

// predicting is the state of one call.
type predicting struct {
	run     *machine.TableRun
	kinds   []data.Kind
	plain   bool // all columns that are read are numbers
	in, out data.Block
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
		s, err := p.open() // reports wrong columns now instead of at the first prediction
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

// open takes a state from the pool or makes one.
func (p *predictor) open() (*predicting, error) {
	if s, ok := p.runs.Get().(*predicting); ok {
		return s, nil
	}
	r, err := p.p.Open(p.columns)
	if err != nil {
		return nil, err
	}
	s := &predicting{run: r, kinds: r.Kinds()}
	s.plain = !slices.Contains(s.kinds, data.Text)
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
		if !slices.Equal(t.src.Columns(), p.columns) {
			return fmt.Errorf("the table has the columns %q, the predictor %q: %w", t.src.Columns(), p.columns,
				data.ErrSchema)
		}
		dst, err := p.output(out, int64(t.src.Rows()))
		if err != nil {
			return err
		}
		return run(func(ctx context.Context, progress func(string, int64, int64)) (any, any, error) {
			s, err := p.open()
			if err != nil {
				return nil, nil, err
			}
			r, err := p.predict(ctx, progress, s, t.src, dst)
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
			t := data.NewColumns(tableName)
			for j, name := range p.columns {
				c, err := numbers(&array, j)
				if err != nil {
					return nil, nil, columnError(name, err)
				}
				if err := t.Add(name, c); err != nil {
					return nil, nil, err
				}
			}
			r, err := p.predict(ctx, progress, s, t, dst)
			return nil, r, err
		}
		return run(work, jobOut, nil, surprises)
	})
}

//export rf_predict_row
func rf_predict_row(h C.uint64_t, x *C.double, n C.int64_t, out *C.double, outs C.int64_t,
	surprises, e *C.rf_text) C.int32_t {
	return call(e, func() error {
		p, err := get[*predictor](h)
		if err != nil {
			return err
		}
		if x == nil || out == nil || int(n) != len(p.columns) || int(outs) != len(p.names) {
			return fmt.Errorf("a row of %d numbers for %d predictions, the predictor has %d and %d: %w", int64(n),
				int64(outs), len(p.columns), len(p.names), dense.ErrShape)
		}
		s, err := p.open()
		if err != nil {
			return err
		}
		row := unsafe.Slice((*float64)(x), int(n))
		dst := dense.Matrix[float64]{Rows: 1, Cols: int(outs), Stride: int(outs),
			Data: unsafe.Slice((*float64)(out), int(outs))}
		var found any
		if s.plain {
			found, err = p.predictRow(s, row, dst)
		} else {
			t := data.NewColumns(tableName)
			for j, name := range p.columns {
				if err := t.Add(name, data.Cells{Values: row[j : j+1]}); err != nil {
					return err
				}
			}
			found, err = p.predict(context.Background(), func(string, int64, int64) {}, s, t, dst)
		}
		if err != nil || found == nil {
			return err
		}
		return giveJSON(surprises, found)
	})
}

// predictRow predicts one row of numbers without making a table. All columns that the model reads must be numbers.
func (p *predictor) predictRow(s *predicting, row []float64, dst dense.Matrix[float64]) (any, error) {
	s.in.Reset(0, s.kinds)
	for j, k := range s.kinds {
		if k == data.Number {
			s.in.Cols[j].Num = append(s.in.Cols[j].Num, row[j])
		}
	}
	s.in.Rows = 1
	if err := s.run.Predict(&s.out, &s.in, onlyRow); err != nil {
		return nil, err
	}
	p.write(&s.out, dst, 0)
	return p.done(s), nil
}

func onlyRow(int) string { return tableName + ": row 1" }

// output checks the array for the predictions of so many rows.
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

// Tables of at most fewRows rows are predicted on the calling goroutine. For longer ones the next block is read
// while one is predicted.
const fewRows = 512

// predict fills dst and returns s to the pool. The list of surprises is nil if there are none.
func (p *predictor) predict(ctx context.Context, progress func(string, int64, int64), s *predicting, t *data.Columns,
	dst dense.Matrix[float64]) (any, error) {
	row := 0
	var err error
	if t.Rows() <= fewRows {
		err = func() error {
			r, err := t.Open(s.kinds)
			if err != nil {
				return err
			}
			for row < t.Rows() {
				if err := r.Read(&s.in, fewRows); err != nil {
					return err
				}
				if err := s.run.Predict(&s.out, &s.in, r.Where); err != nil {
					return err
				}
				row += p.write(&s.out, dst, row)
			}
			return nil
		}()
	} else {
		err = s.run.Each(t, s.kinds, 4096, func(b, _ *data.Block) error {
			row += p.write(b, dst, row)
			progress("predict", int64(row), int64(t.Rows()))
			return ctx.Err()
		})
	}
	if err != nil {
		return nil, err // s is not reused: its counts of surprises are incomplete
	}
	return p.done(s), nil
}

// write copies predictions to dst, from a row on, and returns the number of rows.
func (p *predictor) write(b *data.Block, dst dense.Matrix[float64], row int) int {
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
	return b.Rows
}

// done returns s to the pool, and its surprises, or nil if there are none.
func (p *predictor) done(s *predicting) any {
	found := s.run.TakeSurprises()
	p.runs.Put(s)
	if len(found) == 0 {
		return nil
	}
	return texts(found)
}

// surprise is a data.Surprise with the sentence that describes it.
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
