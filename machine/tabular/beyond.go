package tabular

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Settings found on a few thousand rows are not optimal for many more. More rows want narrower kernels and smaller
// penalties; rough kernels and margins gain. So the best candidates
// are tried again: conjugate gradients fit beyondRows rows, and beyondJudged rows of the first fold judge the fits.
const (
	beyondHold   = 1 << 30 // bytes of kernels
	beyondSketch = 1024    // landmarks at most, one for 16 rows
	beyondSteps  = 60
	// Residuals at which trials end. Settings that are compared differ by more.
	beyondTolerance, beyondMargin = 1e-2, 3e-3
	beyondMoves                   = 4
)

// They are variables so that tests can use fewer rows.
var beyondRows, beyondJudged = 8192, 2048

// beyondSearch tries candidates on more rows than others.
type beyondSearch struct {
	*frame
	held, from []int
	of         Candidate // whose rows, kernels and sketch are kept
	at         float64   // bandwidth of the kernels
	x          matrix    // rows to fit, then rows to judge
	y, t       matrix
	kernels    *krr.Kernels
	sketch     *krr.Sketch
	trials     []*trial
	least      float64 // smallest penalty; smaller ones are raised to it
}

// beyond chooses again on more rows of the frame f.
func (s *search) beyond(f *frame) error {
	o := &s.o
	if o.Bandwidth > 0 && o.Lambda > 0 {
		return nil
	}
	b := &beyondSearch{frame: f, least: leastPenalty(f.s.len())}
	b.held, b.from = f.rows(0, 0)
	b.held = pickValues(b.held, hashed(seq(len(b.held)), o.Seed), beyondJudged)
	b.from = pickValues(b.from, hashed(seq(len(b.from)), o.Seed), beyondRows)
	rows := append(b.from, b.held...)
	b.y, b.t = pick(f.s.y, rows), pick(f.s.t, rows)
	top, err := b.descend(s.top.Candidate)
	if err != nil {
		return err
	}
	if top == nil {
		return nil // the choice of fewer rows stays
	}
	for _, r := range beyondRules {
		cs, err := r.propose(s, top)
		if err != nil {
			return err
		}
		var rival *trial
		for _, c := range cs {
			t, err := b.try(c)
			if err != nil {
				return err
			}
			if t != nil && (rival == nil || t.mean < rival.mean) {
				rival = t
			}
		}
		if rival == nil {
			continue
		}
		if diff, se := r.gain(top, rival); diff > -se {
			if rival, err = b.descend(rival.Candidate); err != nil {
				return err
			}
		}
		before, won := top, r.prefers(top, rival)
		if won {
			top = rival
		}
		s.noteAgain(r, before, rival, won)
	}
	s.top, s.done = top, s.done+int64(len(b.trials))
	s.beyondTrials = b.trials
	return nil
}

// beyondRules are applied in this order.
var beyondRules = []rule{
	{"scaling", 0.5, false, false, func(s *search, at *trial) ([]Candidate, error) {
		if at.Scaling == scalingStandard || s.o.Scaling != "" || at.Metric.Rounds > 0 {
			return nil, nil
		}
		c := at.Candidate
		c.Scaling = scalingStandard
		return []Candidate{c, c.at(c.Width/2, c.Lambda)}, nil
	}},
	{"kernel", 0.5, false, false, func(s *search, at *trial) (out []Candidate, err error) {
		if s.o.Kernel != "" || s.o.Bandwidth > 0 {
			return nil, nil
		}
		for _, kind := range []kernel.Kind{kernel.Laplace, kernel.Matern12} {
			if kind == at.Kernel || kind == kernel.Laplace && s.s.x.Cols > laplaceColumns {
				continue
			}
			c := at.Candidate
			c.Kernel, c.Metric, c.Loss = kind, Learning{}, lossSquares
			for _, w := range []float64{1, 2} {
				for _, l := range []float64{1, 10} {
					out = append(out, c.at(c.Width*w, c.Lambda*l))
				}
			}
		}
		return out, nil
	}},
	{"loss", 0.5, false, true, func(s *search, at *trial) ([]Candidate, error) { return s.withMargins(at), nil }},
}

// noteAgain replaces the choice of a rule by that of more rows, if more rows decided otherwise.
func (s *search) noteAgain(r rule, before, rival *trial, won bool) {
	n := len(s.choices)
	s.note(r, before, rival, []*trial{rival}, won)
	if len(s.choices) == n {
		return
	}
	ch := s.choices[n]
	for i := range s.choices[:n] {
		if s.choices[i].Name == r.name {
			s.choices[i], s.choices = ch, s.choices[:n]
			return
		}
	}
}

// descend moves from a candidate to narrower kernels and smaller penalties, then to larger ones, while that is better.
func (b *beyondSearch) descend(c Candidate) (*trial, error) {
	var top *trial
	var err error
	for k := 0; top == nil && k <= 3; k++ { // a penalty that cannot be solved for so many rows
		if top, err = b.try(c); err != nil {
			return nil, err
		}
		if b.o.Lambda > 0 {
			break
		}
		c.Lambda *= 10
	}
	if top == nil {
		return nil, nil
	}
	moves := 0
	for _, step := range []struct{ w, l float64 }{{1, 0.1}, {0.5, 1}, {1, math.Sqrt(0.1)}, {math.Sqrt2 / 2, 1},
		{1, math.Sqrt(10)}, {math.Sqrt2, 1}} {
		if step.w != 1 && b.o.Bandwidth > 0 || step.l != 1 && b.o.Lambda > 0 {
			continue
		}
		for moves < beyondMoves {
			t, err := b.try(top.at(top.Width*step.w, top.Lambda*step.l))
			if err != nil {
				return nil, err
			}
			if t == nil || t.mean >= top.mean*(1-climbGain) {
				break
			}
			top = t
			moves++
		}
	}
	return top, nil
}

// try fits a candidate and judges it; nil: it cannot be solved.
func (b *beyondSearch) try(c Candidate) (*trial, error) {
	c.Lambda = max(c.Lambda, b.least)
	for _, t := range b.trials {
		if t.Candidate == c {
			return t, nil
		}
	}
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	b.progress(stageChoose, int64(len(b.trials)), 0)
	if b.x.Rows == 0 || b.of.columns() != c.columns() {
		l, x, err := b.learnColumns(b.base(0), c, b.from)
		if err != nil {
			return nil, err
		}
		b.x, b.kernels = l.apply(b.job, pick(x, append(b.from, b.held...))), nil
	}
	n := len(b.from)
	s := b.o.Bandwidth
	if s == 0 {
		s = c.Width * medianDistance(b.x.RowRange(0, n), c.Kernel, b.o.Seed)
	}
	if b.kernels == nil || b.of.Kernel != c.Kernel || b.at != s {
		hold := int64(beyondHold)
		if b.o.Memory > 0 {
			hold = min(hold, b.o.Memory/4)
		}
		var err error
		if b.kernels, err = krr.NewKernels(kernel.Kernel{Kind: c.Kernel, Scale: s}, b.x.RowRange(0, n),
			hold); err != nil {
			return nil, err
		}
		if b.sketch, err = krr.NewSketch(b.kernels, min(beyondSketch, max(n/16, 1)), b.o.Seed); err != nil {
			return nil, err
		}
	}
	b.of, b.at = c, s
	targets := b.t.RowRange(0, n)
	fit, _, err := krr.Solve(b.kernels, b.sketch, targets, c.Lambda, nil,
		krr.Options{Tolerance: beyondTolerance, Steps: beyondSteps, Rough: true})
	if err == nil && c.Loss == lossMargins {
		fit, _, err = krr.Margins(b.kernels, b.sketch, targets, c.Lambda, fit,
			krr.Options{Tolerance: beyondMargin, Steps: krr.MarginSteps})
	}
	if errors.Is(err, krr.ErrNotPositive) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fit of %d rows: %w", n, err)
	}
	pred := dense.New[float64](len(b.held), b.t.Cols)
	b.kernels.Predict(pred, b.x.RowRange(n, b.x.Rows), fit)
	t := &trial{Candidate: c}
	t.judgeRows(b.task, pred, b.y.RowRange(n, b.y.Rows), b.t.RowRange(n, b.t.Rows))
	t.rows = n
	b.trials = append(b.trials, t)
	return t, nil
}

// judgeRows sets the losses of predicted rows without weights.
func (t *trial) judgeRows(task machine.Task, pred, y, targets matrix) {
	t.loss, t.shown = make([]float64, pred.Rows), make([]float64, pred.Rows)
	for i := range pred.Rows {
		t.loss[i], t.shown[i] = lossOf(task, t.Loss == lossMargins, pred.Row(i), targets.Row(i), y.Row(i))
	}
	t.mean = mean(t.loss)
}
