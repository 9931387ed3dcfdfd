package tabular

import (
	"cmp"
	"errors"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

const (
	// Conjugate gradients end where the rest of the residual is missedShare of the error that the choice measured out
	// of fold: residuals bound by how much more steps can change predictions of the rows of the fit. It is at least
	// leastTolerance and at most mostTolerance, in units of the targets.
	missedShare    = 0.03
	leastTolerance = 3e-4
	mostTolerance  = 5e-3
	// slack times the tolerance is a residual that is taken after iterativeSteps; a larger one means that the setting
	// cannot be solved by them.
	slack = 10
	// widestWide is the largest bandwidth of such a search, in median distances.
	widestWide = 8
)

// leastPenalty is the smallest λ that conjugate gradients of n rows are tried with: kernels are rounded to 2⁻²⁴, which
// moves the eigenvalues of K by about √n·2⁻²⁴, and by more where roundings are alike.
func leastPenalty(n int) float64 { return float64(n) * 0x1p-27 }

// tolerance is the residual at which conjugate gradients end.
func (d *decision) tolerance() float64 {
	if d.Missed == 0 {
		return iterativeTolerance
	}
	return min(max(missedShare*d.Missed, leastTolerance), mostTolerance)
}

// setMissed keeps the error of the best trial.
func (d *decision) setMissed(ts []trial) {
	if i := best(ts); i >= 0 {
		d.Missed = math.Sqrt(mean(ts[i].compared()))
	}
}

// fitIterative is machine.FitExact or FitMargins by conjugate gradients. A setting that they cannot solve is factored
// where the rows are few enough for that, else its λ is raised tenfold. All attempts together take at most
// 2·iterativeSteps products with the kernel matrix, and iterativeSteps of one output take about as long as a
// factorisation of 20,000 rows. It returns no model if the rows are to be factored.
func (f *fit) fitIterative(s machine.Setup, x, y dense.Matrix[float64], lambda float64) (*machine.Model, error) {
	solve := machine.FitExactIterative
	if f.decision.Margins {
		solve = machine.FitMarginsIterative
	}
	o := machine.Iterative{Tolerance: f.decision.tolerance(), Sketch: largeSketch, Memory: f.o.Memory,
		Progress: func(step int, _ float64) error {
			f.progress("steps", int64(step), 0)
			return f.ctx.Err()
		}}
	for used := 0; ; lambda *= 10 {
		o.Steps = min(iterativeSteps, 2*iterativeSteps-used)
		m, done, err := solve(s, x, y, lambda, o)
		if err != nil && !errors.Is(err, machine.ErrSingular) {
			return nil, err
		}
		used += cmp.Or(done.Steps, 1)
		solved := err == nil && (done.Converged || f.decision.Margins || done.Residual <= slack*o.Tolerance)
		if !solved && x.Rows <= min(exactRows, f.factoredRows()) {
			f.noteOnce("λ = %s is too small for conjugate gradients (residual %.1g after %d products): the kernel "+
				"matrix was factored", short(lambda), done.Residual, done.Steps)
			runtime.GC() // the kernels
			return nil, nil
		}
		if !solved && f.o.Lambda == 0 && used < 2*iterativeSteps {
			continue
		}
		if err == nil {
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

// noteOnce notes what the fit of all rows did; folds are not reported.
func (f *fit) noteOnce(format string, args ...any) {
	if !f.inner {
		f.note(format, args...)
	}
}
