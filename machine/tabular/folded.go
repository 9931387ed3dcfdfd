package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/machine"
)

// folded predicts every row with the model of the folds that do not contain it. It sorts the rows of a block by fold
// first, so that there is one product per fold instead of one per row.
type folded struct {
	deal     *dealer
	parts    []*machine.Predictor[float64]
	variance bool
	ws       machine.Workspace[float64]
	at       [][]int // rows of a block by fold
	x        dense.Matrix[float64]
	out      dense.Matrix[float64]
}

// without returns the predictors with penalty λ; others[k] is the sum of all folds but k.
func (f *final) without(others []machine.Sums, lambda float64) (*folded, error) {
	p := &folded{deal: f.deal, variance: f.info.Bayesian, at: make([][]int, len(others))}
	for k := range others {
		m, err := solved(others[k], lambda, f.o.Lambda > 0)
		if err != nil {
			return nil, fmt.Errorf("model without fold %d: %w", k+1, err)
		}
		one, err := machine.NewPredictor[float64](m)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, one)
	}
	return p, nil
}

// predict writes predictions, and variances of a Bayesian model. The first row has the number first in the table.
func (p *folded) predict(pred, variance, x dense.Matrix[float64], first int64) error {
	for k := range p.at {
		p.at[k] = p.at[k][:0]
	}
	for i := range x.Rows {
		k := p.deal.of(first+int64(i), len(p.parts))
		p.at[k] = append(p.at[k], i)
	}
	for k, at := range p.at {
		if len(at) == 0 {
			continue
		}
		p.x, p.out = buf.Shaped(p.x, len(at), x.Cols), buf.Shaped(p.out, len(at), pred.Cols)
		for j, i := range at {
			copy(p.x.Row(j), x.Row(i))
		}
		if err := p.parts[k].Predict(p.out, p.x, &p.ws); err != nil {
			return err
		}
		scatter(pred, p.out, at)
		if !p.variance {
			continue
		}
		if err := p.parts[k].Variance(p.out, p.x, &p.ws); err != nil {
			return err
		}
		scatter(variance, p.out, at)
	}
	return nil
}

func scatter(dst, src dense.Matrix[float64], at []int) {
	for j, i := range at {
		copy(dst.Row(i), src.Row(j))
	}
}

// openPenalty settles λ on all rows. For a regression, the sums decide at once. For classes it returns several
// penalties, and scoreSums decides by predicting all rows: the squared errors of class indicators, which the sums
// know, would choose a different λ than errors of classes. There are three penalties, half a decade apart, because
// each costs K factorisations and a prediction of every row. The penalty of the sample comes first and wins ties.
func (f *final) openPenalty(total machine.Sums) ([]float64, error) {
	if f.task == machine.Classification {
		l := f.d.Lambda
		return []float64{l, l * math.Sqrt(0.1), l * math.Sqrt(10)}, nil
	}
	path, ok := total.(pather)
	if !ok { // the table of kinds claims more than the kind implements
		return nil, fmt.Errorf("sums of a %s model know nothing of penalties: %w", f.kind, machine.ErrSetup)
	}
	ch, err := pathPenalty(path, f.info.Bayesian, f.d.Lambda, f.outputs)
	if err != nil {
		return nil, err
	}
	f.choices = append(slices.Clip(f.choices), ch)
	return []float64{ch.Number}, nil
}

// scoreSums predicts all rows once more, for every penalty, each row with the models that have not seen its fold. It
// returns the penalty with the most correct classes. For a density it returns the quantiles of the log densities and
// scores only rows that no choice was tried on: on the others the best of many settings would look too good. The
// sums of all folds but k are made for all k at once (K more matrices of 8F² bytes), so one pass serves all folds
// and penalties, and nothing is fitted again.
func (f *final) scoreSums(sums *foldSums, lambdas []float64) (float64, []float64, error) {
	others := make([]machine.Sums, len(sums.parts))
	models := make([]*folded, len(lambdas))
	for k := range others {
		var err error
		if others[k], err = sums.merged(k); err != nil {
			return 0, nil, err
		}
	}
	evals := make([]*machine.Evaluation, len(lambdas))
	for l, lambda := range lambdas {
		if err := f.ctx.Err(); err != nil {
			return 0, nil, err
		}
		var err error
		if models[l], err = f.without(others, lambda); err != nil {
			return 0, nil, err
		}
		if evals[l], err = models[l].parts[0].Model().Evaluation(); err != nil {
			return 0, nil, err
		}
	}
	var (
		pred, variance, truth dense.Matrix[float64]
		first                 int64
		scores                machine.Calibration
	)
	err := f.watch(f.rows, stageScore).Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
		pred = buf.Shaped(pred, x.Rows, max(f.outputs, 1))
		answers := y
		if f.weights != nil {
			answers = y.ColRange(0, y.Cols-1)
		}
		if f.info.Bayesian {
			variance = buf.Shaped(variance, x.Rows, f.outputs)
		}
		for l := range models {
			if err := models[l].predict(pred, variance, x, first); err != nil {
				return err
			}
			truth = f.original(truth, answers, pred, variance)
			for i := 0; f.task == machine.Unsupervised && i < pred.Rows; i++ {
				scores.Add(pred.At(i, 0))
				pred.Set(i, 0, models[l].parts[0].Model().LogDensity(pred.At(i, 0)))
			}
			if err := f.unseen(evals[l], truth, pred, variance, first, len(others)); err != nil {
				return err
			}
		}
		first += int64(x.Rows)
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	at := 0
	if len(lambdas) > 1 {
		at = f.scoredPenalty(lambdas, evals)
	}
	if f.task == machine.Unsupervised && f.o.Folds > 1 && !f.nests() {
		f.stated = stated{scores: evals[at].Scores(), confusion: evals[at].Confusion()}
		f.stated.on = fmt.Sprintf("all rows, %d folds", len(sums.parts))
		if f.d.Tried {
			f.stated.on = fmt.Sprintf("the %d rows that no choice was tried on, %d folds", evals[at].Len(),
				len(sums.parts))
		}
	}
	return lambdas[at], scores.Quantiles(), nil
}

// unseen adds predicted rows to e, except the first period of ordered rows and, for a density, rows that choices
// were tried on. The largest priority in the sample tells which these are, so no list of rows is kept or written
// into a checkpoint. The first row has the number first in the table.
func (f *final) unseen(e *machine.Evaluation, truth, pred, variance dense.Matrix[float64], first int64,
	folds int) error {
	tried := f.d.Tried && f.task == machine.Unsupervised
	var weights []float64
	if f.weights != nil {
		weights = f.weights[first : first+int64(pred.Rows)]
	}
	if !tried && !f.deal.ordered() {
		return e.AddWeighted(truth, pred, variance, weights)
	}
	for i := range pred.Rows {
		row := first + int64(i)
		if tried && priority(f.o.Seed, row) <= f.d.Last || f.deal.of(row, folds) < f.deal.first() {
			continue
		}
		y := truth
		if y.Cols > 0 {
			y = y.RowRange(i, i+1)
		}
		var weight []float64
		if weights != nil {
			weight = weights[i : i+1]
		}
		if err := e.AddWeighted(y, pred.RowRange(i, i+1), variance, weight); err != nil {
			return err
		}
	}
	return nil
}

// scoredPenalty chooses the penalty with the best main score. The error that it reports is the standard error of a
// normal interval of the same width.
func (f *final) scoredPenalty(lambdas []float64, evals []*machine.Evaluation) int {
	ch := Choice{Name: "lambda", Why: "best out-of-fold accuracy of all rows"}
	at, top := 0, math.Inf(-1)
	for l, e := range evals {
		s := e.Scores()[0]
		ch.Trials = append(ch.Trials, Trial{Value: lambdas[l], Score: s.Value, Metric: s.Name,
			Error: (s.High - s.Low) / (2 * 1.96)})
		if s.Value > top {
			at, top = l, s.Value
		}
	}
	ch.Number, ch.Value = lambdas[at], short(lambdas[at])
	f.choices = append(slices.Clip(f.choices), ch)
	return at
}

// original undoes the standardisation of targets: in the truth that it returns, and in place in predictions and
// variances.
func (j *job) original(truth, y, pred, variance dense.Matrix[float64]) dense.Matrix[float64] {
	if j.task != machine.Regression {
		return y
	}
	truth = buf.Shaped(truth, y.Rows, y.Cols)
	for i := range y.Rows {
		for k, t := range j.schema.Targets {
			truth.Set(i, k, float64(y.At(i, k)*t.Scale)+t.Mean)
			pred.Set(i, k, float64(pred.At(i, k)*t.Scale)+t.Mean)
			if j.info.Bayesian {
				variance.Set(i, k, variance.At(i, k)*t.Scale*t.Scale)
			}
		}
	}
	return truth
}
