package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

const (
	// scalingRows is the number of rows that scalings are compared on. It is enough to see differences of more than a
	// standard error. Settings are searched on a third of them first. Widths of columns are fitted to widthRows others.
	scalingRows = 512
	widthRows   = 512
	// moreWidthRows replaces widthRows for landmarks and random features.
	moreWidthRows = 2048
	// leastScaling is the number of rows below which differences between scalings are noise.
	leastScaling = 200
	// surely is the number of standard errors by which another scaling must be better than the standard one. Several
	// are tried, so one of them may be better by one standard error by chance.
	surely = 2
	// hopelessly is the number of standard errors by which a scaling may be worse than the best one on the few rows
	// that its search begins with. Worse ones are given up.
	hopelessly = 2
	// alike is the ratio of the largest to the smallest weight up to which a scaling is not tried.
	alike = 1.25
	// leastRange is the least interquartile range, in standard deviations, that a robust scaling divides by. One
	// outlier among 400 values may make the standard deviation a million times the range. Below leastRange, products
	// of scaled values have too few digits left for distances.
	leastRange = 1e-6
)

// chooseScaling gives the columns weights, in the schema and in the sample. It compares scalings by exact kernel ridge
// regression of some rows, each left out, for all models of least squares, because all of them depend on the same
// distances. A scaling replaces the standard one only if it is surely better. If margins were chosen first, they judge
// instead of squares. It returns nil if there was nothing to choose.
func (f *search) chooseScaling(s *sample, rows int64) (*Choice, error) {
	if !f.weighs || !f.info.LeastSquares && f.o.Scaling == "" {
		return nil, nil
	}
	c := &chooser{f: f, s: s, rows: rows, d: &decision{}}
	ch := &Choice{Name: "scaling", Value: scalingStandard, Given: f.o.Scaling != "", Why: "as asked"}
	switch {
	case f.task == machine.Unsupervised && f.o.Scaling == scalingFitted:
		return nil, fmt.Errorf("widths of columns are fitted to a target, a density has none: use another scaling: %w",
			machine.ErrSetup)
	case f.o.Scaling == scalingLearned && f.metricPossible() != "":
		return nil, fmt.Errorf("scaling %s: %s: %w", scalingLearned, f.metricPossible(), machine.ErrSetup)
	case f.o.Scaling == scalingLearned:
		ch.Value = scalingLearned
		return ch, nil
	case f.o.Scaling == scalingFitted:
		order := c.order()
		w, at, err := c.fittedWeights(order[:min(len(order), f.widthRows(rows))], f.fieldWeights(scalingStandard, s))
		if err != nil {
			return nil, err
		}
		ch.Value, f.start = scalingFitted, at
		f.setWeights(s, w)
		return ch, nil
	case ch.Given:
		ch.Value = f.o.Scaling
		f.setWeights(s, f.fieldWeights(f.o.Scaling, s))
		return ch, nil
	case f.o.Bandwidth > 0:
		return nil, nil // in units of the standard scaling
	case s.len() < leastScaling:
		ch.Why = fmt.Sprintf("%d rows are too few to tell which is better", s.len())
		return ch, nil
	}
	return ch, c.tryScalings(ch)
}

// tryScalings compares scalings on the first rows of an order, and fits widths of columns to the rows that follow.
func (c *chooser) tryScalings(ch *Choice) error {
	f, order := c.f, c.order()
	judge := order[:min(len(order)/2, f.fewer(scalingRows))]
	widths := f.fewer(f.widthRows(c.rows))
	rest := order[len(judge):min(len(order), len(judge)+widths)]
	var (
		top      *exactSearch
		topTrial trial
		topLoss  []float64
		weights  []float64
		near     exactPoint
		before   *scalingOf // the scaling that the best one replaced
		first    trial      // trial of the best one on few rows
	)
	try := func(name string, w []float64, at exactPoint) error {
		e := c.exactSearch(judge, max(len(judge)/3, min(len(judge), leastScaling/2)), len(judge))
		e.weights, e.at, e.near = f.columnWeights(w), at, near
		e.byLoss()
		if top != nil {
			e.hopeless = func(t trial) bool {
				diff, se := gain(first.compared(), t.compared())
				return diff < -hopelessly*se
			}
		}
		if err := e.search(); err != nil {
			return err
		}
		if e.ended {
			ch.Trials = append(ch.Trials, f.shown(e.first, float64(len(ch.Trials)),
				fmt.Sprintf("%s, %d rows", name, e.tries.x.Rows)))
			return nil
		}
		t, err := e.top()
		if err != nil || t.loss == nil {
			return err
		}
		if near == (exactPoint{}) { // in median distances, the best settings of all scalings are similar
			near = exactPoint{e.at.scale / c.median, e.at.lambda}
		}
		ch.Trials = append(ch.Trials, f.shown(t, float64(len(ch.Trials)), name))
		loss := t.loss
		if t.tie != nil {
			loss = t.tie // far less noisy than a count of errors
		}
		if top != nil {
			// A large λ lowers the Brier score of classes that it does not tell apart: errors must not say the
			// opposite.
			if diff, se := gain(topLoss, loss); diff <= surely*se || t.tie != nil && fewerErrors(t, topTrial, nearTie) {
				return nil
			}
		}
		if top != nil {
			before = &scalingOf{ch.Value, weights, top.at}
		}
		top, topTrial, topLoss, weights, ch.Value, first = e, t, loss, w, name, e.first
		return nil
	}
	standard := f.fieldWeights(scalingStandard, c.s)
	if err := try(scalingStandard, standard, exactPoint{}); err != nil {
		return err
	}
	if top != nil && !top.faultless() && f.lossOpen(c.rows) && !f.o.Quick && (f.guide == nil || f.guide.First) {
		at, err := c.marginsFirst(order, top.weights, top.at)
		if err != nil {
			return err
		}
		if f.found.First = f.loss != nil; f.found.First { // all that follows is judged by margins
			top, near, ch.Trials = nil, exactPoint{}, nil
			if err := try(scalingStandard, standard, at); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{scalingCommon, scalingRobust} {
		w := f.fieldWeights(name, c.s)
		if slices.Max(w) <= alike*slices.Min(w) || top != nil && top.faultless() || !f.guide.scales(name) {
			continue
		}
		if err := try(name, w, exactPoint{}); err != nil {
			return err
		}
	}
	if top == nil {
		return fmt.Errorf("scaling: %w", errNothing)
	}
	if len(f.schema.Fields) > 1 && !top.faultless() && f.guide.scales(scalingFitted) {
		w, at, err := c.fittedWeights(rest, weights)
		if err != nil {
			return err
		}
		if err := try(scalingFitted, w, at); err != nil {
			return err
		}
		if ch.Value == scalingFitted && len(rest) < widths { // fit again, with the rows that judged
			if weights, _, err = c.fittedWeights(order[:min(len(order), widths)], w); err != nil {
				return err
			}
		}
	}
	ch.Why = "no alternative is better by more than two standard errors"
	switch {
	case ch.Value != scalingStandard:
		ch.Why = fmt.Sprintf("best %s of %s", f.metric(), top.judged())
	case len(ch.Trials) == 1 && top.faultless():
		ch.Why = fmt.Sprintf("no errors of %s", top.judged())
	}
	f.start = top.at
	if before != nil {
		now := &scalingOf{ch.Value, weights, top.at}
		won, n, err := c.confirmed(now, before, slices.Concat(rest, order[len(judge)+len(rest):]), judge)
		if err != nil {
			return err
		}
		if n > 0 {
			if won == before {
				ch.Value, weights = won.name, won.weights
				ch.Why = fmt.Sprintf("%s is better with %d rows, and no longer with %d", now.name, len(judge), n)
			}
			f.start = won.at
		}
	}
	f.found.Scaling = ch.Value
	f.setWeights(c.s, weights)
	return nil
}

// widthRows is the number of rows that the widths of columns of a table of n rows are fitted to. 512 rows tell which
// columns matter, but not how narrow a kernel of very many rows may be along each. With 60,000 rows of 30 columns, of
// which 5 matter, 1448 landmarks had an R² of 0.891 with widths of 512 rows (4096 landmarks too), and of 0.898 with
// 2048. An exact kernel of 20,000 such rows needs no more than 512: the Laplace kernel, which more rows prefer, reached
// an R² of 0.899 with either.
func (j *job) widthRows(n int64) int {
	if limit := j.exactLimit(); limit > 0 && n > int64(limit) && !j.subsamples(n) {
		return max(widthRows, min(moreWidthRows, j.trialRows()))
	}
	return widthRows
}

// scalingOf is a scaling with its best setting.
type scalingOf struct {
	name    string
	weights []float64 // by field
	at      exactPoint
}

// confirmed compares two scalings again on more rows, at their settings or a narrower bandwidth, because widths of
// columns help most if rows are few. It returns the better one and the number of rows, 0 if there are not enough. Rows
// that widths were fitted to are left out last.
func (c *chooser) confirmed(now, before *scalingOf, others, judge []int) (*scalingOf, int, error) {
	n := min(len(others)+len(judge), secondRows)
	if c.thin() {
		n = min(n, secondRows/2)
	}
	if len(others)+len(judge) >= 4*secondRows && !c.f.o.Quick {
		n = 2 * secondRows
	}
	if n < len(judge)*5/4 {
		return now, 0, nil
	}
	order := slices.Concat(others[:n-len(judge)], judge)
	var top [2]trial
	for i, s := range []*scalingOf{now, before} {
		e := c.exactSearch(order, n)
		e.weights = c.f.columnWeights(s.weights)
		if e.byLoss(); e.margins != nil {
			e.margins.parts = marginParts
		}
		if err := e.rows(n); err != nil {
			return nil, 0, err
		}
		if err := e.try(s.at.orNarrower()); err != nil {
			return nil, 0, err
		}
		k := best(e.all)
		if k < 0 {
			return now, 0, nil
		}
		top[i], s.at = e.all[k], exactPoint{e.all[k].spec.Kernel.Scale, e.all[k].lambda}
	}
	if mean(top[1].compared()) < mean(top[0].compared()) || fewerErrors(top[0], top[1], 1) {
		return before, n, nil
	}
	return now, n, nil
}

// fieldWeights returns the weights of the fields in a scaling. Fields that are not numeric have weight 1.
func (j *job) fieldWeights(name string, s *sample) []float64 {
	w := make([]float64, len(j.schema.Fields))
	squares, n := 0.0, 0
	for i := range w {
		w[i] = 1
		if fd := &j.schema.Fields[i]; fd.Kind == data.Numeric {
			squares, n = squares+fd.Scale*fd.Scale, n+1
		}
	}
	first := 0
	for i := range w {
		fd := &j.schema.Fields[i]
		at := first
		first += fd.Width()
		if fd.Kind != data.Numeric {
			continue
		}
		switch name {
		case scalingCommon:
			w[i] = fd.Scale / math.Sqrt(squares/float64(n))
		case scalingNone:
			w[i] = fd.Scale
		case scalingRobust:
			if r := interquartile(s.x, at) / 1.349; r > leastRange {
				w[i] = 1 / r
			}
		}
		if !(w[i] > 0) || !dense.IsFinite(w[i]) { // scales near the ends of the range of numbers
			w[i] = 1
		}
	}
	return w
}

// interquartile returns the range of the middle half of a column.
func interquartile(x dense.Matrix[float64], col int) float64 {
	v := make([]float64, x.Rows)
	for i := range v {
		v[i] = x.At(i, col)
	}
	slices.Sort(v)
	return v[len(v)*3/4] - v[len(v)/4]
}

// columnWeights returns the weights of the encoded columns.
func (j *job) columnWeights(fields []float64) []float64 {
	var w []float64
	for i := range j.schema.Fields {
		for range j.schema.Fields[i].Width() {
			w = append(w, fields[i])
		}
	}
	return w
}

// weigh multiplies the columns of x.
func weigh(x dense.Matrix[float64], w []float64) {
	for i := range x.Rows {
		for j, v := range w {
			x.Row(i)[j] *= v
		}
	}
}

// unweighted returns a copy of a schema without weights.
func unweighted(s *data.Schema) *data.Schema {
	out := *s
	out.Fields = slices.Clone(s.Fields)
	for i := range out.Fields {
		out.Fields[i].Weight = 0
	}
	return &out
}

// setWeights stores the weights of the fields for the schema and multiplies the columns of the sample by them.
func (f *search) setWeights(s *sample, w []float64) {
	f.fields = w
	weigh(s.x, f.columnWeights(w))
}

// weightedFields returns a copy of a schema with these weights.
func weightedFields(s *data.Schema, w []float64) *data.Schema {
	out := unweighted(s)
	for i, v := range w {
		if v != 1 {
			out.Fields[i].Weight = v
		}
	}
	return out
}
