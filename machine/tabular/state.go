package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// unseen holds rows that were predicted by models which have not seen them. All that a fit states comes from these:
// scores, probabilities, prediction intervals and the confusion of classes.
type unseen struct {
	rows     []int // of the frame
	fold     []int // of each row: which model predicted it
	folds    int
	pred     matrix // in the units of the fit
	variance matrix // of a Bayesian model
}

// stated holds the scores of a report and describes the rows that they come from.
type stated struct {
	scores    []machine.Score
	confusion [][]int64
	on        string
	compared  []Compared
}

// unseenOf turns the predictions of a trial into rows of each deal.
func (f *frame) unseenOf(outs []matrix) []unseen {
	var all []unseen
	for r, out := range outs {
		u := unseen{folds: f.folds, pred: matrix{}}
		for i := range out.Rows {
			if !math.IsNaN(out.At(i, 0)) {
				u.rows, u.fold = append(u.rows, i), append(u.fold, f.fold[r][i])
			}
		}
		u.pred = pick(out, u.rows)
		all = append(all, u)
	}
	return all
}

// original undoes the standardisation of targets. It returns the truth of the rows, and predictions and variances.
func (f *frame) original(u unseen) (y, pred, variance matrix) {
	y = pick(f.s.y.ColRange(0, f.targetColumns()), u.rows)
	if f.task != machine.Regression {
		return y, u.pred, u.variance
	}
	pred, variance = u.pred.Clone(), u.variance.Clone()
	for i := range y.Rows {
		for k, t := range f.schema.Targets {
			y.Set(i, k, float64(y.At(i, k)*t.Scale)+t.Mean)
			pred.Set(i, k, float64(pred.At(i, k)*t.Scale)+t.Mean)
			if variance.Rows > 0 {
				variance.Set(i, k, variance.At(i, k)*t.Scale*t.Scale)
			}
		}
	}
	return y, pred, variance
}

func (j *job) targetColumns() int {
	return machine.Setup{Task: j.task, Outputs: j.outputs}.TargetColumns()
}

// state sets the probabilities and prediction intervals of a model from rows that models of its settings have not seen,
// and returns the scores of these rows. Each element of all is one deal of the rows; scores are means over them.
func (f *frame) state(m *machine.Model, all []unseen, log *journal) (out stated, err error) {
	residuals, groups := new(machine.Residuals), groupResiduals{}
	var deals []*dealt
	for _, u := range all {
		if len(u.rows) == 0 {
			continue
		}
		d := &dealt{u: u, weights: f.scoreWeights(u.rows)}
		d.y, d.pred, d.variance = f.original(u)
		deals = append(deals, d)
		if f.task == machine.Regression {
			equal := f.equalWeights(u.rows, d.weights)
			residuals.Add(d.y, d.pred, d.variance, equal)
			f.addGroups(groups, d, equal)
		}
	}
	if len(deals) == 0 {
		return out, nil
	}
	if f.task == machine.Regression {
		m.Residuals = residuals.Quantiles()
	}
	if err := f.calibrate(m, deals); err != nil {
		return out, err
	}
	var sums [][]machine.Score
	for _, d := range deals {
		parts, err := f.evaluations(m, d)
		if err != nil {
			return out, err
		}
		e, scores, err := f.scoresOf(parts)
		if err != nil {
			return out, err
		}
		if sums = append(sums, scores); out.confusion == nil {
			out.confusion = e.Confusion()
		}
	}
	out.scores = meanScores(sums)
	return out, f.setGroups(m, groups, log)
}

// dealt is one deal in original units.
type dealt struct {
	u                 unseen
	y, pred, variance matrix
	weights           []float64 // of rows in scores; nil: 1
	likely            matrix    // probabilities, calibrated on other rows; empty: pred has them
}

// meanScores returns the means of scores and of the ends of their intervals.
func meanScores(all [][]machine.Score) []machine.Score {
	out := slices.Clone(all[0])
	for i := range out {
		s := &out[i]
		s.Value, s.Low, s.High = 0, 0, 0
		for _, scores := range all {
			s.Value += scores[i].Value / float64(len(all))
			s.Low += scores[i].Low / float64(len(all))
			s.High += scores[i].High / float64(len(all))
		}
	}
	return out
}

// scoreWeights returns the weights of rows in scores, which class weights do not change; nil: 1.
func (f *frame) scoreWeights(rows []int) []float64 {
	m := f.deal.marks
	if m == nil || m.Weight == nil {
		return nil
	}
	out := make([]float64, len(rows))
	for at, i := range rows {
		out[at] = m.Weight[f.s.rows[i]] * f.weightScale
	}
	return out
}

// equalWeights returns weights for residuals. A row in a group weighs 1 over the number of rows of the group, or its
// share of the group's weight: a large group says no more about new groups than a small one. Without groups the given
// weights stay.
func (f *frame) equalWeights(rows []int, weights []float64) []float64 {
	m := f.deal.marks
	if m == nil || m.Group == nil {
		return weights
	}
	out, sum := make([]float64, len(rows)), make([]float64, m.Groups)
	for at, i := range rows {
		if out[at] = 1; weights != nil {
			out[at] = weights[at]
		}
		sum[m.Group[f.s.rows[i]]] += out[at]
	}
	for at, i := range rows {
		if out[at] > 0 {
			out[at] /= sum[m.Group[f.s.rows[i]]]
		}
	}
	return out
}

// calibrationCells bounds the scores that a calibration reads: more do not improve its two parameters.
const calibrationCells = 1 << 16

// calibrate gives a model of classes its probabilities, and every deal probabilities that were calibrated on other
// rows: every fifth row by the rows in between. Parameters fitted to the rows that they are scored on would be slightly
// too good.
func (f *frame) calibrate(m *machine.Model, deals []*dealt) (err error) {
	if f.task != machine.Classification {
		return nil
	}
	if e, err := m.Evaluation(); err != nil || e.Probable() {
		return err
	}
	if m.Calibration, err = f.calibration(deals, func(int) bool { return true }); err != nil {
		return fmt.Errorf("probabilities: %w", err)
	}
	const parts = 5
	for k := range parts {
		c, err := f.calibration(deals, func(i int) bool { return i%parts != k || f.s.len() < parts })
		if err != nil {
			return fmt.Errorf("probabilities: %w", err)
		}
		of := &machine.Model{Calibration: c}
		for _, d := range deals {
			if d.likely.Rows == 0 {
				d.likely = d.pred.Clone()
			}
			for at, i := range d.u.rows {
				if i%parts == k {
					of.Calibrate(d.likely.Row(at))
				}
			}
		}
	}
	return nil
}

// calibration fits a calibration to the rows that use accepts, or to evenly spaced ones of them if they are many.
func (f *frame) calibration(deals []*dealt, use func(i int) bool) ([]float64, error) {
	type place struct{ deal, at int }
	var all []place
	for r, d := range deals {
		for at, i := range d.u.rows {
			if use(i) {
				all = append(all, place{r, at})
			}
		}
	}
	step := max(1, (len(all)*f.outputs+calibrationCells-1)/calibrationCells)
	n := (len(all) + step - 1) / step
	scores, classes, weights := dense.New[float64](n, f.outputs), make([]int, n), make([]float64, n)
	for j := range n {
		p := all[j*step]
		d := deals[p.deal]
		copy(scores.Row(j), d.pred.Row(p.at))
		classes[j], weights[j] = int(d.y.At(p.at, 0)), 1/float64(len(deals))
		if f.s.weighted { // probabilities are those of the weighted rows, as in logistic regression
			weights[j] *= f.s.weight(d.u.rows[p.at])
		}
	}
	return machine.FitCalibration(scores, classes, weights, f.o.ClassWeights != nil)
}

// evaluations returns the evaluation of the rows of each fold.
func (f *frame) evaluations(m *machine.Model, d *dealt) ([]*machine.Evaluation, error) {
	parts := make([]*machine.Evaluation, d.u.folds)
	pred := d.pred
	if d.likely.Rows > 0 {
		pred = d.likely
	}
	for at := range d.u.rows {
		e := &parts[d.u.fold[at]]
		if *e == nil {
			var err error
			if *e, err = m.Evaluation(); err != nil {
				return nil, err
			}
		}
		var w []float64
		if d.weights != nil {
			w = d.weights[at : at+1]
		}
		if err := (*e).AddWeighted(rowOf(d.y, at), rowOf(pred, at), rowOf(d.variance, at), w); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(parts, func(e *machine.Evaluation) bool { return e == nil }), nil
}

// scoresOf returns the scores of several models, each on its own rows.
func (j *job) scoresOf(parts []*machine.Evaluation) (*machine.Evaluation, []machine.Score, error) {
	if j.deal.grouped() {
		return machine.ScoresOfGroups(parts)
	}
	return machine.ScoresOfModels(parts)
}

// rowOf returns row i of a matrix, or the matrix itself if it has no columns.
func rowOf(m matrix, i int) matrix {
	if m.Cols == 0 {
		return m
	}
	return m.RowRange(i, i+1)
}

// scoredOn describes which rows were scored, and by which models.
func (c *chosen) scoredOn(all []unseen) string {
	u := all[0]
	rows, folds := len(u.rows), len(slices.Compact(slices.Sorted(slices.Values(u.fold))))
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
	case u.folds == 1:
		return fmt.Sprintf("%d rows; each was predicted without itself", rows)
	case int64(rows) < c.d.Rows:
		return fmt.Sprintf("%d rows in %d of %d folds; each fold was predicted without its rows", rows, folds, u.folds)
	case len(all) > 1:
		return fmt.Sprintf("all rows in %d folds, dealt %d times; each fold was predicted without its rows", folds,
			len(all))
	}
	return fmt.Sprintf("all rows in %d folds; each fold was predicted without its rows", folds)
}
