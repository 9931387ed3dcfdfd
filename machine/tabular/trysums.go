package tabular

import (
	"context"
	"errors"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// sumTries tries any kind of model whose rows add up, with one sum per fold of the sample. Rows are mapped twice,
// once for the sums and once for the predictions. Sums of smoothers and densities are only F numbers per output, so
// nothing else takes time. Predictions come from the kind of model itself: what is tried is what will be used.
type sumTries struct {
	ctx   context.Context
	s     *sample
	kind  machine.Kind
	setup machine.Setup    // without a map
	omega []coupling.Omega // nil: drawn
}

func (r *sumTries) try(spec randfeat.Spec, lambdas []float64) ([]trial, error) {
	setup := r.setup
	setup.Spec = spec
	var err error
	if setup.Omega = r.omega; setup.Omega == nil {
		if setup.Omega, err = randfeat.Draw(spec); err != nil {
			return nil, err
		}
	}
	sums, err := newFoldSums(r.kind, setup, r.s.folds(), nil)
	if err != nil {
		return nil, err
	}
	sums.past = r.s.ordered
	for k := range sums.parts {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := r.s.fold(k)
		if err := sums.parts[k].Add(r.s.x.RowRange(lo, hi), r.s.y.RowRange(lo, hi)); err != nil {
			return nil, err
		}
	}
	ts := make([]trial, len(lambdas))
	preds := make([]dense.Matrix[float64], len(lambdas))
	for l := range ts {
		ts[l] = trial{spec: spec, lambda: lambdas[l], loss: make([]float64, r.s.len())}
		preds[l] = dense.New[float64](r.s.len(), max(setup.Outputs, 1))
	}
	var ws machine.Workspace[float64]
	for k := range sums.parts {
		lo, hi := r.s.fold(k)
		if lo == hi || k < r.s.scored() {
			continue
		}
		rest, err := sums.merged(k)
		if err != nil {
			return nil, err
		}
		for l := range ts {
			if err := r.ctx.Err(); err != nil {
				return nil, err
			}
			if ts[l].loss == nil {
				continue
			}
			switch err := r.predict(preds[l].RowRange(lo, hi), r.s.x.RowRange(lo, hi), rest, lambdas[l], &ws); {
			case errors.Is(err, dense.ErrNotFinite), errors.Is(err, machine.ErrSingular):
				ts[l].loss = nil // overflow, or too small a penalty: the setting is unusable
			case err != nil:
				return nil, err
			}
		}
	}
	var good []trial
	for l := range ts {
		if ts[l].loss == nil {
			continue
		}
		r.judge(&ts[l], preds[l])
		if ts[l].score = -mean(ts[l].loss); dense.IsFinite(ts[l].score) {
			good = append(good, ts[l])
		}
	}
	return good, nil
}

func (r *sumTries) predict(dst, x dense.Matrix[float64], sums machine.Sums, lambda float64,
	ws *machine.Workspace[float64]) error {
	m, err := sums.Model(lambda)
	if err != nil {
		return err
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return err
	}
	return p.Predict(dst, x, ws)
}

// judge writes the losses of all scored rows.
func (r *sumTries) judge(t *trial, pred dense.Matrix[float64]) {
	if r.setup.Task == machine.Classification {
		t.tie = make([]float64, r.s.len())
	}
	for i := range t.loss {
		switch r.setup.Task {
		case machine.Unsupervised:
			t.loss[i] = -pred.At(i, 0)
		case machine.Classification:
			t.tie[i] = squared(pred.Row(i), r.s.t.Row(i))
			t.loss[i] = wrong(pred.Row(i), int(r.s.y.At(i, 0)))
		default:
			t.loss[i] = squared(pred.Row(i), r.s.t.Row(i))
		}
	}
	t.loss, t.tie = r.s.judged(t.loss), r.s.judged(t.tie)
	if r.setup.Task == machine.Unsupervised {
		// The prediction is the log mean kernel; log densities can be compared between bandwidths.
		bulk(t.loss, -(&machine.Model{Spec: t.spec}).LogDensity(0))
	}
	r.s.weigh(t.loss)
	r.s.weigh(t.tie)
}

// tail is the share of least likely rows whose loss is cut to that of the most likely row among them. −log density
// is unbounded, and a single row far from all others would ask for a kernel that reaches it: without the cut, a few
// outliers would choose the bandwidth.
const tail = 0.02

// bulk adds shift to negative log densities and cuts the largest.
func bulk(loss []float64, shift float64) {
	sorted := slices.Clone(loss)
	slices.Sort(sorted)
	top := sorted[int(float64(len(sorted)-1)*(1-tail))]
	for i, v := range loss {
		loss[i] = min(v, top) + shift
	}
}
