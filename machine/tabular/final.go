package tabular

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// final is the fit of all rows.
type final struct {
	*chosen
	log     *journal
	file    *checkpoint
	model   *machine.Model
	choices []Choice // choices of the decision, and choices made on all rows
	sums    *foldSums
}

// fitAll fits all rows with the settings of the decision.
func fitAll(c *chosen, log *journal, file *checkpoint) (*final, error) {
	f := &final{chosen: c, log: log, file: file, choices: c.d.Choices}
	err := log.stage(c.job, stageFit, func() (n int64, err error) {
		switch {
		case !c.info.Summed():
			f.model, err = f.fitLogistic()
		case c.d.Large:
			f.model, err = f.fitLarge(f.watch(f.rows, stageFit))
		case c.d.Exact:
			f.model, err = (&kernelFit{f.job, f.d, log}).fit(c.d.Spec, f.weighted(), f.f.s.y)
		default:
			f.sums, err = f.sum()
		}
		return c.d.Rows, err
	})
	if err == nil && f.sums != nil {
		err = log.timed(stageSolve, c.d.Rows, f.fitSums)
	}
	if err == nil {
		f.noteRaised(c.d.Lambda)
	}
	return f, err
}

// fitSums makes the model of the sums of all rows.
func (f *final) fitSums() error {
	total, err := f.sums.merged(-1)
	if err != nil {
		return err
	}
	lambda := f.d.Lambda
	if f.d.Open {
		if lambda, err = f.openPenalty(total); err != nil {
			return err
		}
		f.d.Lambda = lambda
	}
	return f.solve(total, lambda)
}

// openPenalty settles λ by the sums of all rows.
func (f *final) openPenalty(total machine.Sums) (float64, error) {
	path, ok := total.(pather)
	if !ok { // the table of kinds claims more than the kind implements
		return 0, fmt.Errorf("sums of a %s model know nothing of penalties: %w", f.kind, machine.ErrSetup)
	}
	ch, err := pathPenalty(path, f.info.Bayesian, f.d.Lambda, f.outputs)
	f.choices = append(slices.Clip(f.choices), ch)
	return ch.Number, err
}

// solve takes the model of the sums of all rows with penalty λ.
func (f *final) solve(total machine.Sums, lambda float64) (err error) {
	if f.model, err = solvedBy(total, lambda, f.o.Lambda > 0); err != nil {
		return err
	}
	return f.noteSaturation(total)
}

// solvedBy returns the model of the sums with penalty λ, or with a larger penalty if the sums are singular.
func solvedBy(s machine.Sums, lambda float64, given bool) (*machine.Model, error) {
	return raised(lambda, given, s.Model)
}

// restore returns the model to the original units of its targets and stores the columns in it.
func (f *final) restore() {
	restore(f.model, f.schema.Targets)
	f.model.Schema = f.schema
}

// sum adds all rows to the sums of their folds. Rows that a checkpoint already contains are read, hashed and skipped.
// The number of rows must equal that of the sampling pass. Folds and sample are defined by row numbers, so a changed
// count means that the table changed between passes.
func (f *final) sum() (*foldSums, error) {
	l := newLeaves(f.src)
	rows, err := f.trainingRows(l.source(f.src))
	if err != nil {
		return nil, err
	}
	var sums *foldSums
	if f.was != nil && f.was.sums != nil {
		if sums = f.was.sums; sums.leaves != nil {
			sums.leaves.of = l
		}
	} else {
		setup, err := f.d.setup(f.job)
		if err != nil {
			return nil, err
		}
		folds := 1
		if f.task == machine.Unsupervised || !f.plain() && f.d.Rows > int64(f.d.Sampled) {
			folds = f.f.folds
		}
		if sums, err = newFoldSums(f.kind, setup, folds, f.deal); err != nil {
			return nil, err
		}
		sums.along(l)
	}
	f.file.adds(sums)
	seen := int64(0)
	err = f.file.checked(f.watch(rows, stageFit)).Each(f.o.Block, func(x, y matrix) error {
		skip := min(max(sums.rows-seen, 0), int64(x.Rows))
		seen += int64(x.Rows)
		if skip == int64(x.Rows) {
			return nil
		}
		if y.Cols > 0 {
			y = y.RowRange(int(skip), y.Rows)
		}
		if err := sums.add(x.RowRange(int(skip), x.Rows), y); err != nil {
			return err
		}
		f.file.save(false)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if seen != f.d.Rows || sums.rows != seen {
		return nil, fmt.Errorf("%s: %d rows now, %d before: the table changed while it was read: %w", f.src.Name(), seen,
			f.d.Rows, machine.ErrMismatch)
	}
	if err := sums.flush(); err != nil {
		return nil, err
	}
	f.file.save(true)
	return sums, nil
}

// noteRaised corrects the reported choice of λ if the model has a larger one.
func (f *final) noteRaised(from float64) {
	to := f.model.Lambda
	if from == to {
		return
	}
	f.choices = slices.Clone(f.choices)
	for i := range f.choices {
		if ch := &f.choices[i]; ch.Name == "lambda" {
			ch.Why += fmt.Sprintf("; raised from %s, with which the features of all rows are singular up to rounding",
				short(from))
			ch.Number, ch.Value = to, short(to)
		}
	}
}

// noteSaturation warns of variances that are too small. It looks at all rows, because the degrees of freedom grow with
// them: the features that were enough on the sample may be too few. A number of features set by the caller is never
// raised.
func (f *final) noteSaturation(total machine.Sums) error {
	path, ok := total.(pather)
	if !ok || !f.info.Bayesian {
		return nil
	}
	at, err := path.Path([]float64{f.model.Lambda})
	if err != nil {
		return err
	}
	if used := at[0].Saturation; used > machine.Saturated {
		f.log.note("%.0f %% of the features are used up: variances are too small, at 50 %% by about half; use more features",
			100*used)
	}
	return nil
}

// leaver is implemented by sums that predict rows as if these were not in the sums: machine.Ridge.
type leaver interface {
	LeftOut(x, y matrix, lambda float64) (matrix, []float64, error)
}

// leavesOut reports whether the sums of all rows predict each row without itself, so that folds need no sums of their
// own.
func (f *final) leavesOut() bool {
	return f.info.LeastSquares && f.info.Summed() && f.plain()
}

// state predicts rows with models that have not seen them, and states from them what the fit reports.
func (f *final) state() (s stated, err error) {
	if err := f.ctx.Err(); err != nil {
		return s, err
	}
	all, err := f.unseen()
	if err == nil && len(all) > 0 && len(all[0].rows) == 0 {
		all, err = nil, f.noEarlier()
	}
	if err != nil || len(all) == 0 {
		return s, err
	}
	of := *f.f
	of.job = f.job
	if f.task == machine.Unsupervised {
		s, err = of.stateDensity(f.model, all)
	} else {
		s, err = of.state(f.model, all, f.log)
	}
	if err == nil && len(s.scores) > 0 {
		if s.on = f.scoredOn(all); f.o.Compare {
			s.compared, err = of.compare(f.model, all, f.log)
		}
	}
	return s, err
}

// enoughRows is the number of rows that states the score if every further fold needs its own fit.
const enoughRows = 400

// nestedRows is the number of rows below which the best of many candidates looks better out of fold than it is: every
// fold is then predicted by candidates that were chosen without it.
var nestedRows = 240

// unseen predicts rows of the frame by models of the final settings that have not seen them.
func (f *final) unseen() ([]unseen, error) {
	switch {
	case f.o.Folds == 1 && f.task != machine.Unsupervised:
		return nil, nil
	case f.d.Exact && f.f.s.len() < nestedRows && f.f.cross == nil && f.chose() && f.o.Folds > 1:
		return f.nested()
	case f.d.Exact && f.f.s.len() <= f.budget().rows:
		return f.trialAgain()
	case f.d.Exact:
		return f.eachFold((&kernelFit{f.job, f.d, nil}).without)
	case f.d.Large:
		return f.eachFold(f.largeWithout)
	case !f.info.Summed():
		return f.eachFold(f.logisticWithout)
	case f.leavesOut() && !f.o.Compare: // simpler methods are fitted without a fold
		return f.leftOut()
	}
	return f.foldsOut()
}

// chose reports whether some choice was between alternatives.
func (f *final) chose() bool {
	return slices.ContainsFunc(f.d.Choices, func(ch Choice) bool { return !ch.Given && len(ch.Trials) > 1 })
}

// trialAgain returns the predictions of the chosen trials, which a resumed fit repeats.
func (f *final) trialAgain() ([]unseen, error) {
	outs := f.d.out
	if outs == nil {
		e := newEvaluator(f.f)
		for _, m := range f.d.Members {
			ts, err := e.evaluate(f.ctx, m.Candidate)
			if err != nil {
				return nil, err
			}
			if len(ts) == 0 {
				return f.eachFold((&kernelFit{f.job, f.d, nil}).without)
			}
			outs = scaledOuts(outs, ts[0].out, m.Share)
		}
	}
	return f.f.unseenOf(outs), nil
}

// eachFold predicts folds, each by a fit of its own, until there are enough rows.
func (f *final) eachFold(fit func(of *frame, deal, fold int) (matrix, []int, error)) ([]unseen, error) {
	u := unseen{folds: f.f.folds}
	var pred []float64
	ks := seq(f.f.folds)
	if f.f.s.ordered {
		slices.Reverse(ks) // the last period first: its fit is closest to that of all rows
	}
	for _, k := range ks {
		if len(u.rows) >= enoughRows && f.plain() && f.enoughClasses(u) {
			break
		}
		p, held, err := fit(f.f, 0, k)
		if err != nil {
			return nil, fmt.Errorf("cross-validation without fold %d: %w", k+1, err)
		}
		for at, i := range held {
			u.rows, u.fold = append(u.rows, i), append(u.fold, k)
			pred = append(pred, p.Row(at)...)
		}
	}
	if len(u.rows) == 0 {
		return nil, f.noEarlier()
	}
	cols := len(pred) / len(u.rows)
	u.pred = matrix{Rows: len(u.rows), Cols: cols, Stride: cols, Data: pred}
	return []unseen{u}, nil
}

// leastBefore is the number of rows that must precede a period that is scored a horizon ahead.
const leastBefore = 20

func (f *final) noEarlier() error {
	if f.deal.horizon == 0 {
		return nil
	}
	return fmt.Errorf("%s: a horizon of %g in %s leaves fewer than %d rows before every stretch that is scored: give a "+
		"smaller one: %w", f.src.Name(), f.deal.horizon, f.o.Marks.Time, leastBefore, machine.ErrNoRows)
}

// enoughClasses reports whether enough rows of all weighted classes were predicted.
func (f *final) enoughClasses(u unseen) bool {
	if f.o.ClassWeights == nil {
		return true
	}
	count := make([]int, f.outputs)
	for _, i := range u.rows {
		count[int(f.f.s.y.At(i, 0))]++
	}
	return slices.Min(count) >= 100
}

// nested predicts every fold by a model of the other rows whose choices were made on the other rows.
func (f *final) nested() ([]unseen, error) {
	var all []unseen
	for r := range min(len(f.f.fold), max(1, nestedRepeats/f.f.s.len())) {
		out := dense.New[float64](f.f.s.len(), f.outputs)
		for i := range out.Data {
			out.Data[i] = math.NaN()
		}
		for k := range f.f.folds {
			held, from := f.f.rows(r, k)
			if len(held) == 0 || len(from) < 2 {
				continue
			}
			pred, err := f.f.nestedFold(held, from)
			if err != nil {
				return nil, fmt.Errorf("cross-validation without fold %d: %w", k+1, err)
			}
			for at, i := range held {
				copy(out.Row(i), pred.Row(at))
			}
		}
		u := f.f.unseenOf([]matrix{out})
		for at, i := range u[0].rows {
			u[0].fold[at] = f.f.fold[r][i]
		}
		all = append(all, u[0])
	}
	return all, nil
}

// Nested fits are repeated for nestedRepeats/n deals of the rows to folds.
const nestedRepeats = 200
