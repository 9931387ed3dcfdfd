package tabular

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// finish fits all rows with the settings of the decision, calibrates the model and has it scored.
//
// An open λ is settled here: for regression by the sums, before any model of a fold is made; for classes by the errors
// in one more pass. A density takes this pass even if no score was requested. Its quantiles make anomalies comparable,
// and they must come from held-out rows, because every row raises the density at its own place.
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
			if err == nil {
				err = f.calibrateModel(m, s, nil)
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
	if err := f.calibrateModel(m, s, total); err != nil {
		return nil, err
	}
	if f.o.Checkpoint == "" {
		f.sums = nil // the memory is wanted
	}
	return m, f.scoreNested()
}

// sum adds all rows to the sums of their folds. Rows that a checkpoint already contains are read, hashed and skipped.
// The number of rows must equal that of the sampling pass. Folds and sample are defined by row numbers, so a changed
// count means that the table changed between passes.
func (f *fit) sum() error {
	l := newLeaves(f.src)
	rows, err := f.trainingRows(l.source(f.src))
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
		if f.calibrates() && f.info.LeastSquares && (f.deal.grouped() || f.deal.ordered()) &&
			f.decision.Rows > int64(f.decision.Sampled) {
			folds = f.innerFolds(f.decision.Rows) // no row can be left out alone
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
		f.save(false)
		return nil
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
	f.save(true)
	return nil
}

// fitExact solves for all rows.
func (f *fit) fitExact(s *sample) (*machine.Model, error) {
	m, err := f.solveExact(s, f.decision.Spec, f.decision.Lambda)
	if err == nil {
		f.noteRaised(f.decision.Lambda, m.Lambda)
	}
	return m, err
}

// solveExact is the exact kernel of all rows of a sample. A λ that more rows than the search had make too small is
// raised, as that of sums is.
func (f *fit) solveExact(s *sample, spec randfeat.Spec, lambda float64) (*machine.Model, error) {
	if f.iterates(s.len()) {
		if m, err := f.fitIterative(f.setup(spec), s.x, s.y, lambda); m != nil || err != nil {
			return m, err
		}
	}
	fit := machine.FitExact
	if f.decision.Margins {
		fit = machine.FitMargins
	}
	for k := range mostRaises + 1 {
		m, err := fit(f.setup(spec), s.x, s.y, lambda*math.Pow(10, float64(k)/2))
		if !errors.Is(err, machine.ErrSingular) || f.o.Lambda > 0 || k == mostRaises {
			return m, err
		}
	}
	panic("unreachable")
}

// drawn are the projections of the decision: drawn from its seed, or landmarks, which are rows.
func (f *fit) drawn() ([]coupling.Omega, error) {
	if !family.InfoOf(f.decision.Spec.Family).KernelColumns {
		return randfeat.Draw(f.decision.Spec)
	}
	if f.decision.marks == nil {
		return nil, fmt.Errorf("no landmarks: %w", machine.ErrCorrupt)
	}
	return f.decision.marks, nil
}

// solved returns the model of the sums with penalty λ. If the system is singular up to rounding, it raises λ to the
// next step of the half-decade grid. A λ that suits some rows may be too small for others, whose pivots are zero up to
// rounding. A given λ is never raised: the error is returned.
func (f *fit) solved(s machine.Sums, lambda float64) (*machine.Model, error) {
	for k := range mostRaises + 1 {
		m, err := s.Model(lambda * math.Pow(10, float64(k)/2))
		if !errors.Is(err, machine.ErrSingular) || f.o.Lambda > 0 || k == mostRaises {
			return m, err
		}
	}
	panic("unreachable")
}

// noteRaised corrects the choice of a λ that solved did not take.
func (f *fit) noteRaised(from, to float64) {
	if from == to {
		return
	}
	f.report.Choices = slices.Clone(f.report.Choices)
	for i := range f.report.Choices {
		if ch := &f.report.Choices[i]; ch.Name == "lambda" {
			ch.Why += fmt.Sprintf("; raised from %s, with which the features of all rows are singular up to rounding",
				short(from))
			ch.Number, ch.Value = to, short(to)
		}
	}
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

// fitLogistic fits all rows, from where a checkpoint left off: the points and gradients of L-BFGS after a whole step. A
// step that was interrupted is done again, from the same numbers.
func (f *fit) fitLogistic(rows machine.Rows) (*machine.Model, error) {
	m, rep, err := machine.FitLogistic(f.setup(f.decision.Spec), f.checked(rows),
		machine.LogisticOptions{Lambda: f.decision.Lambda, Start: f.logistic,
			Step: func(at *machine.LogisticState) error {
				f.logistic = at
				f.progress("steps", int64(at.Iterations), 0)
				if err := f.ctx.Err(); err != nil {
					return err
				}
				f.save(false)
				return nil
			}})
	if err != nil {
		return nil, err
	}
	if !rep.Converged {
		f.note("logistic regression stopped after %d steps with a gradient of %.2g: a larger λ converges sooner",
			rep.Iterations, rep.Gradient)
	}
	return m, nil
}

// fitLarge solves by conjugate gradients, and says what that took.
func (f *fit) fitLarge(rows machine.Rows) (*machine.Model, error) {
	if !f.fitsMemory(rows) {
		f.note("the table is read again in every pass: it has more than %d numbers", heldCells)
	}
	m, done, err := f.solveLarge(rows, f.decision.Rows)
	if err != nil {
		return nil, err
	}
	f.note("%d features by conjugate gradients: %d passes over the rows, residual %.1g, a preconditioner of %d rows, %d "+
		"MiB; a factorisation would need %d MiB", m.Weights.Rows, done.Steps+1, done.Residual, done.Sketch,
		done.Bytes>>20, 16*int64(m.Weights.Rows)*int64(m.Weights.Rows)>>20)
	if !done.Converged {
		f.note("conjugate gradients have not converged: the weights are between those of this λ and of a larger one; give a "+
			"larger λ than %s", short(f.decision.Lambda))
	}
	return m, nil
}

// solveLarge fits n rows by conjugate gradients.
func (f *fit) solveLarge(rows machine.Rows, n int64) (*machine.Model, machine.Iterations, error) {
	if f.fitsMemory(rows) {
		var err error
		if rows, err = f.inMemory(rows, int(n)); err != nil {
			return nil, machine.Iterations{}, err
		}
	}
	return machine.FitIterative(f.setup(f.decision.Spec), rows, f.decision.Lambda, machine.Iterative{
		Tolerance: largeTolerance, Steps: largeSteps, Sketch: largeSketch,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}})
}

// fitsMemory reports whether passes over the rows are made in memory.
func (f *fit) fitsMemory(rows machine.Rows) bool {
	return f.decision.Rows <= heldCells/int64(rows.Dim()+rows.Outputs())
}

// inMemory are n rows in memory.
func (f *fit) inMemory(rows machine.Rows, n int) (machine.Rows, error) {
	x, y, at := dense.New[float64](n, rows.Dim()), dense.New[float64](n, rows.Outputs()), 0
	err := rows.Each(f.o.Block, func(bx, by dense.Matrix[float64]) error {
		for i := range bx.Rows {
			if at == n {
				return fmt.Errorf("%s: more than the %d rows that were there before: %w", f.src.Name(), n,
					machine.ErrMismatch)
			}
			copy(x.Row(at), bx.Row(i))
			copy(y.Row(at), by.Row(i))
			at++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return machine.MatrixRows(x.RowRange(0, at), y.RowRange(0, at))
}

// largeSketch are the rows of the preconditioner; 0: the usual number. A variable for tests with fewer.
var largeSketch = 0

// heldCells is how many numbers of a table are kept for passes of conjugate gradients, 1 GiB: a larger table is read
// again in every one.
const heldCells = 1 << 27
