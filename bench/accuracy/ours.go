package main

import (
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

func (j job) setup(dim, features int, scale float64, seed int) machine.Setup {
	s := machine.Setup{Task: machine.Regression, Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: scale},
		Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: dim, M: features / 2, Seed: uint64(seed)}}
	if j.Classes > 0 {
		s.Task, s.Outputs = machine.Classification, j.Classes
	}
	s.Omega = projections(s.Spec)
	return s
}

// drawn caches the last projections: they do not depend on the bandwidth, and orthogonal ones of 784 columns take a
// while.
var drawn struct {
	dim, m int
	seed   uint64
	omega  []coupling.Omega
}

// projections returns nil if they cannot be drawn; the machine then reports why.
func projections(s randfeat.Spec) []coupling.Omega {
	if drawn.omega == nil || drawn.dim != s.Dim || drawn.m != s.M || drawn.seed != s.Seed {
		drawn.omega, _ = randfeat.Draw(s)
		drawn.dim, drawn.m, drawn.seed = s.Dim, s.M, s.Seed
	}
	return drawn.omega
}

// ours runs ridge regression and, for classes, logistic regression.
func ours(j job, t *table) (map[string]*result, error) {
	out := map[string]*result{"ridge": {}}
	if j.Classes > 0 {
		out["logistic"] = &result{}
	}
	for _, tr := range j.Trials {
		start := time.Now()
		scale, lambda, err := j.tuneRidge(t, tr)
		if err != nil {
			return nil, err
		}
		ridge, err := machine.NewRidge(j.setup(t.x.Cols, j.Features, scale, tr.Seed))
		if err != nil {
			return nil, err
		}
		if err := ridge.Add(rows(t.x, tr.Train), rows(t.y, tr.Train)); err != nil {
			return nil, err
		}
		m, err := ridge.Model(lambda)
		if err != nil {
			return nil, err
		}
		if err := out["ridge"].add(t, tr, m, start); err != nil {
			return nil, err
		}
		if j.Classes == 0 {
			continue
		}
		start = time.Now()
		if scale, lambda, err = j.tuneLogistic(t, tr, scale); err != nil {
			return nil, err
		}
		if m, err = j.fitLogistic(t, tr, tr.Train, j.Features, scale, lambda); err != nil {
			return nil, err
		}
		if err := out["logistic"].add(t, tr, m, start); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *result) add(t *table, tr trial, m *machine.Model, start time.Time) error {
	e, err := lossOf(t, m, tr.Test)
	if err != nil {
		return err
	}
	r.Scores = append(r.Scores, e.points(t, tr.Test))
	r.Scale, r.Lambda = append(r.Scale, m.Spec.Kernel.Scale), append(r.Lambda, m.Lambda)
	r.Seconds += time.Since(start).Seconds()
	return nil
}

// tuneRidge tries the whole grid. The sums of every fold are computed once; those of the other folds are merged.
func (j job) tuneRidge(t *table, tr trial) (scale, lambda float64, err error) {
	best := lossSum(-1)
	for _, s := range j.Scales {
		sums := make([]*machine.Ridge, tr.Folds)
		held := make([][]int, tr.Folds)
		for k := range sums {
			_, held[k] = tr.fold(k)
			if sums[k], err = machine.NewRidge(j.setup(t.x.Cols, j.tuning, s, tr.Seed)); err != nil {
				return 0, 0, err
			}
			if err = sums[k].Add(rows(t.x, held[k]), rows(t.y, held[k])); err != nil {
				return 0, 0, err
			}
		}
		losses := make([]lossSum, len(j.Lambdas))
		for k := range tr.Tried {
			rest, err := machine.NewRidge(j.setup(t.x.Cols, j.tuning, s, tr.Seed))
			if err != nil {
				return 0, 0, err
			}
			for o := range sums {
				if o != k {
					if err := rest.Merge(sums[o]); err != nil {
						return 0, 0, err
					}
				}
			}
			for l, lambda := range j.Lambdas {
				m, err := rest.Model(lambda)
				if err != nil {
					return 0, 0, err
				}
				e, err := lossOf(t, m, held[k])
				if err != nil {
					return 0, 0, err
				}
				losses[l] += e
			}
		}
		for l, e := range losses {
			if best < 0 || e < best {
				best, scale, lambda = e, s, j.Lambdas[l]
			}
		}
	}
	return scale, lambda, nil
}

// tuneLogistic tries the penalties on the first fold, at bandwidths around that of the ridge.
func (j job) tuneLogistic(t *table, tr trial, of float64) (scale, lambda float64, err error) {
	fit, held := tr.fold(0)
	best := lossSum(-1)
	for _, s := range j.around(of) {
		for _, l := range j.Logistic {
			m, err := j.fitLogistic(t, tr, fit, j.tuning, s, l)
			if err != nil {
				return 0, 0, err
			}
			e, err := lossOf(t, m, held)
			if err != nil {
				return 0, 0, err
			}
			if best < 0 || e < best {
				best, scale, lambda = e, s, l
			}
		}
	}
	return scale, lambda, nil
}

func (j job) fitLogistic(t *table, tr trial, index []int, features int, scale, lambda float64) (*machine.Model, error) {
	in, err := machine.MatrixRows(rows(t.x, index), rows(t.y, index))
	if err != nil {
		return nil, err
	}
	m, _, err := machine.FitLogistic(j.setup(t.x.Cols, features, scale, tr.Seed), in,
		machine.LogisticOptions{Lambda: lambda, MaxIterations: j.MaxIter, Tolerance: j.Tol})
	return m, err
}

// lossSum is the number of wrong classes or the sum of squared errors.
type lossSum float64

func lossOf(t *table, m *machine.Model, index []int) (lossSum, error) {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return 0, err
	}
	out := dense.New[float64](len(index), m.Outputs)
	if err := p.Predict(out, rows(t.x, index), nil); err != nil {
		return 0, err
	}
	var sum lossSum
	for i, k := range index {
		y := t.y.At(k, 0)
		switch {
		case t.classes == nil:
			sum += lossSum((out.At(i, 0) - y) * (out.At(i, 0) - y))
		case float64(largest(out.Row(i))) != y:
			sum++
		}
	}
	return sum, nil
}

func largest(v []float64) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}

// points converts a loss to a score: % correct, or 100·R².
func (e lossSum) points(t *table, index []int) float64 {
	if t.classes != nil {
		return 100 * (1 - float64(e)/float64(len(index)))
	}
	var mean, square float64
	for _, k := range index {
		mean += t.y.At(k, 0) / float64(len(index))
	}
	for _, k := range index {
		square += (t.y.At(k, 0) - mean) * (t.y.At(k, 0) - mean)
	}
	return 100 * (1 - float64(e)/square)
}
