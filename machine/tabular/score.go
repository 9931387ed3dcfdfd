package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// nestedRows is enough rows for a score. Further folds are scored only if their choices are already made, because
// each takes as long as the fit. Two folds share choices if the first has fewer than pairedRows rows: with 5 folds,
// two are scored of 1000 to 4000 rows, and one of more. With class weights there must also be enough rows of every
// class.
const nestedRows, pairedRows = 400, 800

// scored collects what is known about held-out rows. Several models may have predicted them, each its own rows.
type scored struct {
	held      *held             // by models of the final settings; nil if they calibrated themselves
	residuals machine.Residuals // by a model of the final settings without a fold, in original units
	spread    spread            // residuals of all models
	evals     []*machine.Evaluation
	groups    groupResiduals      // residuals by the group that intervals go by
	simple    *baselines          // methods to compare with; nil: not asked for
	compared  []Compared          // results of the comparison
	half      *machine.Evaluation // the same rows, by models of half as many rows
	uncurved  bool                // half is incomplete: scores stay those of fewer rows
	on        string              // describes the rows and the models
}

// scoreFolds scores rows by nested cross-validation. The rows of a fold are predicted by a model that has not seen
// them: neither when its columns, levels and scales were learned nor when its choices were made. The plain
// out-of-fold error of the best of many settings is optimistic, the more so the fewer rows there are: with 60 rows
// the error on new rows was 1.22 times as large (Cawley & Talbot 2010, "On over-fitting in model selection and
// subsequent selection bias in performance evaluation", JMLR 11, §5). Learning columns from all rows would also hide
// what a rare value does to a model that has not seen it. The score is that of the whole procedure on fewer rows.
//
// Not repeated in the folds: the classes, the units of numeric targets, the columns of a density (their scales are
// its units) and the seed. Folds may choose differently; the spread of their scores is in the intervals
// (machine.ScoresOfModels). Every scored fold costs as much as the fit. Most of that are choices; two folds share
// them if the rows outside both are enough.
func scoreFolds(c *chosen, log *journal) (*scored, error) {
	s := new(scored)
	if !c.nests() {
		return s, nil
	}
	return s, log.stage(c.job, stageScore, func() (int64, error) { return c.d.Rows, s.scoreFolds(c, log) })
}

func (s *scored) scoreFolds(c *chosen, log *journal) (err error) {
	if s.simple, err = newBaselines(c.job); err != nil {
		return err
	}
	done := int64(0)
	var sub *chosen
	var shared *prior // choices for two folds
	for _, k := range c.scoredParts() {
		chosen := shared != nil && shared.last >= k
		if (done >= nestedRows && !chosen || c.o.Quick && done > 0) && !c.deal.grouped() && s.scoresClasses(c.job) {
			break
		}
		if !c.reaches(k) {
			continue
		}
		var part *machine.Evaluation
		if sub, shared, err = withoutFold(c, k, shared); err == nil {
			part, err = s.heldOut(c, sub, k)
		}
		if err != nil {
			return fmt.Errorf("cross-validation without fold %d: %w", k+1, err)
		}
		if part.Len() == 0 {
			continue
		}
		s.evals = append(s.evals, part)
		done += part.Len()
		c.progress(stageScore, done, c.d.Rows)
	}
	if c.deal.horizon > 0 && len(s.evals) == 0 {
		return fmt.Errorf("%s: a horizon of %g in %s leaves fewer than %d rows before every stretch that is scored: give a "+
			"smaller one: %w", c.src.Name(), c.deal.horizon, c.o.Marks.Time, leastBefore, machine.ErrNoRows)
	}
	s.on = c.scoredOn(done, len(s.evals))
	if s.simple != nil && len(s.evals) > 0 {
		s.compared, err = s.simple.compared(c.job, s.evals, log)
	}
	return err
}

// leastBefore is the number of rows that must precede a period that is scored a horizon ahead.
const leastBefore = 20

// reaches reports whether enough rows lie at least a horizon before part k.
func (c *chosen) reaches(k int) bool {
	if c.deal.horizon == 0 {
		return true
	}
	s := foldSource{deal: c.deal, k: k, last: k, parts: c.deal.parts(c.o.Folds)}
	n := 0
	for i := range c.d.Rows {
		if s.has(i) {
			n++
		}
	}
	return n >= leastBefore
}

// nestedClass is enough rows of a class that has a weight.
const nestedClass = 100

// scoresClasses reports whether enough rows of all weighted classes were scored.
func (s *scored) scoresClasses(c *job) bool {
	if c.o.ClassWeights == nil {
		return true
	}
	count := make([]int64, c.outputs)
	for _, p := range s.evals {
		for k, row := range p.Confusion() {
			for _, n := range row {
				count[k] += n
			}
		}
	}
	return slices.Min(count) >= nestedClass
}

// scoredOn describes which rows were scored, and by which models. A fold is left out of all of a fit: columns, choices
// and model.
func (c *chosen) scoredOn(rows int64, folds int) string {
	switch {
	case c.deal.ordered() && c.deal.horizon > 0:
		return fmt.Sprintf("%d rows in %d stretches of %s; each stretch was predicted from rows at least %g earlier",
			rows, folds, c.o.Marks.Time, c.deal.horizon)
	case c.deal.ordered():
		return fmt.Sprintf("%d rows in %d stretches of %s; each stretch was predicted from the rows before it", rows,
			folds, c.o.Marks.Time)
	case c.deal.grouped():
		return fmt.Sprintf("%d rows in %d folds of whole groups of %s; each fold was predicted without its rows", rows,
			folds, c.o.Marks.Group)
	case c.subsamples(c.d.Rows):
		return fmt.Sprintf("%d rows in %d of %d folds; each fold was predicted from about %d other rows", rows, folds,
			c.o.Folds, min(nestedMost, c.d.Rows*int64(c.o.Folds-1)/int64(c.o.Folds)))
	case c.thins(c.d.Rows):
		return fmt.Sprintf("%d rows in %d of %d folds; each fold was predicted from about %d other rows", rows, folds,
			c.o.Folds, nestedMost)
	case rows < c.d.Rows:
		return fmt.Sprintf("%d rows in %d of %d folds; each fold was predicted without its rows", rows, folds,
			c.o.Folds)
	}
	return fmt.Sprintf("all rows in %d folds; each fold was predicted without its rows", folds)
}

// heldOut fits all other folds as if they were the table, evaluates fold k, and keeps its predictions.
func (s *scored) heldOut(c, sub *chosen, k int) (*machine.Evaluation, error) {
	m, err := fitFold(sub)
	if err != nil {
		return nil, err
	}
	fold := sub.src.(foldSource)
	if fold.inside = true; c.subsamples(c.d.Rows) {
		fold.only = heldScore
	}
	rows, err := machine.ModelRows(fold, m, c.task != machine.Unsupervised, nil)
	if err != nil {
		return nil, err
	}
	e, err := m.Evaluation()
	if err != nil {
		return nil, err
	}
	if sub.twin && s.held == nil {
		s.held = newHeld(c.job, e)
	}
	marks := fold.marks(c.d.Rows)
	weights := c.heldWeights(marks)
	equal := groupShares(marks, weights)
	err = eachPredicted(c.job, m, rows, func(x, y, pred, variance dense.Matrix[float64]) error {
		for i := 0; c.task == machine.Unsupervised && i < pred.Rows; i++ {
			pred.Set(i, 0, m.LogDensity(pred.At(i, 0)))
		}
		w := weights.next(y.Rows)
		if sub.twin {
			s.held.add(len(s.evals), y, pred, w)
		}
		if c.task == machine.Regression {
			equal := equal.next(y.Rows)
			s.spread.add(y, pred, variance, equal)
			if sub.twin {
				s.residuals.Add(y, pred, variance, equal)
				s.groups.addRows(c.o.IntervalBy, m.Schema, x, y, pred, variance, equal)
			}
		}
		if s.simple != nil {
			if err := s.simple.kernel.Add(y, pred); err != nil {
				return err
			}
		}
		return e.AddWeighted(y, pred, variance, w)
	})
	if err == nil && c.task != machine.Unsupervised {
		err = s.addHalves(c, sub, m, k, e.Len())
	}
	if err == nil && s.simple != nil && e.Len() > 0 {
		err = s.simple.fold(sub.job, m, fold, c.heldWeights(marks))
	}
	return e, err
}

// eachPredicted predicts rows block by block, with variances if the model is Bayesian.
func eachPredicted(j *job, m *machine.Model, rows machine.Rows,
	use func(x, y, pred, variance dense.Matrix[float64]) error) error {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return err
	}
	var ws machine.Workspace[float64]
	var pred, variance dense.Matrix[float64]
	return rows.Each(j.o.Block, func(x, y dense.Matrix[float64]) error {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		pred = buf.Shaped(pred, x.Rows, m.Outputs)
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		if j.info.Bayesian {
			variance = buf.Shaped(variance, x.Rows, m.Outputs)
			if err := p.Variance(variance, x, &ws); err != nil {
				return err
			}
		}
		return use(x, y, pred, variance)
	})
}

// fitFold fits a part of the rows with choices that were already made.
func fitFold(c *chosen) (*machine.Model, error) {
	if c.model != nil {
		return c.model, nil
	}
	f, err := fitAll(c, new(journal), nil)
	if err != nil {
		return nil, err
	}
	f.restore()
	c.model = f.model
	return f.model, f.model.Validate()
}

// state calibrates the model on held-out rows and sets its residuals for prediction intervals. It returns the scores
// of these rows.
func (s *scored) state(j *job, m *machine.Model, left *leftOut) (stated, error) {
	parts, err := s.held.calibrate(m, s.evals)
	if err != nil {
		return stated{}, err
	}
	e, scores, err := scoresOf(j, parts)
	if err != nil {
		return stated{}, err
	}
	if j.task == machine.Regression {
		m.Residuals = s.intervals(j, left).Quantiles()
	}
	out := stated{scores: scores, confusion: e.Confusion(), on: s.on}
	s.extrapolate(&out, j.o.Folds)
	return out, nil
}

// scoresOf returns the scores of several models, each on its own rows.
func scoresOf(j *job, parts []*machine.Evaluation) (*machine.Evaluation, []machine.Score, error) {
	if j.deal.grouped() {
		return machine.ScoresOfGroups(parts)
	}
	return machine.ScoresOfModels(parts)
}

// shares are weights of rows, consumed in order; nil: none.
type shares []float64

func (s *shares) next(n int) []float64 {
	if *s == nil {
		return nil
	}
	out := (*s)[:n]
	*s = (*s)[n:]
	return out
}

// heldWeights returns the weights of rows with these marks, in units of the mean weight of all rows.
func (j *job) heldWeights(m *data.Marks) shares {
	if m == nil || m.Weight == nil {
		return nil
	}
	return scaled(m.Weight, j.weightScale)
}

// groupShares returns weights for residuals. A row in a group weighs 1 over the number of rows of the group, or its
// share of the group's weight: a large group says no more about new groups than a small one. Without groups the
// given weights stay.
func groupShares(m *data.Marks, weights shares) shares {
	if m == nil || m.Group == nil {
		return weights
	}
	out, sum := make(shares, len(m.Group)), make([]float64, m.Groups)
	for i, g := range m.Group {
		if out[i] = 1; weights != nil {
			out[i] = weights[i]
		}
		sum[g] += out[i]
	}
	for i, g := range m.Group {
		if out[i] > 0 {
			out[i] /= sum[g]
		}
	}
	return out
}
