package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// exactSetting is a kernel with its bandwidth, λ and loss.
type exactSetting struct {
	kind    kernel.Kind
	at      exactPoint
	margins bool
}

// setting returns the setting of a decision, nil if there is none.
func (d *decision) setting() *exactSetting {
	if d == nil {
		return nil
	}
	return &exactSetting{d.Spec.Kernel.Kind, exactPoint{d.Spec.Kernel.Scale, d.Lambda}, d.Margins}
}

// metricOpen reports whether to search for a metric.
func (f *search) metricOpen(s *sample, scaling *Choice) bool {
	if scaling == nil || scaling.Value == scalingLearned {
		return scaling != nil
	}
	if f.o.Quick && f.task != machine.Classification { // classes lose more without: a metric stands in for margins
		return false
	}
	return !scaling.Given && f.info.LeastSquares && s.len() >= leastScaling && f.metricPossible() == "" &&
		s.x.Cols <= metricColumns && s.x.Cols > 1
}

// metricPossible returns the reason why the options rule out a metric, or "" if they do not.
func (j *job) metricPossible() string {
	switch {
	case j.task == machine.Unsupervised:
		return "a density has no target to learn it from"
	case j.o.Bandwidth > 0 || j.o.Lambda > 0 || j.o.Loss != "":
		return "bandwidth, λ and loss are chosen with it: leave them out"
	case j.o.ClassWeights != nil || len(j.weights) > 0 && slices.Max(j.weights) > slices.Min(j.weights)*(1+1e-9):
		return "rows with weights have none yet"
	case j.deal.grouped() || j.deal.ordered():
		return "folds of groups and of time have none yet"
	}
	return ""
}

// chooseWithMetric makes all choices but the scaling of columns. It searches without a metric first. If a metric wins
// the race, it searches with the metric too, and a duel decides. Random features have a long search, so there the race
// alone decides which of the two is searched.
func (f *search) chooseWithMetric(s *sample, n int64, scaling *Choice) (*decision, error) {
	if !f.metricOpen(s, scaling) {
		return f.choose(s, n)
	}
	exact := f.exactOf(n)
	c := &chooser{f: f, s: s, rows: n, d: &decision{}}
	var d *decision
	var err error
	if exact && !scaling.Given {
		if d, err = f.choose(s, n); err != nil || d.faultless {
			return d, err
		}
		f.noteRescaled(scaling)
	}
	if d != nil && f.guide != nil && f.guide.Metric == nil {
		return d, nil
	}
	order := c.order()
	slices.Reverse(order) // widths of columns were fitted to the first
	top, err := c.race(order, d.setting(), scaling.Given)
	if err != nil {
		return nil, err
	}
	if top == nil && d == nil {
		return f.choose(s, n)
	}
	if top == nil {
		return d, nil
	}
	f.found.Metric = &guideChain{top.kernel, top.kind}
	l, err := c.learn(top, order)
	if err != nil {
		return nil, err
	}
	with := &search{job: f.job, start: l.at, loss: f.loss, learned: l}
	in := *s
	in.x = inMetric(l.m, s.x)
	e, err := with.choose(&in, n)
	if err != nil {
		return nil, err
	}
	f.found.Margins = f.found.Margins || with.found.Margins
	trials, near, won, err := c.duel(d.setting(), e.setting(), top, l, order)
	if err != nil {
		return nil, err
	}
	if won && d != nil && d.farRows > 0 && d.farRows == e.farRows && d.farRows+farJudged+metricMost <= len(order) {
		trials = append(trials,
			f.shown(d.far, 2, fmt.Sprintf("%v, no metric, %d rows", d.Spec.Kernel.Kind, d.farRows)),
			f.shown(e.far, 3, fmt.Sprintf("%v, %v, %d rounds, %d rows", e.Spec.Kernel.Kind, l.kind, l.steps,
				e.farRows)))
		won = near.lasts(d, e, n)
	}
	if scaling.Trials = append(scaling.Trials, trials...); d != nil && !won {
		return d, nil
	}
	if e.Metric, err = l.described(f.schema, scaling.Value, l.halves); err != nil {
		return nil, err
	}
	f.marks = with.marks
	if !scaling.Given {
		scaling.Why = fmt.Sprintf("a metric of %s columns has the best %s of rows that it has not seen", scaling.Value,
			f.metric())
	}
	scaling.Value = scalingLearned
	e.Spec.Kernel.M, e.Spec.Dim = l.m, s.x.Cols
	return e, nil
}

// learn repeats a chain on up to metricMost rows and returns its metric.
func (c *chooser) learn(top *chain, order []int) (*learned, error) {
	all := c.newMetricSearch(order[:min(len(order), c.f.metricFewer(metricMost, len(order)))])
	whole := half{0, all.x.Rows}
	ch, err := all.run(top, whole)
	if err != nil {
		return nil, err
	}
	out := &learned{kernel: top.kernel, kind: top.kind, steps: len(top.rounds) - 1, m: ch.m,
		rows: all.x.Rows}
	out.at = exactPoint{top.last().factor * all.take(ch.kernel, ch.m, whole), top.last().lambda}
	return out, nil
}

// duelRows is the number of rows of a table from which two settings are compared on metricMost of them.
const duelRows = 3000

// halves returns two metrics of a chain, each learned from one half of the rows.
func (c *chooser) halves(of *chain, order []int) (out []dense.Matrix[float64], err error) {
	s := c.newMetricSearch(order)
	for _, h := range halvesOf(order) {
		ch, err := s.run(of, h)
		if err != nil {
			return nil, err
		}
		out = append(out, ch.m)
	}
	return out, nil
}

func halvesOf(order []int) []half {
	n := len(order)
	return []half{{0, n / 2}, {n / 2, n}}
}

// duelOrder returns the first n rows, or slightly fewer: a multiple of marginParts, so that halves and parts are equal.
func duelOrder(order []int, n int) []int {
	return order[:min(len(order), n)/marginParts*marginParts]
}

// duel decides between a kernel without a metric and one with it, at the settings of their searches. The metric must be
// better by more than a standard error. Metrics help most if rows are few. So larger tables also measure the gain with
// half as many rows. If the gain shrinks, it is extrapolated linearly in the logarithm of the number of rows, and must
// still be positive for the whole table.
func (c *chooser) duel(plain, with *exactSetting, top *chain, l *learned, order []int) (shown []Trial,
	near metricGain, won bool, err error) {
	n := metricRows
	if len(order) >= duelRows {
		n = metricMost
	}
	rows := duelOrder(order, c.f.fewer(n))
	if l.halves, err = c.halves(top, rows); err != nil || plain == nil {
		return nil, metricGain{}, false, err
	}
	now, err := c.compareHalves(plain, with, l, l.halves, rows)
	if err != nil || now.old.loss == nil {
		return nil, metricGain{}, false, err
	}
	trials := []Trial{c.f.shown(now.old, 0, fmt.Sprintf("%v, no metric, %d rows", plain.kind, len(rows))),
		c.f.shown(now.with, 1, fmt.Sprintf("%v, %v, %d rounds, %d rows", with.kind, l.kind, l.steps, len(rows)))}
	diff, se := now.gain()
	near.rows = len(rows)
	near.diff, _ = gain(now.old.loss, now.with.loss)
	if diff <= se || c.rows <= int64(len(rows)) {
		return trials, near, diff > se, nil
	}
	few := duelOrder(order, len(rows)/2)
	m, err := c.halves(top, few)
	if err != nil {
		return nil, near, false, err
	}
	before, err := c.compareHalves(plain, with, l, m, few)
	if err != nil || before.old.loss == nil {
		return trials, near, err == nil, err
	}
	last, _ := before.gain()
	return trials, near, diff+min(diff-last, 0)*math.Log2(float64(c.rows)/float64(len(rows))) > 0, nil
}

// metricGain is by how much a metric lowers the loss of models of some rows.
type metricGain struct {
	rows int
	diff float64
}

// lasts reports whether a metric that won the duel also wins far searches of many more rows, which have judged the
// settings without and with it on the same rows: by more than a standard error, and by more than the gain shrinks
// between there and n rows if it goes on as it did from g. Losses of classes are errors here: squared distances to
// margins depend on λ. On two splits of chess a metric gained 2 points with 2,048 rows; with 8,192 it gained 1 and
// lost 3.
func (g metricGain) lasts(plain, with *decision, n int64) bool {
	diff, se := gain(plain.far.loss, with.far.loss)
	slope := (diff - g.diff) / math.Log2(float64(with.farRows)/float64(g.rows))
	return diff > se && diff+min(slope, 0)*math.Log2(float64(n)/float64(with.farRows)) > 0
}

// comparison holds the losses of two settings on the same rows.
type comparison struct {
	old, with trial
	alike     bool // both have the same loss, so squared errors are comparable
}

// gain returns by how much the loss with a metric is smaller, and the standard error.
func (p *comparison) gain() (diff, se float64) {
	a, b := p.old.loss, p.with.loss
	if p.alike {
		a, b = p.old.judged(), p.with.judged()
	}
	return gain(a, b)
}

// compareHalves predicts the rows of each half with the metric of the other, which has not seen them. Losses are nil
// if a setting cannot be used.
func (c *chooser) compareHalves(plain, with *exactSetting, l *learned, halves []dense.Matrix[float64],
	order []int) (comparison, error) {
	out := comparison{alike: plain.margins == with.margins}
	apart := plain.margins || with.margins
	factor := with.at.scale / medianDistance(&sample{x: inMetric(l.m, c.s.x)}, with.kind, c.f.o.Seed)
	for i, h := range halvesOf(order) {
		x, y, t := c.s.picked(slices.Concat(order[h.lo:h.hi], order[:h.lo], order[h.hi:]))
		a, err := c.heldHalf(plain, apart, x, y, t)
		if err != nil {
			return out, err
		}
		x = inMetric(halves[i], x)
		in := *with
		in.at.scale = factor * medianDistance(&sample{x: x}, with.kind, c.f.o.Seed)
		b, err := c.heldHalf(&in, apart, x, y, t)
		if err != nil {
			return out, err
		}
		if a == nil || b == nil {
			return comparison{}, nil
		}
		out.old.loss, out.old.tie = append(out.old.loss, a.loss...), append(out.old.tie, a.tie...)
		out.with.loss, out.with.tie = append(out.with.loss, b.loss...), append(out.with.tie, b.tie...)
	}
	out.old.score, out.with.score = -mean(out.old.loss), -mean(out.with.loss)
	return out, nil
}

// heldHalf returns the losses of the second half of the rows, each left out. If apart is set, rows are predicted
// without their part instead, because margins have no closed form for leaving out one row. It returns nil if the
// setting cannot be solved.
func (c *chooser) heldHalf(set *exactSetting, apart bool, x, y, t dense.Matrix[float64]) (*trial, error) {
	e := exactTries{ctx: c.f.ctx, task: c.f.task, kind: set.kind}
	if err := e.reset(x, y, t); err != nil {
		return nil, err
	}
	e.from = x.Rows / 2
	try := e.try
	if apart {
		try = (&marginTries{e: &e, parts: marginParts / 2, squares: !set.margins}).try
	}
	ts, err := try([]exactPoint{set.at})
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	return &ts[0], nil
}
