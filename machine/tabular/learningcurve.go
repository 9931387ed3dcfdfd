package tabular

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// Models that are scored have seen fewer rows than the model they speak for: with 5 folds four fifths. On 20 tables
// their scores were a point too low. So the same settings are also fitted to half of those rows and score the same
// fold. Two points of the learning curve, and the usual law that errors fall by n^−½ to their limit, give the score of
// all rows: with a share s of the rows in a scored model
//
//	score(n) = score(sn) + (1 − √s)/(√2 − 1)·(score(sn) − score(sn/2))
//
// The factor is 0.25 for 5 folds. Fits of half the rows make no choices and take an eighth of the time of a scored fit.

// leastHalf are the rows from which a model of half of them is fitted.
const leastHalf = 20

// extrapolates reports whether scores are carried on to all rows. Groups and times are not: halves of them are other
// tables. Neither are features whose number was chosen for the rows: only exact kernels can take choices over.
func (f *fit) extrapolates(sub *fit) bool {
	return sub.decision.Exact && !f.deal.grouped() && !f.deal.ordered() && sub.decision.Rows >= 2*leastHalf
}

// steepness is by how much of the gain from half of the rows the score of all rows is better.
func (f *fit) steepness() float64 {
	return (1 - math.Sqrt(1-1/float64(f.o.Folds))) / (math.Sqrt2 - 1)
}

// addHalves scores fold k by models of halves of the rows of sub, whose model is m: by both if the fold has few rows.
func (f *fit) addHalves(sub *fit, m *machine.Model, k int, scored int64) error {
	if f.scored.uncurved || !f.extrapolates(sub) {
		f.scored.uncurved = true
		return nil
	}
	for part := 1; part <= 2; part++ {
		if part == 2 && scored >= pairedRows {
			break
		}
		err := f.addHalf(sub, m, k, part)
		if stop := f.ctx.Err(); stop != nil {
			return stop
		}
		switch {
		case errors.Is(err, machine.ErrSingular) || errors.Is(err, machine.ErrNoRows) ||
			errors.Is(err, dense.ErrNotFinite):
			f.scored.uncurved = true // no curve: scores stay those of fewer rows
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

func (f *fit) addHalf(sub *fit, of *machine.Model, k, part int) error {
	src := sub.src.(foldSource)
	src.half = part
	less := &fit{job: &job{ctx: f.ctx, src: src, o: sub.o, inner: true, weighs: sub.weighs,
		deal: newDealer(f.o.Seed, src.marks(f.decision.Rows))}, twin: true}
	less.by = &prior{schema: sub.schema, task: sub.task, d: sub.decision, last: k}
	var err error
	if less.o.Schema, err = f.learnFold(src); err != nil {
		return err
	}
	m, err := less.run()
	if err != nil {
		return err
	}
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
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return err
	}
	var ws machine.Workspace[float64]
	var pred dense.Matrix[float64]
	weights := f.heldWeights(src.marks(f.decision.Rows))
	err = rows.Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
		pred = buf.Shaped(pred, x.Rows, m.Outputs)
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		return e.AddWeighted(y, pred, dense.Matrix[float64]{}, weights.next(y.Rows))
	})
	if err != nil || f.scored.half == nil {
		f.scored.half = e
		return err
	}
	return f.scored.half.Merge(e)
}

// extrapolated are scores of all rows, if models of half of the rows tell how scores rise with them.
func (f *fit) extrapolated(scores []machine.Score) []machine.Score {
	if f.scored.uncurved || f.scored.half == nil {
		return scores
	}
	out := machine.Extrapolated(scores, f.scored.half, f.steepness())
	half := f.scored.half.Scores()[0]
	share := 1 - 1/float64(f.o.Folds)
	f.report.Curve = []CurvePoint{{share / 2, half.Name, half.Value}, {share, scores[0].Name, scores[0].Value},
		{1, out[0].Name, out[0].Value}}
	f.report.ScoredOn += "; continued to all rows"
	return out
}

// inHalf reports whether a row is in one of two halves of a table, by a hash.
func inHalf(seed uint64, row int64, half int) bool {
	return int(rng.Mix64(seed^thinLabel^rng.Mix64(uint64(row)))>>63)+1 == half
}
