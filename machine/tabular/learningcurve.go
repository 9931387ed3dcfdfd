package tabular

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// Scored models have seen fewer rows than the final model: with 5 folds four fifths. On 20 tables their scores were a
// point too low. So the same settings are also fitted to half of those rows, and score the same fold. Two points of the
// learning curve, and the usual law that errors approach their limit as n^−½, give the score of all rows. If a scored
// model learns from a share s of the rows:
//
//	score(n) = score(sn) + (1 − √s)/(√2 − 1)·(score(sn) − score(sn/2))
//
// The factor is 0.25 for 5 folds. Fits of half the rows make no choices and take an eighth of the time of a scored fit.

// leastHalf is the least number of rows for a model of half of the rows.
const leastHalf = 20

// extrapolates reports whether scores are extrapolated to all rows. Groups and times are excluded, because half of
// them is a different table. Random features are excluded, because their number was chosen for the number of rows;
// only exact kernels can reuse the choices. A part of many rows is excluded, because a scored model has as many.
// Options.Quick leaves the scores at those of fewer rows.
func extrapolates(c, sub *chosen) bool {
	return !c.o.Quick && sub.d.Exact && !c.subsamples(c.d.Rows) && !c.deal.grouped() && !c.deal.ordered() &&
		sub.d.Rows >= 2*leastHalf
}

// addHalves scores fold k with models of halves of the rows of sub, whose model is m. If the fold has few rows, both
// halves are used.
func (s *scored) addHalves(c, sub *chosen, m *machine.Model, k int, scored int64) error {
	if s.uncurved || !extrapolates(c, sub) {
		s.uncurved = true
		return nil
	}
	for part := 1; part <= 2; part++ {
		if part == 2 && scored >= pairedRows {
			break
		}
		err := s.addHalf(c, sub, m, k, part)
		if stop := c.ctx.Err(); stop != nil {
			return stop
		}
		switch {
		case errors.Is(err, machine.ErrSingular) || errors.Is(err, machine.ErrNoRows) ||
			errors.Is(err, dense.ErrNotFinite):
			s.uncurved = true // no curve: the scores stay those of fewer rows
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// halfOf returns the fit of a half of the rows of sub, which are those outside fold k.
func halfOf(c, sub *chosen, k, part int) (*chosen, error) {
	if sub.less != nil && part == 1 {
		return sub.less, nil
	}
	src := sub.src.(foldSource)
	src.half = part
	in, err := c.part(src, c.d.Rows)
	if err != nil {
		return nil, err
	}
	less, err := begin(in, &prior{schema: sub.schema, task: sub.task, d: sub.d, last: k}, new(journal), nil)
	if err == nil {
		less.twin = true
	}
	return less, err
}

func (s *scored) addHalf(c, sub *chosen, of *machine.Model, k, part int) error {
	less, err := halfOf(c, sub, k, part)
	if err != nil {
		return err
	}
	m, err := fitFold(less)
	if err != nil {
		return err
	}
	src := less.src.(foldSource)
	m.Calibration = of.Calibration // class weights move the border between classes
	e, err := m.Evaluation()
	if err != nil {
		return err
	}
	src.inside = true
	rows, err := machine.ModelRows(src, m, true, nil)
	if err != nil {
		return err
	}
	weights := c.heldWeights(src.marks(c.d.Rows))
	err = eachPredicted(c.job, m, rows, func(_, y, pred, variance dense.Matrix[float64]) error {
		return e.AddWeighted(y, pred, variance, weights.next(y.Rows))
	})
	if err != nil || s.half == nil {
		s.half = e
		return err
	}
	return s.half.Merge(e)
}

// extrapolate extends the scores to all rows if models of half of the rows were scored.
func (s *scored) extrapolate(to *stated, folds int) {
	if s.uncurved || s.half == nil {
		return
	}
	share := 1 - 1/float64(folds)
	// The gain from half of the rows to all rows of a scored model, times steepness, is added to the score.
	steepness := (1 - math.Sqrt(share)) / (math.Sqrt2 - 1)
	measured, half := to.scores[0], s.half.Scores()[0]
	to.scores = s.half.Extrapolate(to.scores, steepness)
	to.curve = []CurvePoint{{share / 2, half.Name, half.Value}, {share, measured.Name, measured.Value},
		{1, to.scores[0].Name, to.scores[0].Value}}
	to.on += "; scores are extrapolated to all rows"
}
