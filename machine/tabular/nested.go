package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// nestedRows are enough for a score: folds beyond them are not scored, which would take as long as the fit again,
// unless their choices are made. Two folds share choices if the first has fewer than pairedRows rows: of 1000 to 4000
// rows and 5 folds two are scored, of more one.
// With weights of classes there must also be enough of every class.
const nestedRows, pairedRows = 400, 800

// nests reports whether the score is that of whole fits without a fold. A density of more rows than the sample has
// scores of its own, those of its calibration.
func (f *fit) nests() bool {
	return f.o.Folds > 1 && (f.task != machine.Unsupervised ||
		f.decision.Tried && f.decision.Rows == int64(f.decision.Sampled))
}

// nested scores rows by nested cross-validation: those of a fold are predicted by a model that has seen nothing of
// them, neither when its columns, levels and scales were learned nor when its choices were made. The out-of-fold error
// of the best of many settings is an optimistic one, the more so the fewer rows: with 60 rows the true RMSE was 1.27
// times that stated (Cawley & Talbot 2010, "On over-fitting in model selection and subsequent selection bias in
// performance evaluation", JMLR 11, §5); columns learned from all rows hide what a rare value of one does to a model
// that has not seen it. The score is that of the procedure on fewer rows.
//
// Not in the folds: the classes, the units of numeric targets, the columns of a density, whose scales are its units,
// and the seed. Folds may choose differently; their spread is in the intervals (machine.ScoresOfModels). It costs the
// fit again per fold that is scored, but choices, most of it, are made once for two folds where rows outside both are
// enough.
func (f *fit) nested() error {
	var parts []*machine.Evaluation // of the folds
	done := int64(0)
	var err error
	if f.scored.simple, err = f.newBaselines(); err != nil {
		return err
	}
	for _, k := range f.scoredParts() {
		chosen := f.shared != nil && f.shared.last >= k
		if (done >= nestedRows && !chosen || f.o.Quick && done > 0) && !f.deal.grouped() && f.scoresClasses(parts) {
			break
		}
		if !f.reaches(k) {
			continue
		}
		part, err := f.heldOut(k, len(parts), done)
		if err != nil {
			return fmt.Errorf("cross-validation without fold %d: %w", k+1, err)
		}
		if part.Len() == 0 {
			continue
		}
		parts = append(parts, part)
		done += part.Len()
		f.progress(stageScore, done, f.decision.Rows)
	}
	if f.deal.horizon > 0 && len(parts) == 0 {
		return fmt.Errorf("%s: a horizon of %g in %s leaves fewer than %d rows before every stretch that is scored: give a "+
			"smaller one: %w", f.src.Name(), f.deal.horizon, f.o.Marks.Time, leastBefore, machine.ErrNoRows)
	}
	f.scored.evals = parts
	f.report.ScoredOn = f.scoredOn(done, len(parts))
	if f.scored.simple != nil && len(parts) > 0 {
		f.report.Compared, err = f.scored.simple.compared(f)
	}
	return err
}

// leastBefore is how many rows must come before a stretch of time that is scored a horizon ahead.
const leastBefore = 20

// reaches reports whether a model of the rows a horizon before part k has enough of them.
func (f *fit) reaches(k int) bool {
	if f.deal.horizon == 0 {
		return true
	}
	s := foldSource{deal: f.deal, k: k, last: k, parts: f.deal.parts(f.o.Folds)}
	n := 0
	for i := range f.decision.Rows {
		if s.has(i) {
			n++
		}
	}
	return n >= leastBefore
}

// nestedClass are enough rows of a class whose weight says that it counts.
const nestedClass = 100

// scoresClasses reports whether rows of all classes that were given weights are enough for scores of these.
func (f *fit) scoresClasses(parts []*machine.Evaluation) bool {
	if f.o.ClassWeights == nil {
		return true
	}
	count := make([]int64, f.outputs)
	for _, p := range parts {
		for k, row := range p.Confusion() {
			for _, n := range row {
				count[k] += n
			}
		}
	}
	return slices.Min(count) >= nestedClass
}

// scoredParts are the parts to score, in order. Of stretches of time the last comes first: the fit before it is nearest
// to that of all rows.
func (j *job) scoredParts() []int {
	var out []int
	for k := j.deal.first(); k < j.deal.parts(j.o.Folds); k++ {
		out = append(out, k)
	}
	if j.deal.ordered() {
		slices.Reverse(out)
	}
	return out
}

// scoredOn says which rows were scored, and by what.
func (f *fit) scoredOn(rows int64, folds int) string {
	switch {
	case f.deal.ordered() && f.deal.horizon > 0:
		return fmt.Sprintf("%d rows of %d stretches of %s, columns and choices made on what came at least %g before each", rows,
			folds, f.o.Marks.Time, f.deal.horizon)
	case f.deal.ordered():
		return fmt.Sprintf("%d rows of %d stretches of %s, columns and choices made on what came before each", rows, folds,
			f.o.Marks.Time)
	case f.deal.grouped():
		return fmt.Sprintf("%d rows, %d folds of whole groups of %s, columns and choices made without each", rows, folds,
			f.o.Marks.Group)
	case f.thins(f.decision.Rows):
		return fmt.Sprintf("%d rows of %d of %d folds, columns and choices made on about %d rows without each", rows, folds,
			f.o.Folds, nestedMost)
	case rows < f.decision.Rows:
		return fmt.Sprintf("%d rows of %d of %d folds, columns and choices made without each", rows, folds, f.o.Folds)
	}
	return fmt.Sprintf("all rows, %d folds, columns and choices made without each", folds)
}

// heldOut evaluates fold k by a fit of all others, as if they were the table, and keeps its predictions as a part; done
// rows are scored.
func (f *fit) heldOut(k, part int, done int64) (*machine.Evaluation, error) {
	sub, err := f.forFold(k, done)
	if err != nil {
		return nil, err
	}
	m, err := sub.run()
	if err != nil {
		return nil, err
	}
	fold := sub.src.(foldSource)
	fold.inside = true
	rows, err := machine.ModelRows(fold, m, f.task != machine.Unsupervised, nil)
	if err != nil {
		return nil, err
	}
	e, err := m.Evaluation()
	if err != nil {
		return nil, err
	}
	if sub.twin && f.scored.held == nil {
		f.scored.held = f.newHeld(e)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	var (
		ws             machine.Workspace[float64]
		pred, variance dense.Matrix[float64]
		marks          = fold.marks(f.decision.Rows)
		weights        = f.heldWeights(marks)
		equal          = groupShares(marks, weights)
	)
	err = rows.Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		pred = buf.Shaped(pred, x.Rows, m.Outputs)
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		if f.info.Bayesian {
			variance = buf.Shaped(variance, x.Rows, m.Outputs)
			if err := p.Variance(variance, x, &ws); err != nil {
				return err
			}
		}
		for i := 0; f.task == machine.Unsupervised && i < pred.Rows; i++ {
			pred.Set(i, 0, m.LogDensity(pred.At(i, 0)))
		}
		w := weights.next(y.Rows)
		if sub.twin {
			f.scored.held.add(part, y, pred, w)
		}
		if f.task == machine.Regression {
			equal := equal.next(y.Rows)
			f.scored.spread.add(y, pred, variance, equal)
			if sub.twin {
				f.scored.residuals.Add(y, pred, variance, equal)
				f.addGroups(m.Schema, x, y, pred, variance, equal)
			}
		}
		if f.scored.simple != nil {
			if err := f.scored.simple.kernel.Add(y, pred); err != nil {
				return err
			}
		}
		return e.AddWeighted(y, pred, variance, w)
	})
	if err == nil && f.task != machine.Unsupervised {
		err = f.addHalves(sub, m, k, e.Len())
	}
	if err == nil && f.scored.simple != nil && e.Len() > 0 {
		err = f.scored.simple.fold(f, sub, m, fold, f.heldWeights(marks))
	}
	return e, err
}

// shares are numbers of rows that are handed out in order; nil: none.
type shares []float64

func (s *shares) next(n int) []float64 {
	if *s == nil {
		return nil
	}
	out := (*s)[:n]
	*s = (*s)[n:]
	return out
}

// heldWeights are the weights of rows with these marks, in units of the mean of all.
func (f *fit) heldWeights(m *data.Marks) shares {
	if m == nil || m.Weight == nil {
		return nil
	}
	return scaled(m.Weight, f.weightScale)
}

// groupShares are weights of residuals: of rows in groups 1 over the number of rows of the group, or the part of its
// weight that a row has, since a large group tells no more of new groups than a small one does; else those given.
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

// learnFold learns the columns from a part of the rows, unless the schema was given. Which columns are used, how their
// cells are read, and the targets with their classes and units come from all rows: a column with one word among dates
// would be a column of dates without the row that has it, and that row could not be read. A part learns means, scales,
// levels, ranges and whether cells are missing.
func (j *job) learnFold(src data.Source) (*data.Schema, error) {
	if j.o.Schema != nil || j.task == machine.Unsupervised {
		return j.schema, nil
	}
	like := j.schema
	if j.base != nil {
		like = j.base
	}
	s, _, err := data.Learn(src, data.LearnOptions{Like: unweighted(like), MaxLevels: j.o.Learn.MaxLevels})
	return s, err
}
