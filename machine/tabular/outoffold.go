package tabular

import (
	"errors"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/machine"
)

// Probabilities and prediction intervals depend on the settings: scores of a narrow kernel with a small λ are spread
// differently from those of a wide one. So they come from rows predicted out of fold by models with the settings of
// the final model (kernel, bandwidth, λ, loss, map), refitted without the row or without its fold. Folds that made
// their own choices judge the procedure (score.go); they calibrate only their own model.
//
//	exact kernel       each row left out, in closed form; folds refitted for margins, groups, times and many rows
//	sums of ridge, gp  each row left out, in closed form; the sums of the other folds for groups and times
//	smoother           the sums of the other folds of the sample
//	conjugate gradients, or choices that were made without the first fold: rows of a fold that was left out

// calibrationRows is the number of out-of-fold rows that suffice if every further fold needs its own fit.
const calibrationRows = 640

// leftOut holds rows predicted by models of the final settings that have not seen them. Targets are those of the
// fit: classes, or standardised numbers.
type leftOut struct {
	rows     []int64 // numbers in the table
	y, pred  dense.Matrix[float64]
	variance dense.Matrix[float64] // of a Bayesian model
	weights  []float64             // nil: 1
	groups   []string              // that intervals go by; nil: none
}

// add appends row i of the sample.
func (l *leftOut) add(s *sample, i int, pred, variance []float64) {
	l.rows = append(l.rows, s.rows[i])
	l.y, l.pred = appendRow(l.y, s.y.Row(i)), appendRow(l.pred, pred)
	if variance != nil {
		l.variance = appendRow(l.variance, variance)
	}
	if s.weighted {
		l.weights = append(l.weights, s.weight(i))
	}
}

// calibrates reports whether rows of the model's settings are to be predicted out of fold. A model inside a
// cross-validation needs probabilities, but no intervals.
func (c *chosen) calibrates() bool {
	switch c.task {
	case machine.Regression:
		return c.o.Folds > 1 && !c.inner && !c.lends()
	case machine.Classification:
		return (c.o.Folds > 1 || c.inner) && c.info.Summed() && !c.lends() && !c.twin
	}
	return false
}

// calibrate predicts rows out of fold with the settings of the model, whose targets are still standardised. For
// classes it sets the probabilities of the model; for a regression it keeps the rows for prediction intervals.
func (f *final) calibrate(sums *foldSums, total machine.Sums) error {
	m := f.model
	if !f.calibrates() {
		return nil
	}
	if f.task == machine.Classification {
		if e, err := m.Evaluation(); err != nil || e.Probable() {
			return err
		}
	}
	out, err := f.outOfFold(sums, total)
	if err != nil {
		return fmt.Errorf("rows out of fold for probabilities and intervals: %w", err)
	}
	if len(out.rows) == 0 {
		return nil
	}
	if f.task == machine.Regression {
		f.left = out
		out.groups = f.groupsOf(f.s, out.rows)
		return nil
	}
	h := &held{width: f.outputs, shifted: f.o.ClassWeights != nil, step: 1}
	h.add(0, out.y, out.pred, out.weights)
	if m.Calibration, err = h.calibration(func(int) bool { return true }); err != nil {
		return fmt.Errorf("probabilities: %w", err)
	}
	return nil
}

// outOfFold predicts rows of the sample with models of the final settings that have not seen them.
func (f *final) outOfFold(sums *foldSums, total machine.Sums) (*leftOut, error) {
	d, m, s := f.d, f.model, f.s
	switch {
	case d.Large:
		return f.largeOutOfFold()
	case d.Exact && !d.Margins && (s.len() <= lastRows && !f.conjugates(s.len(), m.Lambda) || f.roughly() ||
		f.o.ClassWeights != nil && !f.deal.ordered()):
		return f.exactLeftOut()
	case d.Margins && (s.len() <= lastRows && f.iterative() || f.roughly()):
		return f.marginsOutOfFold()
	case d.Exact:
		return f.exactOutOfFold()
	case f.deal.grouped() || f.deal.ordered() || f.info.Averages:
		return f.sumsOutOfFold(sums)
	}
	r, ok := total.(leaver)
	if !ok {
		return f.sumsOutOfFold(sums)
	}
	pred, spread, err := r.LeftOut(s.x, s.y, m.Lambda)
	if err != nil {
		return nil, err
	}
	out := new(leftOut)
	for i := range pred.Rows {
		var variance []float64
		for _, v := range m.Noise {
			variance = append(variance, v*(1+spread[i]))
		}
		out.add(s, i, pred.Row(i), variance)
	}
	return out, nil
}

// leaver is implemented by sums that predict rows as if these were not in the sums: machine.Ridge.
type leaver interface {
	LeftOut(x, y dense.Matrix[float64], lambda float64) (dense.Matrix[float64], []float64, error)
}

// roughly reports whether marginRows rows calibrate the model: it is that of a scored fold, whose probabilities enter
// only its own scores.
func (f *final) roughly() bool { return f.inner && f.iterative() && f.task == machine.Classification }

// mostLeftOut returns the largest number of rows that are predicted by each other.
func (f *final) mostLeftOut() int {
	if f.roughly() {
		return min(f.s.len(), marginRows)
	}
	return min(f.s.len(), lastRows)
}

// exactLeftOut predicts rows with the exact kernel of all other rows, or of the other groups, or of the past.
func (f *final) exactLeftOut() (*leftOut, error) {
	m, s := f.model, f.s
	c := &chooser{f: &search{job: f.job}, s: s, d: &decision{}}
	rows := hashed(c.order()[:f.mostLeftOut()], f.o.Seed)
	e := exactTries{ctx: f.ctx, task: f.task, kind: m.Spec.Kernel.Kind, parts: f.partsOf(s, rows), roots: c.roots(rows)}
	x, y, t := s.picked(rows)
	if err := e.reset(inMetric(m.Spec.Kernel.M, x), y, t); err != nil {
		return nil, err
	}
	pred, err := f.leaveOutMean(&e)
	if err != nil {
		return nil, err
	}
	out := new(leftOut)
	for i := range pred.Rows {
		at := e.from + i
		if e.parts != nil && e.parts.ordered && e.parts.of[at] == slices.Min(e.parts.of) {
			continue // nothing precedes it
		}
		out.add(s, rows[at], pred.Row(i), nil)
		if e.roots != nil { // weights that undo the larger shares of some classes among the rows
			out.weights[len(out.weights)-1] = e.roots[at] * e.roots[at]
		}
	}
	return out, nil
}

// marginsOutOfFold predicts parts of the rows by fits of the others as precise as those of trials: two parameters of a
// calibration show no difference.
func (f *final) marginsOutOfFold() (*leftOut, error) {
	s, k := f.s, f.model.Spec.Kernel
	rows := shuffled(s.len(), f.o.Seed)[:f.mostLeftOut()]
	e := exactTries{ctx: f.ctx, task: f.task, kind: k.Kind}
	x, y, t := s.picked(rows)
	if err := e.reset(inMetric(k.M, x), y, t); err != nil {
		return nil, err
	}
	m, out := &marginTries{e: &e}, new(leftOut)
	for part := range marginParts {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		pred, lo, err := m.predict(exactPoint{k.Scale, f.model.Lambda}, part)
		if errors.Is(err, linalg.ErrNotPositive) {
			return f.exactOutOfFold()
		}
		if err != nil {
			return nil, err
		}
		for i := range pred.Rows {
			out.add(s, rows[lo+i], pred.Row(i), nil)
		}
	}
	return out, nil
}

// exactOutOfFold refits the exact kernel without a fold, for as many folds as it takes to get calibrationRows.
func (f *final) exactOutOfFold() (*leftOut, error) {
	s, out := f.s, new(leftOut)
	for k := s.scored(); k < s.folds() && len(out.rows) < calibrationRows; k++ {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := s.fold(k)
		rest := s.without(k)
		if lo == hi || rest.len() == 0 {
			continue
		}
		one, err := f.solveExact(rest, f.model.Spec, f.model.Lambda)
		if err == nil {
			err = out.predict(one, s, lo, hi)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sumsOutOfFold predicts the folds of the sample with the sums of the other folds. These are sums of all rows if all
// rows were summed by fold, else of the sample.
func (f *final) sumsOutOfFold(sums *foldSums) (*leftOut, error) {
	s := f.s
	if len(sums.parts) != s.folds() {
		var err error
		if sums, err = newFoldSums(f.kind, sums.setup, s.folds(), nil); err != nil {
			return nil, err
		}
		sums.past = s.ordered
		for k := range sums.parts {
			lo, hi := s.fold(k)
			if err := sums.parts[k].Add(s.x.RowRange(lo, hi), s.y.RowRange(lo, hi)); err != nil {
				return nil, err
			}
		}
	}
	out := new(leftOut)
	for k := s.scored(); k < s.folds(); k++ {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := s.fold(k)
		if lo == hi {
			continue
		}
		rest, err := sums.merged(k)
		if err != nil {
			return nil, err
		}
		if rest.Len() == 0 {
			continue
		}
		one, err := solved(rest, f.model.Lambda, f.o.Lambda > 0)
		if err == nil {
			err = out.predict(one, s, lo, hi)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// predict adds rows lo to hi−1 of the sample, predicted by a model that has not seen them.
func (l *leftOut) predict(m *machine.Model, s *sample, lo, hi int) error {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return err
	}
	var (
		pred     = dense.New[float64](hi-lo, m.Outputs)
		variance dense.Matrix[float64]
		ws       machine.Workspace[float64]
	)
	if err := p.Predict(pred, s.x.RowRange(lo, hi), &ws); err != nil {
		return err
	}
	if len(m.Noise) > 0 {
		variance = dense.New[float64](hi-lo, m.Outputs)
		if err := p.Variance(variance, s.x.RowRange(lo, hi), &ws); err != nil {
			return err
		}
	}
	for i := range pred.Rows {
		var v []float64
		if variance.Rows > 0 {
			v = variance.Row(i)
		}
		l.add(s, lo+i, pred.Row(i), v)
	}
	return nil
}

// largeOutOfFold fits the rows outside a fold by conjugate gradients, for as many folds as it takes to get
// calibrationRows.
func (f *final) largeOutOfFold() (*leftOut, error) {
	out, parts := new(leftOut), f.innerFolds(f.d.Rows)
	for k := f.deal.first(); k < parts && len(out.rows) < calibrationRows; k++ {
		fold := foldSource{Source: f.src, deal: f.deal, k: k, last: k, parts: parts}
		n := int64(0)
		for i := range f.d.Rows {
			if fold.has(i) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		rows, err := machine.TableRows(fold, f.schema, true) // so many features exclude codes by means
		if err != nil {
			return nil, err
		}
		m, _, err := f.solveLarge(f.watch(rows, stageFit), n)
		if err != nil {
			return nil, err
		}
		fold.inside = true
		if rows, err = machine.TableRows(fold, f.schema, true); err != nil {
			return nil, err
		}
		s := &sample{}
		err = f.watch(rows, stageFit).Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
			for i := range x.Rows {
				s.x, s.y = appendRow(s.x, x.Row(i)), appendRow(s.y, y.Row(i))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := range f.d.Rows {
			if fold.has(i) {
				s.rows = append(s.rows, i)
			}
		}
		if s.len() == 0 {
			continue
		}
		if err := out.predict(m, s, 0, s.len()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
