package auto

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// sumTries are trials of smoothers and densities: one sum per fold of the sample.
type sumTries struct {
	ctx   context.Context
	s     *sample
	kind  machine.Kind
	setup machine.Setup // without a map
}

func (r *sumTries) try(spec randfeat.Spec, _ []float64) ([]trial, error) {
	setup := r.setup
	setup.Spec = spec
	var err error
	if setup.Omega, err = randfeat.Draw(spec); err != nil {
		return nil, err
	}
	sums, err := newFoldSums(r.kind, setup, r.s.folds(), 0)
	if err != nil {
		return nil, err
	}
	for k := range sums.parts {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := r.s.fold(k)
		if err := sums.parts[k].add(r.s.x.RowRange(lo, hi), r.s.y.RowRange(lo, hi)); err != nil {
			return nil, err
		}
	}
	t := trial{spec: spec, loss: make([]float64, r.s.len())}
	if setup.Task == machine.Classification {
		t.tie = make([]float64, r.s.len())
	}
	pred := dense.New[float64](r.s.len(), max(setup.Outputs, 1))
	var ws machine.Workspace[float64]
	for k := range sums.parts {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := r.s.fold(k)
		if lo == hi {
			continue
		}
		part, err := sums.merged(k)
		if err != nil {
			return nil, err
		}
		m, err := part.model(0)
		if err != nil {
			return nil, err
		}
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			return nil, err
		}
		if err := p.Predict(pred.RowRange(lo, hi), r.s.x.RowRange(lo, hi), &ws); errors.Is(err, dense.ErrNotFinite) {
			return nil, nil // overflow: the setting is of no use
		} else if err != nil {
			return nil, err
		}
	}
	for i := range t.loss {
		switch setup.Task {
		case machine.Unsupervised:
			t.loss[i] = -pred.At(i, 0)
		case machine.Classification:
			t.tie[i] = squared(pred.Row(i), r.s.t.Row(i))
			t.loss[i] = wrong(pred.Row(i), int(r.s.y.At(i, 0)))
		default:
			t.loss[i] = squared(pred.Row(i), r.s.t.Row(i))
		}
	}
	if setup.Task == machine.Unsupervised {
		// The prediction is the log mean kernel; log densities can be compared between bandwidths.
		bulk(t.loss, -(&machine.Model{Spec: spec}).LogDensity(0))
	}
	t.score = -mean(t.loss)
	if math.IsNaN(t.score) || math.IsInf(t.score, 0) {
		return nil, nil
	}
	return []trial{t}, nil
}

// tail is the fraction of least likely rows that count as if they were at its border: few outliers, whose log density is
// mostly noise, would choose the bandwidth otherwise.
const tail = 0.02

// bulk adds shift to minus log densities and cuts the largest.
func bulk(loss []float64, shift float64) {
	sorted := slices.Clone(loss)
	slices.Sort(sorted)
	top := sorted[int(float64(len(sorted)-1)*(1-tail))]
	for i, v := range loss {
		loss[i] = min(v, top) + shift
	}
}
