package tabular

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/machine"
)

// Bounds on trials. Every trial is a fit by L-BFGS per fold, and λ is needed only to half a decade. Tolerance and steps
// are ten and three times looser than those of the model (machine.FitLogistic). Models without a fold use them, too.
const (
	logisticFeatures = 512     // largest number of features of a trial
	logisticWork     = 1 << 25 // multiply-adds n·F·outputs of a pass above which only two folds are tried
	logisticTol      = 1e-4
	logisticSteps    = 300
)

// chooseLogistic walks over decades, then half decades of λ towards the smallest out-of-fold log loss. It assumes one
// minimum in log λ. A walk is faster than a grid, because small penalties take the most steps to fit. Features have
// norm 1 at any number, so a moderate number of them is enough to find λ. The walk does not continue below 10⁻⁶ or
// above 100.
func (c *featureSearch) chooseLogistic() error {
	features := min(int(c.d.find("features").Number), logisticFeatures)
	spec, err := c.at(c.spec, c.d.Spec.Kernel.Scale, features)
	if err != nil {
		return err
	}
	setup := c.setup(spec)
	if setup.Omega, err = randfeat.Draw(spec); err != nil {
		return err
	}
	folds := c.folds
	if c.x.Rows*features*c.outputs > logisticWork {
		folds = min(folds, 2)
	}
	ch := Choice{Name: "lambda"}
	scores := map[int]float64{}
	try := func(decade int) (float64, error) {
		if v, ok := scores[decade]; ok {
			return v, nil
		}
		lambda := math.Pow(10, float64(decade)/2)
		loss, err := c.logisticLoss(setup, lambda, folds)
		if err != nil {
			return 0, err
		}
		scores[decade] = -mean(loss)
		c.progress(stageChoose, int64(len(scores)), 0)
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
	c.d.Lambda = math.Pow(10, float64(at)/2)
	ch.Number, ch.Value = c.d.Lambda, short(c.d.Lambda)
	ch.Why = fmt.Sprintf("out-of-fold log loss %.4g, the smallest of %d", -scores[at], len(ch.Trials))
	c.d.Choices = append(c.d.Choices, ch)
	return nil
}

// logisticLoss returns the weighted log losses of the rows of some folds: what the fit minimises. Probabilities below
// 1e-300 count as 1e-300, so that one confident mistake does not make the mean infinite.
func (c *featureSearch) logisticLoss(setup machine.Setup, lambda float64, folds int) ([]float64, error) {
	var loss []float64
	first := 0
	if c.s.ordered { // the folds with the most rows before them
		first = max(1, c.folds-folds)
	}
	for k := first; k < min(first+folds, c.folds); k++ {
		held, from := c.rows(0, k)
		if len(held) == 0 || len(from) == 0 {
			continue
		}
		rows, err := machine.MatrixRows(pick(c.x, from), pick(c.s.y, from))
		if err != nil {
			return nil, err
		}
		m, _, err := machine.FitLogistic(setup, rows, machine.LogisticOptions{Lambda: lambda,
			Tolerance: logisticTol, MaxIterations: logisticSteps,
			Step: func(*machine.LogisticState) error { return c.ctx.Err() }})
		if err != nil {
			return nil, fmt.Errorf("cross-validation on the sample without fold %d: %w", k+1, err)
		}
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			return nil, err
		}
		out := matrix{Rows: len(held), Cols: c.outputs, Stride: c.outputs, Data: make([]float64, len(held)*c.outputs)}
		if err := p.Predict(out, pick(c.x, held), nil); err != nil {
			return nil, err
		}
		for at, i := range held {
			y := int(c.s.y.At(i, 0))
			loss = append(loss, -math.Log(max(out.At(at, y), 1e-300))*c.s.weight(i))
		}
	}
	return loss, nil
}

// fitLogistic fits all rows. It continues from a checkpoint, which holds the points and gradients of L-BFGS after a
// whole step. An interrupted step is repeated from the same numbers.
func (f *final) fitLogistic() (*machine.Model, error) {
	o := machine.LogisticOptions{Lambda: f.d.Lambda, Step: func(at *machine.LogisticState) error {
		f.progress("steps", int64(at.Iterations), 0)
		f.file.steps(at)
		if err := f.ctx.Err(); err != nil {
			return err
		}
		f.file.save(false)
		return nil
	}}
	if f.was != nil {
		o.Start = f.was.logistic
	}
	m, rep, err := machine.FitLogistic(f.setup(f.d.Spec), f.file.checked(f.watch(f.rows, stageFit)), o)
	if err == nil && !rep.Converged {
		f.log.note("logistic regression stopped after %d steps with a gradient of %.2g: a larger λ converges sooner",
			rep.Iterations, rep.Gradient)
	}
	return m, err
}
