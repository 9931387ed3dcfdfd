package tabular

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// final is the result of the fit of all rows.
type final struct {
	*chosen
	log     *journal
	file    *checkpoint
	model   *machine.Model
	choices []Choice // choices of the decision, and choices made on all rows
	left    *leftOut // out-of-fold predictions by the final settings, for a regression; nil: none
	stated  stated   // scores of a density that is not scored by refits
}

// fitAll fits all rows with the settings of the decision, and calibrates the model.
//
// An open λ is settled here: for regression by the sums, before any model of a fold is made; for classes by the errors
// in one more pass. A density takes this pass even if no score was requested. Its quantiles make anomalies comparable,
// and they must come from held-out rows, because every row raises the density at its own place.
func fitAll(c *chosen, log *journal, file *checkpoint) (*final, error) {
	f := &final{chosen: c, log: log, file: file, choices: c.d.Choices}
	var sums *foldSums
	err := log.stage(c.job, stageFit, func() (n int64, err error) {
		switch {
		case !c.info.Summed():
			f.model, err = f.fitLogistic()
		case c.d.Exact || c.d.Large:
			if err = c.chain(); err != nil {
				break
			}
			if f.model, err = f.fitExact(); err == nil {
				err = f.calibrate(nil, nil)
			}
		default:
			sums, err = f.sum()
		}
		return c.d.Rows, err
	})
	if err == nil && sums != nil {
		err = f.fitSums(sums)
	}
	return f, err
}

// fitSums makes the model of the sums of all rows.
func (f *final) fitSums(sums *foldSums) error {
	var total machine.Sums
	lambdas := []float64{f.d.Lambda}
	err := f.log.timed(stageSolve, f.d.Rows, func() (err error) {
		if total, err = sums.merged(-1); err == nil && f.d.Open {
			lambdas, err = f.openPenalty(total)
		}
		return err
	})
	if err != nil {
		return err
	}
	var quantiles []float64
	if len(lambdas) > 1 || f.task == machine.Unsupervised {
		err := f.log.stage(f.job, stageScore, func() (n int64, err error) {
			lambdas[0], quantiles, err = f.scoreSums(sums, lambdas)
			return f.d.Rows, err
		})
		if err != nil {
			return err
		}
	}
	return f.log.timed(stageSolve, f.d.Rows, func() error {
		if err := f.solve(total, lambdas[0]); err != nil {
			return err
		}
		f.model.Quantiles = quantiles
		return f.calibrate(sums, total)
	})
}

// solve takes the model of the sums of all rows with penalty λ.
func (f *final) solve(total machine.Sums, lambda float64) (err error) {
	if f.model, err = solved(total, lambda, f.o.Lambda > 0); err != nil {
		return err
	}
	f.noteRaised(lambda)
	return f.noteSaturation(total)
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
		if f.task == machine.Unsupervised || f.d.Open && f.task == machine.Classification {
			folds = f.innerFolds(f.d.Rows) // rows held out calibrate the one and choose λ for the other
		}
		if f.calibrates() && f.info.LeastSquares && (f.deal.grouped() || f.deal.ordered()) &&
			f.d.Rows > int64(f.d.Sampled) {
			folds = f.innerFolds(f.d.Rows) // no row can be left out alone
		}
		if sums, err = newFoldSums(f.kind, setup, folds, f.deal); err != nil {
			return nil, err
		}
		sums.along(l)
	}
	f.file.adds(sums)
	seen := int64(0)
	err = f.file.checked(f.watch(rows, stageFit)).Each(f.o.Block, func(x, y dense.Matrix[float64]) error {
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

// fitExact solves for all rows, with the exact kernel or with more features than sums can have.
func (f *final) fitExact() (*machine.Model, error) {
	if f.d.Large {
		return f.fitLarge(f.watch(f.rows, stageFit))
	}
	m, err := f.solveExact(f.s, f.d.Spec, f.d.Lambda)
	if err == nil {
		f.model = m
		f.noteRaised(f.d.Lambda)
	}
	return m, err
}

// solveKernel fits one exact kernel to all rows of a sample. The search had fewer rows, so λ may be too small for all
// of them; solveKernel raises it then, as fitSums does.
func (f *final) solveKernel(s *sample, spec randfeat.Spec, lambda float64) (*machine.Model, error) {
	var start *machine.Start
	if s == f.s {
		var err error
		if start, err = f.start(); err != nil {
			return nil, err
		}
	}
	if f.iterates(s.len()) || f.conjugates(s.len(), lambda) {
		setup := f.setup(spec)
		setup.Start = start
		if m, err := f.fitIterative(setup, s.x, s.y, lambda); m != nil || err != nil {
			return m, err
		}
	}
	setup := f.setup(spec)
	setup.Margins, setup.Start = f.d.Margins, start
	return raised(lambda, f.o.Lambda > 0, func(l float64) (*machine.Model, error) {
		return machine.FitExact(setup, s.x, s.y, l)
	})
}

// solved returns the model of the sums with penalty λ, or with a larger penalty if the sums are singular.
func solved(s machine.Sums, lambda float64, given bool) (*machine.Model, error) {
	return raised(lambda, given, s.Model)
}

// raised solves with penalty λ. If the system is singular up to rounding, it raises λ to the next step of the
// half-decade grid. A λ that suits some rows may be too small for others, whose pivots are zero up to rounding. A given
// λ is never raised: the error is returned.
func raised(lambda float64, given bool, solve func(float64) (*machine.Model, error)) (*machine.Model, error) {
	for k := 0; ; k++ {
		m, err := solve(lambda * math.Pow(10, float64(k)/2))
		if !errors.Is(err, machine.ErrSingular) || given || k == mostRaises {
			return m, err
		}
	}
}

// fitIterative is machine.FitExact by conjugate gradients. If they do not converge, it returns no model, and the caller
// factors the kernel matrix. If there are too many rows for that, it raises λ tenfold. All attempts together take at
// most 2·iterativeSteps products with the kernel matrix: iterativeSteps products of one output take about as long as a
// factorisation of 20,000 rows, fewProducts as long as one of fewer rows.
func (f *final) fitIterative(s machine.Setup, x, y dense.Matrix[float64], lambda float64) (*machine.Model, error) {
	s.Margins = f.d.Margins
	o, most := machine.Iterative{Tolerance: f.d.tolerance(mostTolerance), Sketch: largeSketch, Memory: f.o.Memory,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}}, iterativeSteps
	spare := float64(slack)
	if !f.iterates(x.Rows) {
		o.Tolerance, most, spare = f.d.tolerance(fewTolerance), fewProducts(x.Rows), 2
		if f.o.Quick {
			o.Tolerance, spare = quickTolerance*o.Tolerance, slack/quickTolerance
		}
	}
	for used := 0; ; lambda *= 10 {
		o.Steps = min(most, 2*iterativeSteps-used)
		m, done, err := machine.FitExactIterative(s, x, y, lambda, o)
		if err != nil && !errors.Is(err, machine.ErrSingular) {
			return nil, err
		}
		used += cmp.Or(done.Steps, 1)
		solved := err == nil && (done.Converged || f.d.Margins || done.Residual <= spare*o.Tolerance)
		if !solved && x.Rows <= min(exactRows, f.factoredRows()) {
			f.noteOnce("λ = %s is too small for conjugate gradients (residual %.1g after %d products): the kernel "+
				"matrix was factored", short(lambda), done.Residual, done.Steps)
			runtime.GC() // the kernels
			return nil, nil
		}
		if !solved && f.o.Lambda == 0 && used < 2*iterativeSteps {
			continue
		}
		if err == nil && f.iterates(x.Rows) {
			f.noteOnce("the exact kernel by conjugate gradients: %d products (at most %d), residual %.1g, %d "+
				"landmarks, %d MiB; a factorisation would need %d MiB", done.Steps, 2*iterativeSteps, done.Residual,
				done.Sketch, done.Bytes>>20, 8*int64(x.Rows)*int64(x.Rows)>>20)
			if !solved {
				f.noteOnce("conjugate gradients have not converged: the weights are between those of this λ and of a "+
					"larger one; give a larger λ than %s", short(lambda))
			}
		}
		return m, err
	}
}

// noteOnce adds a note about the fit of all rows. Fits of folds add none.
func (f *final) noteOnce(format string, args ...any) {
	if !f.inner {
		f.log.note(format, args...)
	}
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
// them: the features that moreFeatures found enough on the sample may be too few. A number of features set by the
// caller is never raised.
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

// fitLogistic fits all rows. It continues from a checkpoint, which holds the points and gradients of L-BFGS after a
// whole step. An interrupted step is repeated from the same numbers.
func (f *final) fitLogistic() (*machine.Model, error) {
	o := machine.LogisticOptions{Lambda: f.d.Lambda, Step: func(at *machine.LogisticState) error {
		f.progress("steps", int64(at.Iterations), 0)
		f.file.steps(at)
		if err := f.ctx.Err(); err != nil {
			return err
		}
		f.file.save(false)
		return nil
	}}
	if f.was != nil {
		o.Start = f.was.logistic
	}
	m, rep, err := machine.FitLogistic(f.setup(f.d.Spec), f.file.checked(f.watch(f.rows, stageFit)), o)
	if err == nil && !rep.Converged {
		f.log.note("logistic regression stopped after %d steps with a gradient of %.2g: a larger λ converges sooner",
			rep.Iterations, rep.Gradient)
	}
	return m, err
}

// fitLarge solves by conjugate gradients and notes the number of passes, the residual and the memory.
func (f *final) fitLarge(rows machine.Rows) (*machine.Model, error) {
	if !f.fitsMemory(rows) {
		f.log.note("the table is read again in every pass: it has more than %d numbers", heldCells)
	}
	m, done, err := f.solveLarge(rows, f.d.Rows)
	if err != nil {
		return nil, err
	}
	f.log.note("%d features by conjugate gradients: %d passes over the rows, residual %.1g, a preconditioner of %d rows, %d "+
		"MiB; a factorisation would need %d MiB", m.Weights.Rows, done.Steps+1, done.Residual, done.Sketch,
		done.Bytes>>20, 16*int64(m.Weights.Rows)*int64(m.Weights.Rows)>>20)
	if !done.Converged {
		f.log.note("conjugate gradients have not converged: the weights are between those of this λ and of a larger one; give a "+
			"larger λ than %s", short(f.d.Lambda))
	}
	return m, nil
}

// solveLarge fits n rows by conjugate gradients.
func (f *final) solveLarge(rows machine.Rows, n int64) (*machine.Model, machine.Iterations, error) {
	if f.fitsMemory(rows) {
		var err error
		if rows, err = f.inMemory(rows, int(n)); err != nil {
			return nil, machine.Iterations{}, err
		}
	}
	return machine.FitIterative(f.setup(f.d.Spec), rows, f.d.Lambda, machine.Iterative{
		Tolerance: largeTolerance, Steps: largeSteps, Sketch: largeSketch,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}})
}

// fitsMemory reports whether all rows are kept in memory for the passes over them.
func (f *final) fitsMemory(rows machine.Rows) bool {
	return f.d.Rows <= heldCells/int64(rows.Dim()+rows.Outputs())
}

// inMemory reads n rows into memory.
func (f *final) inMemory(rows machine.Rows, n int) (machine.Rows, error) {
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

// largeSketch is the number of rows of the preconditioner; 0 means the default. It is a variable for tests.
var largeSketch = 0

// heldCells is the largest number of matrix elements that are kept in memory for the passes of conjugate gradients, 1
// GiB. A larger table is read again in every pass.
const heldCells = 1 << 27
