package machine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// TableOptions select further predictions besides the targets or classes, and the treatment of unusual input. The zero
// value asks for nothing more.
type TableOptions struct {
	Probabilities bool // probabilities of every class
	Scores        bool // scores of every class, the largest of which decides; probabilities if the model has them
	Variance      bool // variance of a new observation of every target
	NoIDs         bool // leave the id columns of the schema out
	Float32       bool // compute in float32
	Watch         bool // count how rows differ from those of the fit; see TableRun.Surprises
	Strict        bool // turn such differences into errors that wrap data.ErrSurprise
	Readable      bool // an unreadable value, such as a word among numbers, is an error; otherwise it counts as missing
	Workers       int  // goroutines of a call; 0 means GOMAXPROCS
	// Interval is the probability with which a new observation lies between lower and upper, such as 0.9; 0 means no
	// intervals.
	Interval float64
}

// TablePredictor predicts rows of tables by the schema of a model. It finds columns by name and writes classes as they
// were in the training table. It is immutable; many goroutines may use it.
type TablePredictor struct {
	model   *Model
	o       TableOptions
	p32     *Predictor[float32]
	p64     *Predictor[float64]
	columns []string
	kinds   []data.Kind
	classes [][]byte
	fields  map[string]bool // columns of the predictions

	bayesian bool // intervals are in units of the standard deviation
}

// NewTablePredictor validates a model and prepares it. A model without a schema, and options that the model does not
// support, are ErrSetup. The model must not be changed afterwards.
func NewTablePredictor(m *Model, o TableOptions) (*TablePredictor, error) {
	p := &TablePredictor{model: m, o: o}
	var err error
	var positive bool
	if o.Float32 {
		if p.p32, err = NewPredictor[float32](m); err == nil {
			positive = p.p32.m.Positive()
		}
	} else if p.p64, err = NewPredictor[float64](m); err == nil {
		positive = p.p64.m.Positive()
	}
	if err != nil {
		return nil, err
	}
	if m.Schema == nil {
		return nil, fmt.Errorf("the model has no schema, it predicts matrices only: fit it to a table: %w", ErrSetup)
	}
	kind, err := m.Kind.Info()
	if err != nil {
		return nil, err
	}
	p.bayesian = kind.Bayesian
	switch {
	case o.Probabilities && m.Task != Classification:
		err = fmt.Errorf("probabilities of a %s, only a classification has them: %w", m.Task, ErrSetup)
	case o.Probabilities && !kind.Probabilities && !m.Calibrated():
		err = fmt.Errorf("this %s model has scores but no probabilities: fit with cross-validation (more than one fold), "+
			"which calibrates them, or with logistic: %w", m.Kind, ErrSetup)
	case o.Probabilities && kind.Averages && !positive && !m.Calibrated():
		err = fmt.Errorf("a %s with features of both signs (%s) has scores but no probabilities: fit with logistic, "+
			"or with the family oprf: %w", m.Kind, m.Spec.Family.Name(), ErrSetup)
	case o.Scores && m.Task != Classification:
		err = fmt.Errorf("scores of a %s, only a classification has them: %w", m.Task, ErrSetup)
	case o.Variance && !kind.Bayesian:
		err = fmt.Errorf("a %s model has no variance: fit with gp: %w", m.Kind, ErrSetup)
	}
	if err == nil && o.Interval != 0 {
		err = m.checkInterval(o.Interval)
	}
	if err != nil {
		return nil, err
	}
	p.output()
	return p, nil
}

// output lays out the columns of the predictions.
func (p *TablePredictor) output() {
	add := func(kind data.Kind, name string) {
		p.columns, p.kinds = append(p.columns, name), append(p.kinds, kind)
	}
	s := p.model.Schema
	each := func(prefix string) {
		for _, t := range s.Targets {
			if len(s.Targets) > 1 {
				add(data.Number, prefix+"_"+t.Name)
			} else {
				add(data.Number, prefix)
			}
		}
	}
	switch p.model.Task {
	case Classification:
		add(data.Text, "prediction")
		for _, c := range s.Targets[0].Classes {
			p.classes = append(p.classes, []byte(c))
		}
		for _, more := range []struct {
			on     bool
			prefix string
		}{{p.o.Probabilities, "p_"}, {p.o.Scores, "score_"}} {
			for _, c := range s.Targets[0].Classes {
				if more.on {
					add(data.Number, more.prefix+c)
				}
			}
		}
	case Regression:
		each("prediction")
		if p.o.Variance {
			each("variance")
		}
		if p.o.Interval > 0 {
			each("lower")
			each("upper")
		}
	default:
		add(data.Number, "log_density")
		if len(p.model.Quantiles) > 0 {
			add(data.Number, "anomaly")
		}
	}
	p.fields = map[string]bool{}
	for _, c := range p.columns {
		p.fields[c] = true
	}
}

// Model returns the model, which must not be changed.
func (p *TablePredictor) Model() *Model { return p.model }

// Columns returns the columns of the predictions, without ids: prediction, or prediction_<target> for several targets;
// p_<class>; score_<class>; variance; lower and upper of an interval; for a density log_density ([Model.LogDensity])
// and, if it is calibrated, anomaly ([Model.Anomaly]).
func (p *TablePredictor) Columns() ([]string, []data.Kind) {
	return slices.Clone(p.columns), slices.Clone(p.kinds)
}

// Open matches the columns of a table. Targets may be among them; they are not read.
func (p *TablePredictor) Open(columns []string) (*TableRun, error) {
	enc, err := p.model.Schema.Encoder(columns, false)
	if err != nil {
		return nil, err
	}
	if p.model.Limits() {
		enc.Limit()
	}
	if p.o.Readable {
		enc.Readable()
	}
	r := &TableRun{p: p, enc: enc}
	if p.o.Watch || p.o.Strict {
		r.watch = &data.Watch{Strict: p.o.Strict}
		enc.Watch(r.watch)
	}
	r.kinds = slices.Clone(enc.Kinds())
	for _, j := range enc.IDs() {
		if p.o.NoIDs {
			r.kinds[j] = data.Skip
			continue
		}
		if p.fields[columns[j]] {
			return nil, fmt.Errorf("the id column %q has the name of a column of predictions, rename it: %w", columns[j],
				ErrSetup)
		}
		r.ids, r.names = append(r.ids, j), append(r.names, columns[j])
		r.out = append(r.out, data.Text)
	}
	r.out = append(r.out, p.kinds...)
	if p.o.Float32 {
		r.engine = newEngine(p.p32, p.o.Workers)
	} else {
		r.engine = newEngine(p.p64, p.o.Workers)
	}
	return r, nil
}

// TableRun predicts the blocks of one table. It has its own memory and serves one goroutine.
type TableRun struct {
	p      *TablePredictor
	enc    *data.Encoder
	watch  *data.Watch
	kinds  []data.Kind
	ids    []int // id columns of the table that are copied
	names  []string
	out    []data.Kind // kinds of the columns of predictions, ids first
	engine engine
	x      dense.Matrix[float64]
	y, v   dense.Matrix[float64]
	rows   dense.Matrix[float64] // the encoded rows being predicted
}

// Kinds returns the kinds that the reader must be opened with.
func (r *TableRun) Kinds() []data.Kind { return slices.Clone(r.kinds) }

// IDs returns the id columns of the table, in its order. They are the first columns of the predictions.
func (r *TableRun) IDs() []string { return slices.Clone(r.names) }

// Surprises returns how the rows so far differ from the training rows. It is empty unless the options ask for it.
func (r *TableRun) Surprises() []data.Surprise { return r.watch.Surprises() }

// OnSurprise calls f for every value unlike the training rows, with its row in the current block and the index in
// Surprises where it is counted.
func (r *TableRun) OnSurprise(f func(row, surprise int)) {
	if r.watch != nil {
		r.watch.Each = f
	}
}

// TakeSurprises is Surprises, and resets the counts.
func (r *TableRun) TakeSurprises() []data.Surprise {
	s := r.watch.Surprises()
	if len(s) > 0 {
		r.watch.Reset()
	}
	return s
}

// Predict replaces the contents of dst by one row for every row of b: the ids as text, then the columns of
// [TablePredictor.Columns]. dst keeps nothing of b. where names rows in errors: the reader's Where.
func (r *TableRun) Predict(dst, b *data.Block, where func(int) string) error {
	r.x = buf.Shaped(r.x, b.Rows, r.p.model.Spec.Dim)
	if err := r.enc.Encode(r.x, dense.Matrix[float64]{}, b, where); err != nil {
		return err
	}
	return r.predict(dst, r.x, b, where)
}

// Outputs returns the outputs of the last call of Predict: the targets, or the scores of the classes, which are
// probabilities if the model has them. They are valid until the next call.
func (r *TableRun) Outputs() dense.Matrix[float64] { return r.y }

// predict is Predict for encoded rows x of the block b.
func (r *TableRun) predict(dst *data.Block, x dense.Matrix[float64], b *data.Block, where func(int) string) error {
	m := r.p.model
	r.rows = x
	r.y = buf.Shaped(r.y, x.Rows, m.Outputs)
	if err := r.engine.predict(r.y, x, false); err != nil {
		return r.located(x, err, where)
	}
	if r.p.o.Variance || r.p.o.Interval > 0 && r.p.bayesian {
		r.v = buf.Shaped(r.v, x.Rows, m.Outputs)
		if err := r.engine.predict(r.v, x, true); err != nil {
			return r.located(x, err, where)
		}
	}
	dst.Reset(b.First, r.out)
	dst.Rows = x.Rows
	for k, j := range r.ids {
		c := &b.Cols[j]
		if len(c.Text) != b.Rows {
			return fmt.Errorf("id column %q of the block was not read as text: %w", r.names[k], dense.ErrShape)
		}
		dst.AppendCells(k, c, 0, b.Rows)
	}
	r.write(dst.Cols[len(r.ids):])
	return nil
}

// write fills the columns of predictions from y and v.
func (r *TableRun) write(cols []data.Column) {
	m := r.p.model
	next := func(values dense.Matrix[float64], k int, f func(float64) float64) {
		c := &cols[0]
		cols = cols[1:]
		for i := range values.Rows {
			c.Num = append(c.Num, f(values.At(i, k)))
		}
	}
	plain := func(v float64) float64 { return v }
	switch m.Task {
	case Classification:
		c := &cols[0]
		cols = cols[1:]
		for i := range r.y.Rows {
			c.Text = append(c.Text, r.p.classes[Class(r.y.Row(i))])
		}
		for _, on := range []bool{r.p.o.Probabilities, r.p.o.Scores} {
			for k := 0; on && k < m.Outputs; k++ {
				next(r.y, k, plain)
			}
		}
	case Regression:
		for k := range m.Outputs {
			next(r.y, k, plain)
		}
		for k := 0; r.p.o.Variance && k < m.Outputs; k++ {
			next(r.v, k, plain)
		}
		r.intervals(next)
	default:
		next(r.y, 0, m.LogDensity)
		if len(m.Quantiles) > 0 {
			next(r.y, 0, m.Anomaly)
		}
	}
}

// intervals fills the columns of limits.
func (r *TableRun) intervals(next func(values dense.Matrix[float64], k int, f func(float64) float64)) {
	m := r.p.model
	by, at := m.GroupColumn()
	for side := 0; r.p.o.Interval > 0 && side < 2; side++ {
		for k := range m.Outputs {
			i := 0
			next(r.y, k, func(v float64) float64 {
				group := -1
				if by != nil {
					group = by.LevelOf(r.rows.Row(i)[at : at+by.Width()])
				}
				low, high, err := m.IntervalOf(group, k, r.p.o.Interval)
				if err != nil {
					panic("machine: " + err.Error()) // NewTablePredictor has checked the coverage
				}
				offset := [2]float64{low, high}[side]
				sd := 1.0
				if r.p.bayesian {
					sd = math.Sqrt(r.v.At(i, k))
				}
				i++
				return v + float64(offset*sd)
			})
		}
	}
}

// located finds the first row that caused err, for the error message. Rows do not depend on each other, so each is
// predicted alone.
func (r *TableRun) located(x dense.Matrix[float64], err error, where func(int) string) error {
	y := dense.New[float64](1, r.p.model.Outputs)
	for i := range x.Rows {
		if err := r.engine.predict(y, x.RowRange(i, i+1), false); err != nil {
			if inner := errors.Unwrap(err); inner != nil && !errors.As(err, new(*dense.NotFiniteError)) {
				err = inner // without the row number, which is wrong here
			}
			// The row was predicted alone, so the row number in its error is always 0.
			detail := strings.Replace(err.Error(), "x: row 0 has", "the encoded row has", 1)
			return &data.InputError{Place: where(i), Detail: detail, Err: err}
		}
	}
	return err
}

// Each predicts a whole table, which must have the columns that the run was opened with. It passes blocks of at most
// rows rows to f, in order: the predictions, and the cells they come from. want is Kinds, with kinds other than Skip
// for further columns that f wants to see. The next block is parsed while f runs; memory does not depend on the size of
// the table. The blocks are valid until f returns.
func (r *TableRun) Each(src data.Source, want []data.Kind, rows int, f func(predictions,
	cells *data.Block) error) (err error) {
	if rows < 1 {
		return fmt.Errorf("blocks of %d rows, want at least 1: %w", rows, dense.ErrShape)
	}
	rd, err := src.Open(want)
	if err != nil {
		return err
	}
	defer func() {
		if closing := rd.Close(); err == nil {
			err = closing
		}
	}()
	type block struct {
		cells data.Block
		x     dense.Matrix[float64]
	}
	rows = min(rows, max(1, readCells/max(len(r.kinds), r.p.model.Spec.Dim)))
	fill := func(b *block) error {
		if err := rd.Read(&b.cells, rows); err != nil {
			return err
		}
		b.x = buf.Shaped(b.x, b.cells.Rows, r.p.model.Spec.Dim)
		return r.enc.Encode(b.x, dense.Matrix[float64]{}, &b.cells, rd.Where)
	}
	var out data.Block
	return ahead([2]*block{{}, {}}, fill, func(b *block) error {
		// The reader is one block ahead and no longer knows the lines of this block, so errors name rows.
		where := func(i int) string { return fmt.Sprintf("%s: row %d", src.Name(), b.cells.First+int64(i)+1) }
		if err := r.predict(&out, b.x, &b.cells, where); err != nil {
			return err
		}
		return f(&out, &b.cells)
	})
}

// engine predicts in one of the two precisions.
type engine interface {
	predict(dst, x dense.Matrix[float64], variance bool) error
}

// engineOf is an engine in precision T, with conversion of inputs and outputs if T is float32.
type engineOf[T dense.Float] struct {
	p      *Predictor[T]
	ws     Workspace[T]
	x, dst dense.Matrix[T]
}

func newEngine[T dense.Float](p *Predictor[T], workers int) engine {
	return &engineOf[T]{p: p, ws: Workspace[T]{Workers: workers}}
}

func (e *engineOf[T]) predict(dst, x dense.Matrix[float64], variance bool) error {
	call := e.p.Predict
	if variance {
		call = e.p.Variance
	}
	if d, ok := any(dst).(dense.Matrix[T]); ok {
		return call(d, any(x).(dense.Matrix[T]), &e.ws)
	}
	e.x, e.dst = buf.Shaped(e.x, x.Rows, x.Cols), buf.Shaped(e.dst, dst.Rows, dst.Cols)
	convert(e.x, x)
	if err := call(e.dst, e.x, &e.ws); err != nil {
		return err
	}
	convert(dst, e.dst)
	return nil
}
