package watch

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// Sizes of the sample of a table that a reference is made of.
const (
	sampleRows  = 8192
	sampleCells = 1 << 23
)

// Table makes a reference of a table, from a random sample of its rows.
func Table(src data.Source, s *data.Schema, o Options) (*Reference, error) {
	s = Schema(s)
	rows, err := take(src, s, nil, o.Seed)
	if err != nil {
		return nil, err
	}
	return newReference(s, rows.x, o, outputs{})
}

// each passes the rows of a table to f, block by block, encoded by the schema of a reference, and by a model if it is
// not nil: then with targets, if they are wanted. Blocks are valid until f returns. Columns of ignore need not be
// known.
func each(src data.Source, s *data.Schema, m *machine.Model, targets bool, ignore []string,
	f func(x, encoded, y dense.Matrix[float64]) error) (err error) {
	enc, err := ignoring(s, ignore).Encoder(src.Columns(), false)
	if err != nil {
		return fmt.Errorf("%s: %w", src.Name(), err)
	}
	kinds := slices.Clone(enc.Kinds())
	var second *data.Encoder
	if m != nil {
		if second, err = ignoring(m.Schema, ignore).Encoder(src.Columns(), targets); err != nil {
			return fmt.Errorf("%s: %w", src.Name(), err)
		}
		if m.Limits() {
			second.Limit()
		}
		for j, kind := range second.Kinds() {
			if kinds[j] == data.Skip {
				kinds[j] = kind
			}
		}
	}
	for _, j := range enc.IDs() {
		kinds[j] = data.Skip
	}
	rd, err := src.Open(kinds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rd.Close()) }()
	var b data.Block
	var x, encoded, y dense.Matrix[float64]
	for {
		if err := rd.Read(&b, 4*blockRows); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		x = buf.Shaped(x, b.Rows, s.Width())
		if err := enc.Encode(x, dense.Matrix[float64]{}, &b, rd.Where); err != nil {
			return err
		}
		if second != nil {
			encoded = buf.Shaped(encoded, b.Rows, m.Schema.Width())
			if targets {
				y = buf.Shaped(y, b.Rows, len(m.Schema.Targets))
			}
			if err := second.Encode(encoded, y, &b, rd.Where); err != nil {
				return err
			}
		}
		if err := f(x, encoded, y); err != nil {
			return err
		}
	}
}

// ignoring is a schema whose tables may have further columns.
func ignoring(s *data.Schema, names []string) *data.Schema {
	if len(names) == 0 {
		return s
	}
	out := *s
	known := func(n string) bool {
		return slices.Contains(s.IDs, n) || slices.Contains(out.Ignored, n) ||
			slices.ContainsFunc(s.Fields, func(f data.Field) bool { return f.Name == n }) ||
			slices.ContainsFunc(s.Targets, func(t data.Target) bool { return t.Name == n })
	}
	for _, n := range names {
		if !known(n) {
			out.Ignored = append(slices.Clone(out.Ignored), n)
		}
	}
	return &out
}

// Encoder encodes the rows of tables as a reference wants them. It belongs to one goroutine.
type Encoder struct {
	enc   *data.Encoder
	width int
	x     dense.Matrix[float64]
}

// Encoder matches the columns of a table by name. Targets may be among them.
func (r *Reference) Encoder(columns []string) (*Encoder, error) {
	enc, err := r.schema.Encoder(columns, false)
	return &Encoder{enc: enc, width: r.schema.Width()}, err
}

// Kinds returns the kinds that the reader must be opened with.
func (e *Encoder) Kinds() []data.Kind { return e.enc.Kinds() }

// Encode returns the encoded rows of a block, valid until the next call. where names rows in errors.
func (e *Encoder) Encode(b *data.Block, where func(int) string) (dense.Matrix[float64], error) {
	e.x = buf.Shaped(e.x, b.Rows, e.width)
	return e.x, e.enc.Encode(e.x, dense.Matrix[float64]{}, b, where)
}

// sample is a uniform random sample of the rows of a table.
type sample struct{ x, encoded, y dense.Matrix[float64] }

// take draws a sample (Vitter 1985, algorithm R).
func take(src data.Source, s *data.Schema, m *machine.Model, seed uint64) (out sample, err error) {
	width := s.Width()
	if m != nil {
		width += m.Schema.Width()
	}
	most := min(sampleRows, max(sampleCells/width, 10*LeastRows))
	random := rand.New(rng.Stream(seed, 0x73616d70))
	seen := 0
	err = each(src, s, m, m != nil, nil, func(x, encoded, y dense.Matrix[float64]) error {
		for i := range x.Rows {
			at := seen
			if seen++; at >= most {
				if at = random.IntN(seen); at >= most {
					continue
				}
			}
			out.x, out.encoded, out.y = put(out.x, at, x, i), put(out.encoded, at, encoded, i), put(out.y, at, y, i)
		}
		return nil
	})
	return out, err
}

// put copies row i of a to row at of dst, which may be the next one.
func put(dst dense.Matrix[float64], at int, a dense.Matrix[float64], i int) dense.Matrix[float64] {
	if a.Cols == 0 {
		return dst
	}
	if at < dst.Rows {
		copy(dst.Row(at), a.Row(i))
		return dst
	}
	return dense.Matrix[float64]{Rows: at + 1, Cols: a.Cols, Stride: a.Cols, Data: append(dst.Data, a.Row(i)...)}
}

// TableOptions say what a monitor reads of a table besides the columns of its reference.
type TableOptions struct {
	Model      *machine.Model      // predicts the rows; nil: no predictions
	Evaluation *machine.Evaluation // of the model: receives the targets, which the table must have then; nil: none
	Ignore     []string            // columns that need not be known
}

// AddTable adds the rows of a table.
func (m *Monitor) AddTable(src data.Source, o TableOptions) error {
	var p *machine.Predictor[float64]
	var ws machine.Workspace[float64]
	var pred, variance, none dense.Matrix[float64]
	bayesian := false
	if o.Model != nil {
		kind, err := o.Model.Kind.Info()
		if err != nil {
			return err
		}
		bayesian = kind.Bayesian
		if p, err = machine.NewPredictor[float64](o.Model); err != nil {
			return err
		}
	}
	return each(src, m.r.schema, o.Model, o.Evaluation != nil, o.Ignore, func(x, encoded,
		y dense.Matrix[float64]) error {
		if p == nil {
			return m.Add(x, none)
		}
		pred = buf.Shaped(pred, x.Rows, o.Model.Outputs)
		if err := p.Predict(pred, encoded, &ws); err != nil {
			return fmt.Errorf("%s: after row %d: %w", src.Name(), m.Rows(), err)
		}
		if o.Evaluation != nil {
			if bayesian {
				variance = buf.Shaped(variance, x.Rows, o.Model.Outputs)
				if err := p.Variance(variance, encoded, &ws); err != nil {
					return err
				}
			}
			if err := o.Evaluation.Add(y, pred, variance); err != nil {
				return err
			}
		}
		if m.r.out.Count == 0 {
			return m.Add(x, none)
		}
		return m.Add(x, pred)
	})
}

// Model makes a reference of a model from its training table, for [Attach].
func Model(src data.Source, m *machine.Model, o Options) (*Reference, error) {
	if m.Schema == nil {
		return nil, fmt.Errorf("a reference of a model without a schema: %w", machine.ErrSetup)
	}
	s := Schema(m.Schema)
	rows, err := take(src, s, m, o.Seed)
	if err != nil {
		return nil, err
	}
	out := outputs{Task: m.Task}
	if h := m.History; h != nil {
		for _, score := range h.Scores {
			if score.Name == "accuracy" || score.Name == "log loss" || score.Name == "RMSE" {
				out.AtFit = append(out.AtFit, score)
			}
		}
	}
	switch kind, err := m.Kind.Info(); {
	case err != nil:
		return nil, err
	case m.Task == machine.Regression:
		out.Count = m.Outputs
		for _, t := range m.Schema.Targets {
			out.Names, out.Mean, out.Scale = append(out.Names, t.Name), append(out.Mean, t.Mean),
				append(out.Scale, t.Scale)
		}
	case m.Task == machine.Classification && (kind.Probabilities || m.Calibrated()) && m.Outputs <= mostLevels:
		out.Count, out.Names = m.Outputs, m.Schema.Targets[0].Classes
		out.Mean = make([]float64, m.Outputs)
		for i := range rows.y.Rows {
			out.Mean[int(rows.y.At(i, 0))] += 1 / float64(rows.y.Rows)
		}
	}
	r, err := newReference(s, rows.x, o, out)
	if err == nil && m.Task == machine.Regression {
		r.learnSpread(m, rows.x, rows.encoded, rows.y)
	}
	return r, err
}

// spreadRows is the number of rows from which the spread of the errors is learned.
const spreadRows = 1200

// learnSpread predicts each half of a sample by the kernel machine of the other half, with the kernel and the penalty
// of the model, and learns how the error depends on the row. Without it there is no score to expect.
func (r *Reference) learnSpread(m *machine.Model, x, encoded, y dense.Matrix[float64]) {
	n := min(x.Rows, spreadRows) / 2 * 2
	if n < 2*LeastRows {
		return
	}
	t := r.out
	target := dense.New[float64](n, 1)
	for i := range n {
		target.Set(i, 0, (y.At(i, 0)-t.Mean[0])/t.Scale[0])
	}
	half := func(a dense.Matrix[float64], k int) dense.Matrix[float64] {
		return dense.Matrix[float64]{Rows: n / 2, Cols: a.Cols, Stride: 2 * a.Stride, Data: a.Data[k*a.Stride:]}
	}
	square := make([]float64, n)
	for k := range 2 {
		part, err := machine.FitExact(machine.Setup{Spec: randfeat.Spec{Kernel: m.Spec.Kernel, Dim: m.Spec.Dim},
			Outputs: 1}, half(encoded, 1-k).Clone(), half(target, 1-k).Clone(), max(m.Lambda, 1e-6))
		if err != nil {
			return
		}
		p, err := machine.NewPredictor[float64](part)
		if err != nil {
			return
		}
		pred := dense.New[float64](n/2, 1)
		if p.Predict(pred, half(encoded, k).Clone(), nil) != nil {
			return
		}
		for i := range n / 2 {
			e := target.At(2*i+k, 0) - pred.At(i, 0)
			square[2*i+k] = e * e
		}
	}
	var s statistics
	if s.of(&r.layout, x.RowRange(0, n), r.centre, r.limit) != nil {
		return
	}
	phi := dense.New[float64](n, r.features)
	for i := range n {
		for f := range r.features {
			phi.Set(i, f, float64(s.vector.At(i, r.features+f)))
		}
	}
	if r.out.Spread, r.out.Tails = learnSpread(phi, square); r.out.Spread == nil {
		return
	}
	// Relative to the rows of the reference.
	own := &Monitor{r: r, rows: r.rows, sums: r.sums}
	ratio, _ := own.spread()
	for _, w := range r.out.Spread {
		for f := range w {
			w[f] /= ratio
		}
	}
	if math.IsNaN(ratio) {
		r.out.Spread = nil
	}
}
