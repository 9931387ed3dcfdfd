package tabular

import (
	"context"
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// watched are rows with standardised targets, whose reading can be cancelled and reports its progress. Targets of a
// regression become (y − mean)/scale by the schema. So several targets weigh the same in every choice, none
// overflows, and one range of penalties suits all tables. restore undoes this in the model.
type watched struct {
	machine.Rows
	ctx     context.Context
	targets []data.Target // empty for classes
	weights []float64     // of all rows, appended as the last column of targets; nil: none
	report  func(done int64)
}

// Outputs includes the column of weights.
func (w watched) Outputs() int {
	if w.weights != nil {
		return w.Rows.Outputs() + 1
	}
	return w.Rows.Outputs()
}

// watch returns the rows as watched rows of a stage.
func (j *job) watch(rows machine.Rows, stage string) machine.Rows {
	w := watched{Rows: rows, weights: j.weights, ctx: j.ctx, report: func(done int64) {
		j.progress(stage, done, j.total)
	}}
	if j.task == machine.Regression {
		w.targets = j.schema.Targets
	}
	return w
}

// weigh sets the weights of rows, divided by their mean. λ then means the same as without weights.
func (j *job) weigh() {
	m := j.deal.marks
	if m == nil || m.Weight == nil {
		return
	}
	j.weightScale = 1 / mean(m.Weight)
	j.weights = scaled(m.Weight, j.weightScale)
	j.o.Lambda *= j.weightScale // a λ set by the caller belongs to the sum of losses with the original weights
}

// weighClasses multiplies the weights of rows by those of their classes; this takes a pass. Choices and fits of all
// kinds then count errors as the caller does. Weighting the probabilities after the fit instead would leave the
// border between classes to a calibration on few rows of a rare class.
func (j *job) weighClasses(rows machine.Rows) error {
	if j.o.ClassWeights == nil {
		return nil
	}
	out := make([]float64, 0, len(j.weights))
	err := rows.Each(j.o.Block, func(_, y dense.Matrix[float64]) error {
		for i := range y.Rows {
			w := j.o.ClassWeights[int(y.At(i, 0))]
			if len(out) < len(j.weights) {
				w *= j.weights[len(out)]
			}
			out = append(out, w)
		}
		return j.ctx.Err()
	})
	if err != nil {
		return err
	}
	j.weights = scaled(out, 1/mean(out))
	return nil
}

func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * by
	}
	return out
}

func (w watched) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	var z dense.Matrix[float64]
	done := int64(0)
	return w.Rows.Each(block, func(x, y dense.Matrix[float64]) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if len(w.targets) > 0 {
			z = buf.Shaped(z, y.Rows, w.Outputs())
			for i := range y.Rows {
				d := z.Row(i)
				for k, v := range y.Row(i) {
					d[k] = (v - w.targets[k].Mean) / w.targets[k].Scale
				}
			}
		} else if w.weights != nil {
			z = buf.Shaped(z, x.Rows, w.Outputs())
			for i := 0; y.Cols > 0 && i < y.Rows; i++ {
				copy(z.Row(i), y.Row(i))
			}
		}
		if w.weights != nil {
			if done+int64(x.Rows) > int64(len(w.weights)) {
				return fmt.Errorf("more rows than the %d that weights were read of: the table changed while it was read: %w",
					len(w.weights), machine.ErrMismatch)
			}
			for i := range x.Rows {
				z.Row(i)[z.Cols-1] = w.weights[done+int64(i)]
			}
		}
		if z.Cols > 0 {
			y = z
		}
		if err := f(x, y); err != nil {
			return err
		}
		done += int64(x.Rows)
		if w.report != nil {
			w.report(done)
		}
		return nil
	})
}

// restore turns a model of standardised targets into one of the original targets. The conversions to float64 around
// products, here and elsewhere, keep Go from fusing x·y + z, which it does on some processors only.
func restore(m *machine.Model, targets []data.Target) {
	if m.Task != machine.Regression {
		return
	}
	for k, t := range targets {
		for i := range m.Weights.Rows {
			w := m.Weights.Row(i)
			w[k] *= t.Scale
			if len(m.Mass) > 0 { // sums of φ·y, not coefficients
				w[k] += float64(t.Mean * m.Mass[i])
			}
		}
		m.Intercept[k] = float64(m.Intercept[k]*t.Scale) + t.Mean
		if len(m.Noise) > 0 {
			m.Noise[k] *= float64(t.Scale * t.Scale)
		}
	}
}

// watchedSource is a table whose reading can be cancelled and reports its progress.
type watchedSource struct {
	data.Source
	ctx    context.Context
	report func(done int64)
}

// Unwrap returns the table itself.
func (s watchedSource) Unwrap() data.Source { return s.Source }

func (s watchedSource) Open(want []data.Kind) (data.Reader, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &watchedReader{Reader: r, s: s}, nil
}

type watchedReader struct {
	data.Reader
	s    watchedSource
	done int64
}

func (r *watchedReader) Read(b *data.Block, most int) error {
	if err := r.s.ctx.Err(); err != nil {
		return err
	}
	err := r.Reader.Read(b, most)
	if err == nil {
		r.done += int64(b.Rows)
		r.s.report(r.done)
	}
	return err
}
