package tabular

import (
	"errors"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

const (
	// marginParts is the number of parts of the rows of a trial. While settings are searched, only the last part is
	// predicted, by a fit of the others: no closed form leaves rows out of a squared hinge.
	marginParts = 4
	// marginRows is the largest number of rows of a trial.
	marginRows = 2048
	// marginSteps bounds the steps of a trial. A fit takes up to twice as many; its last steps move few rows.
	marginSteps = krr.MarginSteps / 2
)

// marginTries tries settings of one of the two losses on the rows of e. Each of the last parts is predicted by a fit of
// all other parts.
type marginTries struct {
	e       *exactTries
	parts   int // that are predicted
	squares bool
	u       dense.Matrix[float64]
	small   dense.Matrix[float32] // u of penalties that float32 can tell
}

func (m *marginTries) judged() int {
	n := m.e.x.Rows
	return n - (marginParts-m.parts)*n/marginParts
}

// byLoss makes the search try margins if an earlier choice decided for them.
func (e *exactSearch) byLoss() {
	if e.c.f.loss != nil {
		e.margins = &marginTries{e: &e.tries, parts: 1}
	}
}

// top returns the best trial, for comparisons with other searches. A trial of margins is repeated with all parts
// predicted. The loss is nil if there is no trial.
func (e *exactSearch) top() (trial, error) {
	i := best(e.all)
	if i < 0 {
		return trial{}, nil
	}
	t := e.all[i]
	if e.margins == nil || e.margins.parts == marginParts {
		return t, nil
	}
	whole := &marginTries{e: &e.tries, parts: marginParts}
	ts, err := whole.try([]exactPoint{{t.spec.Kernel.Scale, t.lambda}})
	if err != nil || len(ts) == 0 {
		return trial{}, err
	}
	return ts[0], nil
}

// marginGrid holds the settings that margins are tried with first, with scales in median distances. Margins prefer
// wider kernels and smaller penalties than squares, because predictions beyond the target cost nothing.
var marginGrid = []exactPoint{{1, 0.01}, {2, 0.001}}

// marginsFirst asks, before all other choices, whether margins at settings of their own are surely better than squares
// at theirs, with columns as they are. This holds for tables of rules without noise. There squares are distorted by
// predictions far from 0 and 1. Column widths and kernels that suit squares would hide the advantage of margins. If
// margins win, marginsFirst sets f.loss and returns their best setting.
func (c *chooser) marginsFirst(order []int, weights []float64, at exactPoint) (exactPoint, error) {
	if len(order) < 2*secondRows { // rules of more rows may not show in few
		if ok, err := c.marginsLikely(order, weights, at); err != nil || !ok {
			return at, err
		}
	}
	e := c.exactSearch(order, min(len(order), secondRows))
	e.weights, e.at = weights, at
	if err := e.search(); err != nil || e.faultless() {
		return at, err
	}
	squares := e.at
	last := &marginTries{e: &e.tries, parts: 1, squares: true}
	a, err := last.try([]exactPoint{squares})
	if err != nil || len(a) == 0 {
		return at, err
	}
	// These are few: most tables have nothing to gain, and pay for them.
	e.all, e.margins = nil, &marginTries{e: &e.tries, parts: 1}
	if err := e.try(marginPoints(c.median)); err != nil {
		return at, err
	}
	i := best(e.all)
	if i < 0 || mean(e.all[i].loss) >= mean(a[0].loss) {
		return at, nil
	}
	e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	if err := e.climb(); err != nil {
		return at, err
	}
	ts, err := e.losses(squares)
	if err != nil || len(ts) < 2 {
		return at, err
	}
	if diff, se := gain(ts[0].loss, ts[1].loss); diff > surely*se {
		c.f.loss = &Choice{Name: "loss", Value: lossMargins, Trials: c.shownLosses(ts), Why: fmt.Sprintf(
			"best %s of %d rows, by more than two standard errors", c.f.metric(), e.tries.x.Rows)}
		return e.at, nil
	}
	return at, nil
}

// marginsLikely reports whether margins make fewer errors than squares at a setting on few rows. Most tables gain
// nothing from margins, and trials on more rows would waste time.
func (c *chooser) marginsLikely(order []int, weights []float64, at exactPoint) (bool, error) {
	e := c.exactSearch(order)
	e.weights = weights
	if err := e.rows(min(len(order), firstRows)); err != nil {
		return false, err
	}
	m := &marginTries{e: &e.tries, parts: marginParts, squares: true}
	squares, err := m.try([]exactPoint{at})
	if err != nil || len(squares) == 0 {
		return false, err
	}
	m.squares = false
	ts, err := m.try(marginPoints(medianDistance(&sample{x: e.tries.x}, e.tries.kind, c.f.o.Seed)))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(ts, func(t trial) bool { return fewerErrors(squares[0], t, 0) }), nil
}

// marginPoints returns the settings of marginGrid for a median distance.
func marginPoints(median float64) (out []exactPoint) {
	for _, p := range marginGrid {
		out = append(out, exactPoint{p.scale * median, p.lambda})
	}
	return out
}

// marginsNear reports whether margins, at the setting of squares or with a kernel twice as wide, are at most one
// standard error worse than squares. Otherwise a climb is not worth its time.
func (e *exactSearch) marginsNear(squares exactPoint) (bool, error) {
	if err := e.try([]exactPoint{squares, {2 * squares.scale, squares.lambda}}); err != nil {
		return false, err
	}
	last := &marginTries{e: &e.tries, parts: 1, squares: true}
	ts, err := last.try([]exactPoint{squares})
	i := best(e.all)
	return len(ts) == 0 || i >= 0 && !fewerErrors(e.all[i], ts[0], 1), err
}

// marginsHopeful reports whether margins make fewer errors than squares in the part that judged their search. Only then
// are the other parts predicted.
func (e *exactSearch) marginsHopeful(squares exactPoint) (bool, error) {
	i := best(e.all)
	if i < 0 {
		return false, nil
	}
	last := &marginTries{e: &e.tries, parts: 1, squares: true}
	ts, err := last.try([]exactPoint{squares})
	return len(ts) == 0 || mean(e.all[i].loss) < mean(ts[0].loss), err
}

// losses tries squares at a setting and margins at e.at, with every row predicted by the parts that it is not in. It
// returns fewer than two trials if a setting cannot be solved.
func (e *exactSearch) losses(squares exactPoint) ([]trial, error) {
	last := &marginTries{e: &e.tries, parts: marginParts, squares: true}
	a, err := last.try([]exactPoint{squares})
	if err != nil {
		return nil, err
	}
	last.squares = false
	b, err := last.try([]exactPoint{e.at})
	return append(a, b...), err
}

// climbOnce tries settings and moves to the best.
func (e *exactSearch) climbOnce(points []exactPoint) error {
	err := e.try(points)
	if i := best(e.all); err == nil && i >= 0 {
		e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	}
	return err
}

func (c *chooser) shownLosses(ts []trial) []Trial {
	return []Trial{c.f.shown(ts[0], 0, lossSquares), c.f.shown(ts[1], 1, lossMargins)}
}

// chooseLoss decides between the losses of an exact kernel of classes. The settings of squares are already known.
// Margins replace them if a climb from there makes fewer errors on the same rows by more than a standard error; the
// settings are then those of margins. The choice is nil if there was nothing to choose.
func (e *exactSearch) chooseLoss() (*Choice, error) {
	f := e.c.f
	ch := &Choice{Name: "loss", Value: lossSquares, Given: f.o.Loss != "", Why: "as asked"}
	switch {
	case f.loss != nil:
		e.c.d.Margins = true
		return f.loss, nil
	case f.task != machine.Classification || !ch.Given && e.wide ||
		!ch.Given && (e.tries.parts != nil || e.tries.roots != nil || len(e.order) < leastScaling):
		return nil, nil
	case f.o.Bandwidth > 0 && f.o.Lambda > 0:
		if !ch.Given {
			return nil, nil
		}
		ch.Value = f.o.Loss
		e.c.d.Margins = ch.Value == lossMargins
		return ch, nil
	case f.o.Loss == lossSquares:
		return ch, nil
	}
	if !ch.Given && e.faultless() {
		ch.Why = "squares make no errors"
		return ch, nil
	}
	if !ch.Given && (f.o.Quick || f.guide != nil && !f.guide.Margins) {
		ch.Why = "margins were not tried"
		return ch, nil
	}
	before := *e
	before.tries.log, before.tries.near, before.tries.work = dense.Matrix[float64]{}, dense.Matrix[float32]{}, nil
	ch.Why = "margins make no fewer errors by more than a standard error"
	e.margins = &marginTries{e: &e.tries, parts: 1}
	sizes := []int{min(secondRows, len(e.order))}
	if len(e.order) >= 3*secondRows {
		sizes = append(sizes, marginRows)
	}
	if ch.Given {
		sizes = sizes[len(sizes)-1:]
	}
	for _, rows := range sizes { // the first of two rules margins out in a sixth of the time
		if err := e.rows(rows); err != nil {
			return nil, err
		}
		if ch.Given {
			break
		}
		if ok, err := e.marginsNear(before.at); err != nil || !ok {
			*e = before
			return ch, err
		}
	}
	if err := e.climb(); err != nil {
		return nil, err
	}
	if ch.Given {
		ch.Value, ch.Why, e.c.d.Margins = lossMargins, "as asked", true
		return ch, nil
	}
	if ok, err := e.marginsHopeful(before.at); err != nil || !ok {
		*e = before
		return ch, err
	}
	ts, err := e.losses(before.at)
	if err != nil {
		return nil, err
	}
	if len(ts) == 2 {
		ch.Trials = e.c.shownLosses(ts)
		if diff, se := gain(ts[0].loss, ts[1].loss); diff > se {
			ch.Value, e.c.d.Margins = lossMargins, true
			ch.Why = fmt.Sprintf("best %s of all %d rows by those not in their part", f.metric(), e.tries.x.Rows)
			return ch, nil
		}
	}
	*e = before
	return ch, nil
}

// try tries settings and leaves out those that are singular.
func (m *marginTries) try(points []exactPoint) ([]trial, error) {
	var good []trial
	for _, at := range points {
		t := trial{spec: randfeat.Spec{Kernel: kernel.Kernel{Kind: m.e.kind, Scale: at.scale}}, lambda: at.lambda}
		for k := marginParts - m.parts; k < marginParts; k++ {
			if err := m.e.ctx.Err(); err != nil {
				return nil, err
			}
			err := m.part(&t, k)
			if errors.Is(err, linalg.ErrNotPositive) {
				t.loss = nil
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if t.loss != nil {
			t.score = -mean(t.loss)
			good = append(good, t)
		}
	}
	return good, nil
}

// partKey says which fit predicted which part.
type partKey struct {
	kind    kernel.Kind
	at      exactPoint
	part    int
	squares bool
}

// partLosses are the losses and hinges of a part.
type partLosses struct{ loss, tie []float64 }

// part appends the losses of part k, predicted by a fit of all other parts. The steps of a choice of losses compare
// some settings again on the same rows, so the losses are kept.
func (m *marginTries) part(t *trial, k int) error {
	e := m.e
	key := partKey{e.kind, exactPoint{t.spec.Kernel.Scale, t.lambda}, k, m.squares}
	kept, ok := e.parted[key]
	if !ok {
		var err error
		if kept, err = m.losses(key.at, k); err != nil {
			return err
		}
		e.parted[key] = kept
	}
	t.loss, t.tie = append(t.loss, kept.loss...), append(t.tie, kept.tie...)
	return nil
}

// losses fits all parts but k and judges part k.
func (m *marginTries) losses(at exactPoint, k int) (t partLosses, err error) {
	e := m.e
	pred, lo, err := m.predict(at, k)
	if err != nil {
		return t, err
	}
	for i := range pred.Rows {
		p, hinge := pred.Row(i), 0.0
		for c, y := range e.t.Row(lo + i) {
			switch miss := y - p[c]; {
			case m.squares, y > 0 && miss > 0, y == 0 && miss < 0:
				hinge += float64(miss * miss)
			}
		}
		t.tie = append(t.tie, hinge)
		t.loss = append(t.loss, wrong(p, int(e.y.At(lo+i, 0))))
	}
	return t, nil
}

// predict predicts part k, whose first row is lo, by a fit of all other parts.
func (m *marginTries) predict(at exactPoint, k int) (pred dense.Matrix[float64], lo int, err error) {
	e := m.e
	n := e.x.Rows
	lo, hi := k*n/marginParts, (k+1)*n/marginParts
	targets := dense.New[float64](n-hi+lo, e.t.Cols)
	for i := range targets.Rows {
		from := i
		if i >= lo {
			from += hi - lo
		}
		copy(targets.Row(i), e.t.Row(from))
	}
	var d *linalg.Dual
	solve := func(solved *linalg.Dual, err error) error {
		if d = solved; err == nil && !m.squares {
			err = d.Margins(targets, at.lambda, marginSteps)
		}
		return err
	}
	if at.lambda >= quickLeast(n) {
		if len(e.work) == 0 {
			e.work = append(e.work, exactWork{})
		}
		w := &e.work[0].small
		e.smallKernels(w, at.scale)
		m.small = without(m.small, w.k, lo, hi)
		if err = solve(linalg.SolveDualFloat32(m.small, targets, at.lambda)); err != nil {
			return pred, lo, err
		}
		pred = dense.Convert[float64](predicted(w.k, dense.Convert[float32](d.Alpha), lo, hi))
	} else {
		if err = e.logs(); err != nil {
			return pred, lo, err
		}
		k := e.kernels(0, at.scale)
		m.u = without(m.u, k, lo, hi)
		if err = solve(linalg.SolveDual(m.u, targets, at.lambda)); err != nil {
			return pred, lo, err
		}
		pred = predicted(k, d.Alpha, lo, hi)
	}
	for i := range pred.Rows {
		p := pred.Row(i)
		for c, b := range d.Intercept {
			p[c] += b
		}
	}
	return pred, lo, nil
}

// without copies, into the memory of u, the kernels of all rows but lo to hi−1 with each other. Both matrices hold the
// upper triangle.
func without[T dense.Float](u, kernels dense.Matrix[T], lo, hi int) dense.Matrix[T] {
	n := kernels.Rows - hi + lo
	u = buf.Shaped(u, n, n)
	par.For(n, 32, func(from, to int) {
		for i := from; i < to; i++ {
			if row := u.Row(i); i < lo {
				copy(row[i:lo], kernels.Row(i)[i:lo])
				copy(row[lo:], kernels.Row(i)[hi:])
			} else {
				copy(row[i:], kernels.Row(i + hi - lo)[i+hi-lo:])
			}
		}
	})
	return u
}

// predicted returns the predictions of rows lo to hi−1, up to the intercept, by the weights alpha of all other rows.
// The argument kernels holds the upper triangle of all rows.
func predicted[T dense.Float](kernels, alpha dense.Matrix[T], lo, hi int) dense.Matrix[T] {
	out := dense.New[T](hi-lo, alpha.Cols)
	tab := kern.Best[T]()
	par.For(out.Rows, 32, func(from, to int) {
		part := out.RowRange(from, to)
		tab.TMul(part, kernels.RowRange(0, lo).ColRange(lo+from, lo+to), alpha.RowRange(0, lo))
		later := kernels.RowRange(lo+from, lo+to).ColRange(hi, kernels.Cols)
		tab.Product(part, later, alpha.RowRange(lo, alpha.Rows), true)
	})
	return out
}
