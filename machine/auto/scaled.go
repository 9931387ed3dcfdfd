package auto

import (
	"context"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// watched are rows with standardised targets whose reading can be stopped and followed. Targets of a regression become
// (y − mean)/scale by the schema, so that several targets weigh the same in every choice and none overflows; restore
// takes that back in the model. One range of penalties then suits all tables.
type watched struct {
	machine.Rows
	ctx     context.Context
	targets []data.Target // empty for classes
	report  func(done int64)
}

func (w watched) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	var z dense.Matrix[float64]
	done := int64(0)
	return w.Rows.Each(block, func(x, y dense.Matrix[float64]) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if len(w.targets) > 0 {
			z = buf.Shaped(z, y.Rows, y.Cols)
			for i := range y.Rows {
				d := z.Row(i)
				for k, v := range y.Row(i) {
					d[k] = (v - w.targets[k].Mean) / w.targets[k].Scale
				}
			}
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

// restore turns a model of standardised targets into one of the targets. Products are converted before they are added,
// here and elsewhere: Go may fuse x·y + z otherwise, on some processors only.
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
