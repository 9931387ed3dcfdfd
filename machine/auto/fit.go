package auto

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// Fit reads a table several times and fits a model to it: once to learn the columns, once to draw a sample on which the
// choices are made, once to fit, and all of it again to score. Memory does not grow with the number of rows beyond the
// 8n² bytes of an exact kernel of at most 20,000: least squares on features holds 3 matrices of 8F² bytes, 2K + 3 where
// folds choose λ, besides the sample with its features and a few blocks (docs/machines.md, "Memory").
//
// The same table, options and seed give the same model, at any GOMAXPROCS.
func Fit(ctx context.Context, src data.Source, o Options) (*machine.Model, *Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	f := &fit{ctx: ctx, src: src, o: o, weighs: o.Schema == nil}
	began := time.Now()
	m, err := f.run()
	if err != nil {
		if stop := ctx.Err(); stop != nil && errors.Is(err, stop) {
			err = errors.Join(err, f.save(true)) // all that was done until now
		}
		return nil, nil, err
	}
	f.report.Seconds = time.Since(began).Seconds()
	return m, &f.report, nil
}

// fit is one call of Fit: what is known so far. A checkpoint holds schema, summary, decision, and sums or logistic.
type fit struct {
	ctx context.Context
	src data.Source
	o   Options // with defaults

	schema  *data.Schema
	summary *data.Summary // nil if the schema was given
	kind    machine.Kind
	info    machine.KindInfo // of kind
	task    machine.Task
	outputs int

	decision *decision
	sums     *foldSums              // of kinds whose rows add up
	logistic *machine.LogisticState // of the others; nil: not begun
	scored   scored
	report   Report
	file     checkpoint
	inner    bool      // it is a part of a cross-validation
	summed   bool      // its rows are elsewhere: sums of them are all that there will be
	weighs   bool      // the columns are its own, and may be given weights
	deal     *dealer   // of rows to folds
	weights  []float64 // of rows, with mean 1, by the table and by their classes; nil: none
	// weightScale is what weights of the table alone are multiplied by.
	weightScale float64
	marks       []coupling.Omega // landmarks, if the map has some
	start       exactPoint       // where a search of an exact kernel may begin, if any
	loss        *Choice          // margins, if they were chosen before all else
	chose       *chose           // what begin found; nil: not begun
	apart       *fit             // the fit without the first fold that is scored, if it has chosen for all rows
	by          *fit             // whose choices are taken, if they can be
	shared      *fit             // that has chosen for two folds that are scored
}

// chose is a fit whose choices are made.
type chose struct {
	rows machine.Rows
	s    *sample // nil: not needed any more
}

// scored is what is known of rows that were held out, by model: of several, each has predicted its own.
type scored struct {
	held      *held             // nil where scores need no calibration
	residuals machine.Residuals // of a regression, in original units
	evals     []*machine.Evaluation
}

// decision is what was chosen on the sample, as plain data with a JSON form: a checkpoint keeps it, and JSON keeps
// every bit of a float64, so a resumed fit has the same map and λ. Projections are not kept: they are drawn again from
// Spec.Seed.
type decision struct {
	Spec    randfeat.Spec `json:"spec"`
	Lambda  float64       `json:"lambda"`
	Open    bool          `json:"open,omitempty"` // all rows will decide on λ, near Lambda
	Choices []Choice      `json:"choices"`
	Notes   []string      `json:"notes,omitempty"`
	Rows    int64         `json:"rows"` // of the table
	Sampled int           `json:"sampled"`
	Last    uint64        `json:"last,omitempty"`    // largest priority of the sampled rows
	Exact   bool          `json:"exact,omitempty"`   // the kernel of all rows, no random features
	Large   bool          `json:"large,omitempty"`   // by conjugate gradients
	Tried   bool          `json:"tried,omitempty"`   // some choice was between alternatives tried on the sample
	Margins bool          `json:"margins,omitempty"` // the loss of an exact kernel: squared hinge
}

// The stages, in order. Their names are part of the report and of checkpoints.
const (
	stageLearn  = "learn columns"
	stageSample = "draw a sample"
	stageChoose = "choose"
	stageFit    = "fit"
	stageScore  = "score"
)

// run goes through the stages. A checkpoint exists only once all choices are made, so a resumed fit begins with the fit
// of all rows; it draws the sample again (the same one) only where the nested score needs it.
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
	if len(f.report.Scores) > 0 {
		m.History = &machine.History{Scores: f.report.Scores, ScoredOn: f.report.ScoredOn}
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
		f.deal = newDealer(f.o.Seed, m)
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
	rows, err := machine.TableRows(f.src, f.schema, f.task != machine.Unsupervised)
	if err != nil {
		return err
	}
	if err := f.weighClasses(rows); err != nil {
		return err
	}
	var s *sample
	var n int64
	if !resumed || f.decision.Exact {
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
			return int64(s.len()), f.decide(s, n)
		})
		if err != nil {
			return err
		}
		if rows, err = machine.TableRows(f.src, f.schema, f.task != machine.Unsupervised); err != nil {
			return err
		}
		if err := f.save(true); err != nil { // at once: a kill would lose all choices
			return err
		}
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
	f.report.Scores, f.report.Confusion = scores, e.Confusion()
	m.Residuals = f.scored.residuals.Quantiles()
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

func (f *fit) progress(stage string, done, total int64) {
	if f.o.Progress != nil {
		f.o.Progress(stage, done, total)
	}
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

// finish fits all rows and scores the model. The order matters where λ is open: regressions settle it on the sums
// before any model of a fold is made, classes by the pass that scores. A density passes over the rows again even if no
// score was asked for: its quantiles, which make anomalies comparable, must be of rows held out, since every row raises
// the density at its own place.
func (f *fit) finish(rows machine.Rows, s *sample) (*machine.Model, error) {
	if !f.info.Summed() {
		var m *machine.Model
		err := f.stage(stageFit, func() (n int64, err error) {
			m, err = f.fitLogistic(f.watch(rows, stageFit))
			return f.decision.Rows, err
		})
		if err != nil {
			return nil, err
		}
		return m, f.scoreNested()
	}
	if f.decision.Exact || f.decision.Large {
		var m *machine.Model
		err := f.stage(stageFit, func() (n int64, err error) {
			if f.decision.Large {
				m, err = f.fitLarge(f.watch(rows, stageFit))
			} else {
				m, err = f.fitExact(s)
			}
			if err == nil && f.decision.Exact && f.o.ClassWeights != nil && !f.deal.ordered() {
				err = f.calibrateExact(m, s)
			}
			return f.decision.Rows, err
		})
		if err != nil {
			return nil, err
		}
		return m, f.scoreNested()
	}
	if err := f.stage(stageFit, func() (int64, error) {
		return f.decision.Rows, f.sum()
	}); err != nil {
		return nil, err
	}
	total, err := f.sums.merged(-1)
	if err != nil {
		return nil, err
	}
	lambdas := []float64{f.decision.Lambda}
	if f.decision.Open {
		if lambdas, err = f.openPenalty(total); err != nil {
			return nil, err
		}
	}
	var quantiles []float64
	if len(lambdas) > 1 || f.task == machine.Unsupervised {
		err := f.stage(stageScore, func() (n int64, err error) {
			lambdas[0], quantiles, err = f.score(f.watch(rows, stageScore), lambdas)
			return f.decision.Rows, err
		})
		if err != nil {
			return nil, err
		}
	}
	m, err := f.solved(total, lambdas[0])
	if err != nil {
		return nil, err
	}
	f.noteRaised(lambdas[0], m.Lambda)
	m.Quantiles = quantiles
	if err := f.noteSaturation(total, m.Lambda); err != nil {
		return nil, err
	}
	if f.o.Checkpoint == "" {
		f.sums = nil // the memory is wanted
	}
	return m, f.scoreNested()
}

// noteSaturation warns of variances that are too small. It looks at all rows: the degrees of freedom grow with them, so
// what moreFeatures found enough on the sample need not be; and a number that was given is never raised.
func (f *fit) noteSaturation(total machine.Sums, lambda float64) error {
	path, ok := total.(pather)
	if !ok || !f.info.Bayesian {
		return nil
	}
	at, err := path.Path([]float64{lambda})
	if err != nil {
		return err
	}
	if used := at[0].Saturation; used > machine.Saturated {
		f.note("%.0f %% of the features are used up: variances are too small, at 50 %% by about half; use more features",
			100*used)
	}
	return nil
}

func (f *fit) scoreNested() error {
	if !f.nests() {
		return nil
	}
	return f.stage(stageScore, func() (int64, error) { return f.decision.Rows, f.nested() })
}

// sum adds all rows to the sums of their folds, but for those that a checkpoint had: these are read, hashed and
// skipped. The number of rows must be that of the sample's pass: folds and the sample are known by row numbers only,
// and a changed count is what shows of a table that changed between passes.
func (f *fit) sum() error {
	l := newLeaves(f.src)
	rows, err := machine.TableRows(l.source(f.src), f.schema, f.task != machine.Unsupervised)
	if err != nil {
		return err
	}
	if f.sums != nil { // of a checkpoint
		if f.sums.leaves != nil {
			f.sums.leaves.of = l
		}
	} else {
		setup := f.setup(f.decision.Spec)
		if setup.Omega, err = f.drawn(); err != nil {
			return err
		}
		folds := 1
		if f.task == machine.Unsupervised || f.decision.Open && f.task == machine.Classification {
			folds = f.innerFolds(f.decision.Rows) // rows held out calibrate the one and choose λ for the other
		}
		if f.sums, err = newFoldSums(f.kind, setup, folds, f.deal); err != nil {
			return err
		}
		f.sums.along(l)
	}
	seen := int64(0)
	err = f.checked(f.watch(rows, stageFit)).Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
		skip := min(max(f.sums.rows-seen, 0), int64(x.Rows))
		seen += int64(x.Rows)
		if skip == int64(x.Rows) {
			return nil
		}
		if y.Cols > 0 {
			y = y.RowRange(int(skip), y.Rows)
		}
		if err := f.sums.add(x.RowRange(int(skip), x.Rows), y); err != nil {
			return err
		}
		return f.save(false)
	})
	if err != nil {
		return err
	}
	if seen != f.decision.Rows || f.sums.rows != seen {
		return fmt.Errorf("%s: %d rows now, %d before: the table changed while it was read: %w", f.src.Name(), seen,
			f.decision.Rows, machine.ErrMismatch)
	}
	if err := f.sums.flush(); err != nil {
		return err
	}
	return f.save(true)
}
