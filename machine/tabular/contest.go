package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// A table may have too many rows for an exact kernel of all of them. Then two maps compete: the exact kernel of a
// random part of the rows, and landmarks with all rows. Which is better depends on the target: a thousand landmarks of
// a smooth kernel cannot follow a step, and where noise dominates, all rows count for more.
//
// contest fits both to the same contestRows rows outside the fold that is scored first, with the settings of the exact
// kernel, and compares them on a quarter of the rows of that fold, which the score leaves out. Both gain by more rows:
// the exact kernel up to its limit, landmarks up to what they can represent. The exact kernel must be better by more
// than a standard error.
func (c *chosen) contest(sub *chosen) error {
	if c.o.Loss == lossMargins {
		return nil // landmarks have none
	}
	d := *sub.d
	limit := (&chooser{f: &search{job: c.job}, rows: c.d.Rows}).limit()
	if err := d.placeLandmarks(sub.job, sub.s, min(int(float64(limit)/math.Sqrt2), sub.s.len()/2)); err != nil {
		return err
	}
	order := shuffled(sub.s.len(), c.o.Seed)
	some := new(sample)
	some.x, some.y, some.t = sub.s.picked(order[:min(len(order), contestRows)])
	exact, err := (&final{chosen: sub}).solveExact(some, sub.d.Spec, sub.d.Lambda)
	if err != nil {
		return err
	}
	few, err := sub.landmarkModel(&d, some)
	if err != nil {
		return err
	}
	var trials [2]trial
	for i, m := range []*machine.Model{exact, few} {
		restore(m, sub.schema.Targets)
		m.Schema = sub.schema
		if trials[i].loss, err = sub.contestLosses(m); err != nil {
			return err
		}
		trials[i].score = -mean(trials[i].loss)
	}
	diff, se := gain(trials[1].loss, trials[0].loss)
	at := slices.IndexFunc(c.d.Choices, func(ch Choice) bool { return ch.Name == "map" })
	if at < 0 {
		return nil
	}
	ch := &c.d.Choices[at]
	ch.Trials = []Trial{c.shown(trials[0], 0, fmt.Sprintf("exact, %d rows", some.len())),
		c.shown(trials[1], 1, fmt.Sprintf("nystrom, %d landmarks, %d rows", d.Spec.M, some.len()))}
	if c.d.Tried = true; diff > se {
		ch.Why = fmt.Sprintf("the exact kernel of %d of the %d rows: better than landmarks by more than a standard error",
			c.s.len(), c.d.Rows)
		return nil
	}
	ch.Value = MapNystrom
	ch.Why = "landmarks of all rows: the exact kernel of some of them is not better by more than a standard error"
	c.d.Exact, c.d.Margins, c.d.Lambda, c.d.Open = false, false, d.Lambda, c.task == machine.Regression
	c.d.Choices = slices.DeleteFunc(c.d.Choices, func(ch Choice) bool {
		return ch.Name == "loss" && !ch.Given || ch.Name == "lambda" && c.d.Open
	})
	c.d.Choices = append(c.d.Choices, Choice{Name: "features", Number: float64(d.Spec.M), Value: fmt.Sprint(d.Spec.M),
		Why: fmt.Sprintf("landmarks, in the time of %d random features", limit)})
	c.apart = nil // its decision is the exact kernel
	return c.d.placeLandmarks(c.job, c.s, d.Spec.M)
}

// contestRows is the number of rows that both maps are fitted to. A variable for tests with fewer.
var contestRows = 1 << 15

// placeLandmarks makes m landmarks of the sample the map of the decision. They come from Options.Sample of its rows.
func (d *decision) placeLandmarks(j *job, s *sample, m int) (err error) {
	order := shuffled(s.len(), j.o.Seed)
	x, _, _ := s.picked(order[:min(len(order), j.o.Sample)])
	d.Spec = randfeat.Spec{Kernel: d.Spec.Kernel, Family: family.Landmarks{}, Dim: s.x.Cols, Seed: j.o.Seed}
	rows, marks, err := machine.Landmarks(d.Spec.Kernel, x, m, j.o.Seed)
	d.Spec.M, d.marks = len(rows), marks
	if err == nil {
		d.Narrow = true
		if setup, err := d.setup(j); err == nil {
			_, err = machine.NewSums(j.kind, setup)
			d.Narrow = err == nil // else the kernel is too smooth for float32, or landmarks are too near to each other
		}
	}
	if d.Margins && d.Guide != nil && d.Guide.Lambda > 0 {
		d.Lambda = d.Guide.Lambda // of squares
	}
	return err
}

// landmarkModel fits the landmarks of a decision to some rows, and sets its λ.
func (c *chosen) landmarkModel(d *decision, s *sample) (*machine.Model, error) {
	setup, err := d.setup(c.job)
	if err != nil {
		return nil, err
	}
	sums, err := machine.NewSums(c.kind, setup)
	if err == nil {
		err = sums.Add(s.x, s.y)
	}
	if err != nil {
		return nil, err
	}
	if path, ok := sums.(pather); ok && c.task == machine.Regression {
		ch, err := pathPenalty(path, false, d.Lambda, c.outputs)
		if err != nil {
			return nil, err
		}
		d.Lambda = ch.Number
	}
	return solved(sums, d.Lambda, false)
}

// contestLosses are the losses of a model of the rows outside a fold, on the rows of it that judge the contest: squares
// of standardised targets, or errors of classes.
func (c *chosen) contestLosses(m *machine.Model) (loss []float64, err error) {
	fold := c.src.(foldSource)
	fold.inside, fold.only = true, heldContest
	rows, err := machine.ModelRows(fold, m, true, nil)
	if err != nil {
		return nil, err
	}
	err = eachPredicted(c.job, m, rows, func(_, y, pred, _ dense.Matrix[float64]) error {
		for i := range y.Rows {
			if c.task == machine.Classification {
				loss = append(loss, wrong(pred.Row(i), int(y.At(i, 0))))
				continue
			}
			sum := 0.0
			for k, t := range c.schema.Targets {
				v := (y.At(i, k) - pred.At(i, k)) / t.Scale
				sum += v * v
			}
			loss = append(loss, sum)
		}
		return nil
	})
	return loss, err
}
