package tabular

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// Fit fits a model to a table. It reads the table several times: once to learn the columns, once to draw a sample for
// the choices, once to fit, and all of this again to score.
//
// Memory does not grow with the number of rows, with one exception: an exact kernel of at most 12,000 rows (20,000 with
// Marks) needs 8n² bytes. Least squares on features holds 3 matrices of 8F² bytes, or 2K + 3 if folds choose λ, besides
// the sample with its features and a few blocks (docs/machines.md, "Memory").
//
// The same table, options and seed give the same model at any GOMAXPROCS.
func Fit(ctx context.Context, src data.Source, o Options) (*machine.Model, *Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	f := &fit{job: &job{ctx: ctx, src: src, o: o, weighs: o.Schema == nil}}
	began := time.Now()
	m, err := par.Result(o.Workers, f.run)
	if err != nil {
		if stop := ctx.Err(); stop != nil && errors.Is(err, stop) {
			err = errors.Join(err, f.write()) // all that was done until now
		}
		return nil, nil, err
	}
	f.report.Seconds = time.Since(began).Seconds()
	return m, &f.report, nil
}

// fit is one run through the stages: a job and its results so far. A checkpoint holds schema, summary, decision, and
// sums or logistic.
type fit struct {
	*job
	decision *decision
	sums     *foldSums              // of kinds whose rows add up
	logistic *machine.LogisticState // of the others; nil: not begun
	scored   scored
	report   Report
	file     checkpoint
	chose    *chose // what begin found; nil: not begun

	by     *prior // choices to take, if they can be taken
	shared *prior // choices for two folds that are scored
	apart  *begun // the fit without the first fold that is scored, if its choices serve all rows
	twin   bool   // it has the settings of another fit, whose probabilities its held rows calibrate
}

// begun is a fit whose choices are made.
type begun struct {
	*job
	decision *decision
	chose    *chose
}

// chose are the rows and the sample of a fit whose choices are made.
type chose struct {
	rows machine.Rows
	s    *sample // nil: not needed any more
}

// scored is what is known of rows that were held out, by model: of several, each has predicted its own.
type scored struct {
	held      *held             // of models of the final settings; nil where they calibrated themselves
	left      *leftOut          // rows out of fold by the final settings, of a regression
	residuals machine.Residuals // the same by a model of the final settings without a fold, in original units
	spread    spread            // residuals of all models
	evals     []*machine.Evaluation
	groups    groupResiduals      // residuals by the group that intervals go by
	simple    *baselines          // to compare with; nil: not asked for
	half      *machine.Evaluation // the same rows by models of half as many
	uncurved  bool                // half is incomplete: scores stay those of fewer rows
}

// run executes the stages. A checkpoint exists only after all choices are made, so a resumed fit starts with the fit of
// all rows. It draws the same sample again only if the nested score needs it.
func (f *fit) run() (*machine.Model, error) {
	if f.chose == nil {
		if err := f.begin(); err != nil {
			return nil, err
		}
	}
	f.report = Report{Source: f.src.Name(), Summary: f.summary, Rows: f.decision.Rows, Width: f.schema.Width(),
		Kind: f.kind, Task: f.task, Outputs: f.outputs,
		Choices: f.decision.Choices, Notes: append(f.report.Notes, f.decision.Notes...), Seed: f.o.Seed,
		Stages: f.report.Stages, Resumed: f.report.Resumed}
	m, err := f.finish(f.chose.rows, f.chose.s)
	if err != nil {
		return nil, err
	}
	if err := f.state(m); err != nil {
		return nil, err
	}
	restore(m, f.schema.Targets)
	m.Schema = f.schema
	if err := f.setGroups(m); err != nil {
		return nil, err
	}
	if f.report.Metric = f.decision.Metric; len(f.report.Scores) > 0 || f.report.Metric != nil {
		m.History = &machine.History{Scores: f.report.Scores, ScoredOn: f.report.ScoredOn, Metric: f.report.Metric}
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// begin goes as far as all choices.
func (f *fit) begin() error {
	if f.deal == nil {
		var m *data.Marks
		if len(f.o.Marks.Names()) > 0 {
			var err error
			src := watchedSource{Source: f.src, ctx: f.ctx, report: func(int64) {}}
			if m, err = data.ReadMarks(src, f.o.Marks); err != nil {
				return err
			}
		}
		m, err := f.settleRows(m)
		if err != nil {
			return err
		}
		f.deal = newDealer(f.o.Seed, m)
		f.deal.horizon = f.o.Horizon
	}
	f.weigh()
	if err := f.deal.settle(f.src.Name(), &f.o, f.inner); err != nil {
		return err
	}
	resumed, err := f.resume()
	if err != nil {
		return err
	}
	if !resumed {
		if err := f.stage(stageLearn, f.learn); err != nil {
			return err
		}
	}
	if err := f.settle(); err != nil {
		return err
	}
	if err := f.checkIntervalBy(); err != nil {
		return err
	}
	rows, err := f.trainingRows(f.src)
	if err != nil {
		return err
	}
	if err := f.weighClasses(rows); err != nil {
		return err
	}
	if resumed {
		if err := f.resumeCodes(); err != nil {
			return err
		}
		if rows, err = f.trainingRows(f.src); err != nil {
			return err
		}
	}
	var s *sample
	var n int64
	if !resumed || f.decision.Exact || f.info.Summed() && f.o.Folds > 1 && f.task != machine.Unsupervised {
		err := f.stage(stageSample, func() (_ int64, err error) {
			s, n, err = f.take(f.watch(rows, stageSample))
			return n, err
		})
		if err != nil {
			return err
		}
	}
	if !resumed {
		err := f.stage(stageChoose, func() (int64, error) {
			s, err = f.decide(s, n)
			return int64(s.len()), err
		})
		if err != nil {
			return err
		}
		if rows, err = f.trainingRows(f.src); err != nil {
			return err
		}
		f.save(true) // at once: a kill would lose all choices
	}
	f.chose = &chose{rows, s}
	return nil
}

// state calibrates the model by rows that were held out, and puts their scores into the report and the model.
func (f *fit) state(m *machine.Model) error {
	if len(f.scored.evals) == 0 {
		return nil
	}
	parts, err := f.calibrate(m, f.scored.held, f.scored.evals)
	if err != nil {
		return err
	}
	scoresOf := machine.ScoresOfModels
	if f.deal.grouped() {
		scoresOf = machine.ScoresOfGroups
	}
	e, scores, err := scoresOf(parts)
	if err != nil {
		return err
	}
	f.report.Scores, f.report.Confusion = f.extrapolated(scores), e.Confusion()
	if f.task == machine.Regression {
		m.Residuals = f.residuals().Quantiles()
	}
	return nil
}

// stage runs a part of the work and notes its time.
func (f *fit) stage(name string, work func() (rows int64, err error)) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if name != stageChoose { // which counts trials
		f.progress(name, 0, f.total())
	}
	began := time.Now()
	rows, err := work()
	f.report.Stages = append(f.report.Stages, Stage{Name: name, Seconds: time.Since(began).Seconds(), Rows: rows})
	return err
}

// total is the number of rows, 0 if it is not known yet.
func (f *fit) total() int64 {
	switch {
	case f.decision != nil:
		return f.decision.Rows
	case f.summary != nil:
		return f.summary.Rows
	}
	return 0
}

func (f *fit) note(format string, args ...any) {
	f.report.Notes = append(f.report.Notes, fmt.Sprintf(format, args...))
}

// watch are the rows with standardised targets, whose reading can be cancelled and reports its progress.
func (f *fit) watch(rows machine.Rows, stage string) machine.Rows {
	w := watched{Rows: rows, weights: f.weights, ctx: f.ctx, report: func(done int64) {
		f.progress(stage, done, f.total())
	}}
	if f.task == machine.Regression {
		w.targets = f.schema.Targets
	}
	return w
}

func (f *fit) scoreNested() error {
	if !f.nests() {
		return nil
	}
	return f.stage(stageScore, func() (int64, error) { return f.decision.Rows, f.nested() })
}
