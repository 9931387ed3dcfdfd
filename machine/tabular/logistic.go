package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// Bounds on trials. Every trial is a fit by L-BFGS per fold, and λ is needed only to half a decade. Tolerance
// and steps are ten and three times looser than those of the model (machine.FitLogistic). Models of nested folds
// use them, too.
const (
	logisticFeatures = 512     // largest number of features of a trial
	logisticWork     = 1 << 25 // multiply-adds n·F·outputs of a pass above which only two folds are tried
	logisticTol      = 1e-4
	logisticSteps    = 300
)

// chooseLogistic walks over decades, then half decades of λ towards the smallest out-of-fold log loss. It assumes
// one minimum in log λ. A walk is faster than a grid, because small penalties take the most steps to fit. Features
// have norm 1 at any number, so a moderate number of them is enough to find λ. The walk does not continue below 10⁻⁶
// or above 100.
func (c *chooser) chooseLogistic() error {
	features := int(c.find("features").Number)
	spec, err := c.at(c.spec.Kernel.Scale, min(features, logisticFeatures))
	if err != nil {
		return err
	}
	folds := c.s.folds()
	if c.s.len()*min(features, logisticFeatures)*c.f.outputs > logisticWork {
		folds = min(folds, 2)
	}
	ch := Choice{Name: "lambda", Why: "smallest out-of-fold log loss"}
	scores := map[int]float64{}
	try := func(decade int) (float64, error) {
		if v, ok := scores[decade]; ok {
			return v, nil
		}
		lambda := math.Pow(10, float64(decade)/2)
		loss, err := c.f.logisticLoss(c.s, spec, lambda, folds)
		if err != nil {
			return 0, err
		}
		c.counted()
		scores[decade] = -mean(loss)
		t := Trial{Value: lambda, Score: -mean(loss), Metric: "out-of-fold mean log likelihood"}
		_, t.Error = gain(loss, make([]float64, len(loss)))
		ch.Trials = append(ch.Trials, t)
		return scores[decade], nil
	}
	at := -4 // λ = 0.01
	for _, stride := range []int{2, 1} {
		for moved := true; moved && at >= -12 && at <= 4; {
			moved = false
			here, err := try(at)
			if err != nil {
				return err
			}
			for _, next := range []int{at + stride, at - stride} {
				v, err := try(next)
				if err != nil {
					return err
				}
				if v > here {
					at, moved = next, true
					break
				}
			}
		}
	}
	c.lambda = math.Pow(10, float64(at)/2)
	ch.Number, ch.Value = c.lambda, short(c.lambda)
	c.chosen(ch)
	return nil
}

func (c *chooser) find(name string) *Choice {
	for i := range c.d.Choices {
		if c.d.Choices[i].Name == name {
			return &c.d.Choices[i]
		}
	}
	return &Choice{}
}

// logisticModel fits all rows of a sample.
func (j *job) logisticModel(s *sample, setup machine.Setup, lambda float64) (*machine.Model, error) {
	rows, err := machine.MatrixRows(s.x, s.y)
	if err != nil {
		return nil, err
	}
	m, _, err := machine.FitLogistic(setup, rows, machine.LogisticOptions{Lambda: lambda,
		Tolerance: logisticTol, MaxIterations: logisticSteps,
		Step: func(*machine.LogisticState) error { return j.ctx.Err() }})
	return m, err
}

// logisticLoss returns the weighted log losses of the rows of some folds: what the fit minimises. Probabilities
// below 1e-300 count as 1e-300, so that one confident mistake does not make the mean infinite.
func (j *job) logisticLoss(s *sample, spec randfeat.Spec, lambda float64, folds int) ([]float64, error) {
	setup := j.setup(spec)
	var err error
	if setup.Omega, err = randfeat.Draw(spec); err != nil {
		return nil, err
	}
	var loss []float64
	first := 0
	if s.ordered { // the folds with the most rows before them
		first = max(s.scored(), s.folds()-folds)
	}
	for k := first; k < first+folds && k < s.folds(); k++ {
		lo, hi := s.fold(k)
		if lo == hi {
			continue
		}
		m, err := j.logisticModel(s.without(k), setup, lambda)
		if err != nil {
			return nil, fmt.Errorf("cross-validation on the sample without fold %d: %w", k+1, err)
		}
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			return nil, err
		}
		out := dense.New[float64](hi-lo, j.outputs)
		if err := p.Predict(out, s.x.RowRange(lo, hi), nil); err != nil {
			return nil, err
		}
		for i := range out.Rows {
			y := int(s.y.At(lo+i, 0))
			loss = append(loss, -math.Log(max(out.At(i, y), 1e-300))*s.weight(lo+i))
		}
	}
	return loss, nil
}
