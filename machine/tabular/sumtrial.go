package tabular

import (
	"errors"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// trySums tries a kind of model whose rows add up, with one sum per fold of the frame. Predictions come from the kind
// of model itself: what is tried is what will be used. Penalties that cannot be used are left out.
func (c *featureSearch) trySums(kind machine.Kind, setup machine.Setup, lambdas []float64) ([]*trial, error) {
	sums, err := c.foldSums(kind, setup)
	if err != nil {
		return nil, err
	}
	ts := make([]*trial, len(lambdas))
	for l := range ts {
		ts[l] = &trial{Candidate: Candidate{Lambda: lambdas[l]}}
	}
	err = c.outOfFold(sums, func(k int, rest machine.Sums, rows []int) error {
		x := pick(c.x, rows)
		for l, t := range ts {
			if t == nil {
				continue
			}
			pred, _, err := predictSums(rest, lambdas[l], false, x)
			switch {
			case errors.Is(err, dense.ErrNotFinite), errors.Is(err, machine.ErrSingular):
				ts[l] = nil // overflow, or too small a penalty: the setting is unusable
				continue
			case err != nil:
				return err
			}
			if len(t.out) == 0 {
				t.out = []matrix{unpredicted(c.s.len(), pred.Cols)}
			}
			for at, i := range rows {
				copy(t.out[0].Row(i), pred.Row(at))
			}
		}
		return c.ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	var out []*trial
	for _, t := range ts {
		if t == nil || len(t.out) == 0 {
			continue
		}
		if c.task == machine.Unsupervised {
			c.judgeDensity(t, setup)
		} else if err := c.judge(t); err != nil {
			return nil, err
		}
		if dense.IsFinite(t.mean) {
			out = append(out, t)
		}
	}
	return out, nil
}

// unpredicted returns a matrix of NaN.
func unpredicted(rows, cols int) matrix {
	m := dense.New[float64](rows, cols)
	for i := range m.Data {
		m.Data[i] = math.NaN()
	}
	return m
}

// foldSums sums the rows of every fold of the frame.
func (c *featureSearch) foldSums(kind machine.Kind, setup machine.Setup) (*foldSums, error) {
	sums, err := newFoldSums(kind, setup, c.folds, nil)
	if err != nil {
		return nil, err
	}
	sums.past = c.s.ordered
	for k := range sums.parts {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := c.s.fold(k)
		if err := sums.parts[k].Add(c.x.RowRange(lo, hi), c.s.y.RowRange(lo, hi)); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// outOfFold calls use for every fold with its rows and the sums that a model of them learns from.
func (f *frame) outOfFold(sums *foldSums, use func(k int, rest machine.Sums, rows []int) error) error {
	for k := range f.folds {
		rows, from := f.rows(0, k)
		if len(rows) == 0 || len(from) == 0 {
			continue
		}
		rest, err := sums.merged(k)
		if err != nil {
			return err
		}
		if rest.Len() == 0 {
			continue
		}
		if err := use(k, rest, rows); err != nil {
			return err
		}
	}
	return nil
}

// predictSums predicts rows by the model of sums, with variances if it has some.
func predictSums(sums machine.Sums, lambda float64, raise bool, x matrix) (pred, variance matrix, err error) {
	m, err := raised(lambda, !raise, sums.Model)
	if err != nil {
		return pred, variance, err
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return pred, variance, err
	}
	var ws machine.Workspace[float64]
	pred = dense.New[float64](x.Rows, max(m.Outputs, 1))
	if err := p.Predict(pred, x, &ws); err != nil || len(m.Noise) == 0 {
		return pred, variance, err
	}
	variance = dense.New[float64](x.Rows, m.Outputs)
	return pred, variance, p.Variance(variance, x, &ws)
}

// judgeDensity sets the losses of a density. The prediction is the log mean kernel; log densities can be compared
// between bandwidths.
func (c *featureSearch) judgeDensity(t *trial, setup machine.Setup) {
	n := c.s.len()
	t.loss = make([]float64, n)
	for i := range n {
		t.loss[i] = -t.out[0].At(i, 0)
	}
	bulk(t.loss, -(&machine.Model{Spec: setup.Spec}).LogDensity(0))
	for i := range n {
		t.loss[i] *= c.s.weight(i)
	}
	t.shown, t.mean, t.rows = t.loss, mean(t.loss), n
}

// tail is the share of least likely rows whose loss is cut to that of the most likely row among them. −log density is
// unbounded, and a single row far from all others would ask for a kernel that reaches it: without the cut, a few
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
