package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// nestedFold makes all choices on some rows of the frame, and predicts others by the model of these choices.
func (f *frame) nestedFold(held, from []int) (matrix, error) {
	j := *f.job
	j.o.Progress, j.inner = nil, true
	sub := f.part(from)
	sub.job = &j
	if f.plain() {
		sub = sub.dealt()
	}
	d, of, err := choose(sub, int64(len(from)))
	if err != nil {
		return matrix{}, err
	}
	x, rest := of.s.x, pick(f.s.x, held)
	if d.Fields != nil {
		x = x.Clone()
		weigh(x, f.columnWeights(d.Fields))
		weigh(rest, f.columnWeights(d.Fields))
	}
	m, err := (&kernelFit{of.job, d, nil}).fit(d.Spec, x, of.s.y)
	if err != nil {
		return matrix{}, err
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return matrix{}, err
	}
	out := dense.New[float64](len(held), m.Outputs)
	return out, p.Predict(out, rest, nil)
}

// dealt returns the rows of the frame dealt to folds anew.
func (f *frame) dealt() *frame {
	order := hashed(seq(f.s.len()), f.o.Seed^foldLabel)
	s := &sample{weighted: f.s.weighted}
	var rows []int
	for k := range f.folds {
		s.first = append(s.first, len(rows))
		for at, i := range order {
			if at%f.folds == k {
				rows = append(rows, i)
			}
		}
	}
	s.first = append(s.first, len(rows))
	s.x, s.y, s.t = f.s.picked(rows)
	for _, i := range rows {
		s.rows = append(s.rows, f.s.rows[i])
	}
	out := newFrame(f.job, s)
	out.fold = out.fold[:min(len(out.fold), 2)] // a scored fold is one of many
	return out
}
