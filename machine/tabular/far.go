package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Settings found on a few thousand rows are not optimal for many more. More rows want narrower kernels and smaller
// penalties; rough kernels and margins gain; column widths that were fitted to few rows lose. A far search chooses the
// open settings again: conjugate gradients fit some rows, and other rows judge the fits.
const (
	farHold   = 1 << 30 // bytes of kernels
	farSketch = 1024    // landmarks at most, one for 16 rows
	farSteps  = 60
	// Residuals at which trials end. Settings that are compared differ by more.
	farTolerance, farMargin = 1e-2, 3e-3
	farMoves                = 4   // largest number of moves of a descent
	mostRival               = 1.2 // largest loss, relative to the best kernel, of a kernel that is tried on more rows
	farRaises               = 3   // largest number of times that an unsolvable λ is multiplied by 10
)

// Numbers of rows: farFirst for the first trials, of scalings and kernels; farRows for later ones; farJudged rows
// judge. They are variables so that tests can use fewer rows.
var farFirst, farRows, farJudged = 4096, 8192, 2048

// farHold returns the number of bytes of kernels that trials keep in memory.
func (j *job) farHold() int64 {
	if j.o.Memory == 0 {
		return farHold
	}
	return min(farHold, j.o.Memory/4)
}

// farScaling is how a setting weighs the columns.
type farScaling int

const (
	farChosen   farScaling = iota // as chosen before
	farStandard                   // by their standard deviations
	farSparse                     // as chosen before, without the fields of little weight
)

// farPoint is a setting.
type farPoint struct {
	scaling farScaling
	kind    kernel.Kind
	at      exactPoint
	margins bool
}

// farTrial is a setting with its losses.
type farTrial struct {
	farPoint
	trial
}

// far tries settings on some rows. It keeps the kernels and the landmarks of the last kernel and bandwidth.
type far struct {
	c       *chooser
	order   []int
	least   float64 // smallest penalty; smaller ones are raised to it
	rows    int     // number of rows that are fitted
	x, y, t dense.Matrix[float64]
	scaling farScaling // of the columns of x
	of      farPoint
	kernels *krr.Kernels
	sketch  *krr.Sketch
	fit     *krr.Fit // last fit of squares, where the next one starts
	all     []farTrial
}

// take uses the first n rows of the order to fit, and the next farJudged rows to judge.
func (s *far) take(n int) {
	s.rows, s.all, s.scaling, s.kernels = n, nil, farChosen, nil
	s.x, s.y, s.t = s.c.s.picked(s.order[:min(n+farJudged, len(s.order))])
}

// scaled gives the columns the weights of a scaling.
func (s *far) scaled(to farScaling) {
	if to == s.scaling {
		return
	}
	w := inverses(s.c.f.columnWeights(s.c.f.relative(s.scaling)))
	for j, v := range s.c.f.columnWeights(s.c.f.relative(to)) {
		w[j] *= v
	}
	weigh(s.x, w)
	s.scaling, s.kernels = to, nil
}

// A field of less than weakShare of the largest weight is weak. The Gaussian kernel hardly sees weak fields, because
// squares of weights count. In the Laplace kernel many of them add up: 25 columns of noise were a tenth of the distance
// of 5 others. A sparse scaling multiplies their weights by leftOutWeight, a power of two that rounds nothing, after
// which they do not change kernels in float32.
const (
	weakShare     = 1. / 16
	leftOutWeight = 0x1p-40
)

// relative returns the weights of the fields in a scaling, divided by the weights chosen before.
func (f *search) relative(to farScaling) []float64 {
	w := make([]float64, len(f.fields))
	top := 0.0
	for _, v := range f.fields {
		top = max(top, v)
	}
	for i, v := range f.fields {
		switch w[i] = 1; {
		case to == farStandard:
			w[i] = 1 / v
		case to == farSparse && v < weakShare*top:
			w[i] = leftOutWeight
		}
	}
	return w
}

// sparse reports whether fields of little weight may be left out.
func (f *search) sparse() bool {
	return f.learned == nil && (f.o.Scaling == "" || f.o.Scaling == scalingFitted) &&
		slices.Contains(f.relative(farSparse), leftOutWeight)
}

// try tries settings that have not been tried yet. Settings that cannot be solved are left out.
func (s *far) try(points ...farPoint) error {
	for _, p := range points {
		p.at.lambda = max(p.at.lambda, s.least)
		if s.find(p) >= 0 {
			continue
		}
		if err := s.c.f.ctx.Err(); err != nil {
			return err
		}
		t, err := s.one(p)
		s.c.counted()
		if errors.Is(err, krr.ErrNotPositive) {
			continue
		}
		if err != nil {
			return err
		}
		s.all = append(s.all, farTrial{p, t})
	}
	return nil
}

func (s *far) find(p farPoint) int {
	return slices.IndexFunc(s.all, func(t farTrial) bool {
		return t.scaling == p.scaling && t.kind == p.kind && t.margins == p.margins &&
			math.Abs(t.at.scale-p.at.scale) <= 1e-9*p.at.scale && math.Abs(t.at.lambda-p.at.lambda) <= 1e-9*p.at.lambda
	})
}

// one fits a setting and judges it.
func (s *far) one(p farPoint) (trial, error) {
	s.scaled(p.scaling)
	k := kernel.Kernel{Kind: p.kind, Scale: p.at.scale}
	x, z := s.x.RowRange(0, s.rows), s.x.RowRange(s.rows, s.x.Rows)
	if s.kernels == nil || s.of.kind != p.kind || s.of.at.scale != p.at.scale {
		var err error
		if s.kernels, err = krr.NewKernels(k, x, s.c.f.farHold()); err != nil {
			return trial{}, err
		}
		if s.sketch, err = krr.NewSketch(s.kernels, min(farSketch, max(s.rows/16, 1)), s.c.f.o.Seed); err != nil {
			return trial{}, err
		}
		s.fit = nil
	}
	s.of = p
	targets := s.t.RowRange(0, s.rows)
	fit, _, err := krr.Solve(s.kernels, s.sketch, targets, p.at.lambda, s.fit,
		krr.Options{Tolerance: farTolerance, Steps: farSteps, Rough: true})
	if err != nil {
		return trial{}, err
	}
	s.fit = fit
	if p.margins {
		fit, _, err = krr.Margins(s.kernels, s.sketch, targets, p.at.lambda, fit,
			krr.Options{Tolerance: farMargin, Steps: krr.MarginSteps})
		if err != nil {
			return trial{}, err
		}
	}
	pred := dense.New[float64](z.Rows, s.t.Cols)
	s.kernels.Predict(pred, z, fit)
	t := trial{spec: randfeat.Spec{Kernel: k}, lambda: p.at.lambda}
	judgeAll(s.c.f.task, &t, pred, s.y.RowRange(s.rows, s.x.Rows), s.t.RowRange(s.rows, s.x.Rows))
	return t, nil
}

// best returns the best trial of the settings that of accepts.
func (s *far) best(of func(farPoint) bool) (farTrial, bool) {
	var ts []trial
	var at []int
	for i, t := range s.all {
		if of(t.farPoint) {
			ts, at = append(ts, t.trial), append(at, i)
		}
	}
	i := best(ts)
	if i < 0 {
		return farTrial{}, false
	}
	return s.all[at[i]], true
}

// descend moves from a setting along λ, then along the bandwidth, as long as a step is better. It first tries smaller
// penalties and narrower kernels, because more rows want these.
func (s *far) descend(p farPoint, steps ...exactPoint) (farTrial, error) {
	if err := s.try(p); err != nil {
		return farTrial{}, err
	}
	o := &s.c.f.o
	moves := 0
	for _, d := range steps {
		if d.scale != 1 && o.Bandwidth > 0 || d.lambda != 1 && o.Lambda > 0 {
			continue
		}
		for moves < farMoves {
			q := p
			q.at = exactPoint{p.at.scale * d.scale, p.at.lambda * d.lambda}
			if err := s.try(q); err != nil {
				return farTrial{}, err
			}
			at, next := s.find(p), s.find(q)
			if next < 0 || at >= 0 && !s.all[next].better(&s.all[at]) {
				break
			}
			p = q
			moves++
		}
	}
	at := s.find(p)
	if at < 0 {
		return farTrial{}, fmt.Errorf("bandwidth: %w", errNothing)
	}
	return s.all[at], nil
}

// settle descends from a setting that could be solved for fewer rows. If it cannot be solved for these, settle starts
// from a larger λ.
func (s *far) settle(p farPoint) (farTrial, error) {
	for k := 0; ; k++ {
		t, err := s.descend(p, farDescent...)
		if k == farRaises || s.c.f.o.Lambda > 0 || !errors.Is(err, errNothing) {
			return t, err
		}
		p.at.lambda *= 10
	}
}

// better reports whether best prefers t to than.
func (t *farTrial) better(than *farTrial) bool { return best([]trial{than.trial, t.trial}) == 1 }

// The steps of a descent. Margins gain little by steps of the bandwidth.
var (
	farDescent = []exactPoint{{1, math.Sqrt(0.1)}, {math.Sqrt2 / 2, 1}, {1, math.Sqrt(10)}, {math.Sqrt2, 1}}
	farMargins = []exactPoint{{1, math.Sqrt(0.1)}, {1, math.Sqrt(10)}}
)

// farther starts from the result of the search e. It chooses scaling, kernel, bandwidth, λ and loss again, as far as
// they are open.
func (e *exactSearch) farther() (*Choice, error) {
	f := e.c.f
	o := &f.o
	if o.Bandwidth > 0 && o.Lambda > 0 || len(e.order) < farFirst+farJudged {
		return nil, nil
	}
	s := &far{c: e.c, order: e.order, least: e.least}
	s.take(farFirst)
	start := farPoint{kind: e.tries.kind, at: e.at, margins: e.c.d.Margins}
	if err := s.starts(start, e.open); err != nil {
		return nil, err
	}
	top, ok := s.best(func(farPoint) bool { return true })
	if !ok {
		return nil, nil
	}
	// Rough kernels gain most by more rows, so the best other kernel is tried again if it is not far behind.
	rival, other := s.best(func(p farPoint) bool { return p.kind != top.kind })
	other = other && mean(rival.compared()) < mostRival*mean(top.compared())
	if n := min(farRows, len(e.order)-farJudged); n > s.rows && !o.Quick {
		if s.take(n); other {
			if err := s.try(top.farPoint, rival.farPoint); err != nil {
				return nil, err
			}
			if now, ok := s.best(func(farPoint) bool { return true }); ok {
				top = now
			}
		}
	}
	top, err := s.settle(top.farPoint)
	if errors.Is(err, errNothing) {
		return nil, nil // the choice of fewer rows stays
	}
	if err != nil {
		return nil, err
	}
	var loss *Choice
	if f.task == machine.Classification && o.Loss == "" && !start.margins && !top.trial.faultless() {
		if top, loss, err = s.margins(top); err != nil {
			return nil, err
		}
	}
	if top.scaling != farChosen {
		to := f.relative(top.scaling)
		weigh(e.c.s.x, f.columnWeights(to))
		f.rescaled = rescaled{scalingStandard, fmt.Sprintf("better than the one that fewer rows chose, by fits of %d",
			farFirst)}
		if top.scaling == farSparse {
			f.rescaled = rescaled{scalingFitted, fmt.Sprintf("best %s by fits of %d rows, without fields of less than "+
				"%g of the largest weight", f.metric(), farFirst, weakShare)}
		}
		f.fields = slices.Clone(f.fields)
		for i, v := range to {
			if f.fields[i] *= v; top.scaling == farStandard {
				f.fields[i] = 1
			}
		}
	}
	e.far, e.at, e.c.d.Margins = s, top.at, top.margins
	e.c.d.far, e.c.d.farRows = top.trial, s.rows
	if e.tries.kind != top.kind {
		e.kinds = append(e.kinds, f.shown(top.trial, float64(len(e.kinds)), top.kind.String()))
		e.told = s.rows
	}
	e.tries.kind = top.kind
	e.all = nil
	for _, t := range s.all {
		if t.scaling == top.scaling && t.kind == top.kind && t.margins == top.margins {
			e.all = append(e.all, t.trial)
		}
	}
	return loss, nil
}

// starts tries the setting that a search found, the Laplace kernel, and other scalings of the columns.
func (s *far) starts(p farPoint, open bool) error {
	o := &s.c.f.o
	try := func(q farPoint, factors ...float64) error {
		lambdas := []float64{p.at.lambda, p.at.lambda / 10}
		switch { // narrow rough kernels fit noise, and then need a larger λ
		case o.Lambda > 0:
			lambdas = lambdas[:1]
		case q.kind != p.kind:
			lambdas = []float64{p.at.lambda, 10 * p.at.lambda, 100 * p.at.lambda}
		}
		scale := q.at.scale
		for _, by := range factors {
			if by != 1 && o.Bandwidth > 0 {
				continue
			}
			for _, l := range lambdas {
				q.at = exactPoint{by * scale, l}
				if err := s.try(q); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := try(p, 1, 0.5); err != nil {
		return err
	}
	if o.Bandwidth > 0 {
		return nil
	}
	median := func(kind kernel.Kind) float64 {
		return medianDistance(&sample{x: s.x.RowRange(0, min(s.x.Rows, firstRows))}, kind, o.Seed)
	}
	own := median(p.kind)
	scalings := []farScaling{farChosen}
	if o.Scaling == "" && slices.ContainsFunc(s.c.f.fields, func(v float64) bool { return v != 1 }) {
		scalings = append(scalings, farStandard)
	}
	laplace := s.x.Cols <= laplaceColumns && (open || p.kind == kernel.Laplace)
	if laplace && s.c.f.sparse() {
		scalings = append(scalings, farSparse)
	}
	kinds := []kernel.Kind{p.kind}
	if laplace && p.kind != kernel.Laplace {
		kinds = append(kinds, kernel.Laplace)
	}
	for _, scaling := range scalings {
		for _, kind := range kinds {
			if scaling == farChosen && kind == p.kind || scaling == farSparse && kind != kernel.Laplace {
				continue
			}
			s.scaled(scaling)
			q := p
			q.scaling, q.kind = scaling, kind
			q.at.scale *= median(kind) / own
			factors := []float64{1, 0.5}
			if kind != p.kind {
				factors = []float64{1, 2}
			}
			if err := try(q, factors...); err != nil {
				return err
			}
		}
	}
	return nil
}

// margins compares margins with squares. Margins start from the setting of squares and from a kernel twice as wide.
func (s *far) margins(squares farTrial) (farTrial, *Choice, error) {
	p := squares.farPoint
	p.margins = true
	wide := p
	if s.c.f.o.Bandwidth == 0 {
		wide.at.scale *= 2
	}
	if err := s.try(p, wide); err != nil {
		return squares, nil, err
	}
	ch := &Choice{Name: "loss", Value: lossSquares}
	top, ok := s.best(func(q farPoint) bool { return q.margins })
	if ok && mean(top.loss) < mean(squares.loss) {
		var err error
		if top, err = s.descend(top.farPoint, farMargins...); err != nil {
			return squares, nil, err
		}
	}
	ch.Why = "margins make no fewer errors by more than a standard error"
	if !ok {
		return squares, ch, nil
	}
	ch.Trials = s.c.shownLosses([]trial{squares.trial, top.trial})
	if diff, se := gain(squares.loss, top.loss); diff > se {
		ch.Value = lossMargins
		ch.Why = fmt.Sprintf("best %s of %d rows by %d others", s.c.f.metric(), len(top.loss), s.rows)
		return top, ch, nil
	}
	return squares, ch, nil
}

func inverses(w []float64) []float64 {
	out := make([]float64, len(w))
	for i, v := range w {
		out[i] = 1 / v
	}
	return out
}
