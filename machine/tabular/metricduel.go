package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// exactSetting is a kernel with all that a search of it decides.
type exactSetting struct {
	kind    kernel.Kind
	at      exactPoint
	margins bool
}

// setting is nil of no decision.
func (d *decision) setting() *exactSetting {
	if d == nil {
		return nil
	}
	return &exactSetting{d.Spec.Kernel.Kind, exactPoint{d.Spec.Kernel.Scale, d.Lambda}, d.Margins}
}

// metricOpen reports whether a metric is to be looked for, or was asked for.
func (f *search) metricOpen(s *sample, scaling *Choice) bool {
	if scaling == nil || scaling.Value == ScalingLearned {
		return scaling != nil
	}
	return !scaling.Given && f.info.LeastSquares && s.len() >= leastScaling && f.metricPossible() == "" &&
		s.x.Cols <= metricColumns && s.x.Cols > 1
}

// metricPossible says why a metric cannot be learned of a table, whatever its rows are; empty: it can.
func (j *job) metricPossible() string {
	switch {
	case j.task == machine.Unsupervised:
		return "a density has no target to learn it from"
	case j.o.Bandwidth > 0 || j.o.Lambda > 0 || j.o.Loss != "":
		return "bandwidth, λ and loss are chosen with it: leave them out"
	case j.o.Marks.Weight != "" || j.o.ClassWeights != nil:
		return "rows with weights have none yet"
	case j.deal.grouped() || j.deal.ordered():
		return "folds of groups and of time have none yet"
	}
	return ""
}

// chooseWithMetric makes all choices but the scaling of columns, for the kernel of the columns and, where a metric
// looks better, for a kernel with it: the better of the two is taken. Of tables beyond the exact kernel, whose search
// is long, only one of the two is searched.
func (f *search) chooseWithMetric(s *sample, n int64, scaling *Choice) (*decision, error) {
	if !f.metricOpen(s, scaling) {
		return f.choose(s, n)
	}
	exact := n <= int64(f.exactLimit())
	c := &chooser{f: f, s: s, rows: n, d: &decision{}}
	var d *decision
	var err error
	if exact && !scaling.Given {
		if d, err = f.choose(s, n); err != nil || d.faultless {
			return d, err
		}
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
	l, err := c.learn(top, order)
	if err != nil {
		return nil, err
	}
	with := &search{job: f.job, start: l.at, loss: f.loss, fields: f.fields, learned: l}
	in := *s
	in.x = inMetric(l.m, s.x)
	e, err := with.choose(&in, n)
	if err != nil {
		return nil, err
	}
	if l.halves, err = c.halves(top, order); err != nil {
		return nil, err
	}
	if d != nil {
		trials, won, err := c.duel(d.setting(), e.setting(), l, order)
		scaling.Trials = append(scaling.Trials, trials...)
		if err != nil || !won {
			return d, err
		}
	}
	if e.Metric, err = l.described(f.schema, scaling.Value, l.halves); err != nil {
		return nil, err
	}
	f.marks = with.marks
	if !scaling.Given {
		scaling.Why = fmt.Sprintf("a metric of %s columns has the best %s of rows that it has not seen", scaling.Value,
			f.metric())
	}
	scaling.Value = ScalingLearned
	e.Spec.Kernel.M, e.Spec.Dim = l.m, s.x.Cols
	return e, nil
}

// learn is the metric of a chain, learned from as many rows as metrics are.
func (c *chooser) learn(top *chain, order []int) (*learned, error) {
	all := c.newMetricSearch(order[:min(len(order), metricMost)])
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

// halves are metrics of a chain, each of one half of some rows in an order.
func (c *chooser) halves(of *chain, order []int) (out []dense.Matrix[float64], err error) {
	order = duelOrder(order)
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

// duelOrder are the rows that a metric is confirmed on: as many as two halves of parts have.
func duelOrder(order []int) []int {
	n := min(len(order), metricRows)
	if len(order) >= duelRows {
		n = metricMost
	}
	return order[:n/marginParts*marginParts]
}

func halvesOf(order []int) []half {
	n := len(order)
	return []half{{0, n / 2}, {n / 2, n}}
}

// duel compares a kernel without a metric and one with it, at the settings of their searches, on rows that the metric
// has not seen: those of a half by a metric of the other.
func (c *chooser) duel(plain, with *exactSetting, l *learned, order []int) ([]Trial, bool, error) {
	order = duelOrder(order)
	n := len(order)
	factor := with.at.scale / medianDistance(&sample{x: inMetric(l.m, c.s.x)}, with.kind, c.f.o.Seed)
	var old, now trial
	for i, h := range halvesOf(order) {
		rows := slices.Concat(order[h.lo:h.hi], order[:h.lo], order[h.hi:])
		x, y, t := c.s.picked(rows)
		apart := plain.margins || with.margins
		a, err := c.heldHalf(plain, apart, x, y, t)
		if err != nil {
			return nil, false, err
		}
		x = inMetric(l.halves[i], x)
		in := *with
		in.at.scale = factor * medianDistance(&sample{x: x}, with.kind, c.f.o.Seed)
		b, err := c.heldHalf(&in, apart, x, y, t)
		if err != nil {
			return nil, false, err
		}
		if a == nil || b == nil {
			return nil, a == nil && b != nil, nil
		}
		old.loss, old.tie = append(old.loss, a.loss...), append(old.tie, a.tie...)
		now.loss, now.tie = append(now.loss, b.loss...), append(now.tie, b.tie...)
	}
	old.score, now.score = -mean(old.loss), -mean(now.loss)
	trials := []Trial{c.f.shown(old, 0, fmt.Sprintf("%v, no metric, %d rows", plain.kind, n)),
		c.f.shown(now, 1, fmt.Sprintf("%v, %v, %d rounds, %d rows", with.kind, l.kind, l.steps, n))}
	if plain.margins == with.margins && now.tie != nil { // squares and hinges do not compare
		for i := range now.loss {
			old.loss[i] += old.tie[i] / 2
			now.loss[i] += now.tie[i] / 2
		}
	}
	diff, se := gain(old.loss, now.loss)
	return trials, diff > se, nil
}

// heldHalf are the losses of the second half of rows, each left out, or predicted without its part where apart says so,
// since margins cannot leave rows out one by one. Nil: the setting cannot be used.
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
