package tabular

import (
	"math"

	"github.com/randfeat/randfeat/kernel"
)

const (
	// Conjugate gradients end when the residual is missedShare of the out-of-fold error that the choice measured. The
	// residual bounds how much further steps can change predictions of the training rows. The tolerance is at least
	// leastTolerance and at most mostTolerance or fewTolerance, in units of the targets.
	missedShare    = 0.03
	leastTolerance = 3e-4
	mostTolerance  = 5e-3
	// Squares of at least conjugateRows rows are solved by conjugate gradients if λ is at least conjugatePenalty·n.
	// They converge in a few steps there: 2,700 rows took 0.1 s instead of 0.2 s by a factorisation, 10,000 rows 0.8 s
	// instead of 5 s. After fewProducts the rows are factored instead.
	conjugateRows    = 2000
	conjugatePenalty = 0x1p-24
	// lift raises a λ to liftTo·conjugatePenalty·n, because a table has more rows than the part that a search sees.
	liftTo = 2
	// fewTolerance is the largest tolerance of such solves. Scores of nine tables of 3,342 to 6,000 rows were within
	// 0.15 points of those with 3e-3, .01 ± .02 on average.
	fewTolerance = 1e-2
	// quickTolerance multiplies the tolerance if Options.Quick is set.
	quickTolerance = 3
	// slack times the tolerance is the largest residual that is accepted after iterativeSteps. A larger one means that
	// conjugate gradients cannot solve the setting.
	slack = 10
	// widestWide is the largest bandwidth of a search for conjugate gradients, in median distances.
	widestWide = 8
)

// leastPenalty is the smallest λ that conjugate gradients of n rows are tried with. Kernels are rounded to 2⁻²⁴, which
// moves the eigenvalues of K by about √n·2⁻²⁴, and by more if the rounding errors are correlated.
func leastPenalty(n int) float64 { return float64(n) * 0x1p-27 }

// fewProducts is the number of products for n rows that take about as long as a factorisation.
func fewProducts(n int) int { return max(40, n/100) }

// conjugates reports whether conjugate gradients solve n rows that could also be factored.
func (f *final) conjugates(n int, lambda float64) bool {
	return f.iterative() && !f.d.Margins && n >= conjugateRows && lambda >= solvablePenalty(f.d.Spec.Kernel.Kind, n)
}

// peaked reports whether the kernel has a peak at distance 0.
func peaked(kind kernel.Kind) bool { return kind == kernel.Matern12 || kind == kernel.Laplace }

// solvablePenalty is the smallest λ of n rows that conjugate gradients are tried with if the rows could be factored.
// Kernels with a peak have far fewer small eigenvalues: 10,368 rows of nursery with matern12 and λ = 2⁻²⁵·n took 29
// products.
func solvablePenalty(kind kernel.Kind, n int) float64 {
	if peaked(kind) {
		return leastPenalty(n)
	}
	return conjugatePenalty * float64(n)
}

// lift raises a λ of a kernel with a peak that conjugate gradients cannot solve to one that they can, if that is not
// clearly worse. Such a λ is often chosen by chance: the kernel of rows that hardly repeat others has no small
// eigenvalues, and rows that repeat others exactly have the same mean with any small λ. A factorisation of 10,000 rows
// takes four times as long as conjugate gradients, and four times the memory. Smooth kernels keep their λ: with 10,000
// rows of backdoor conjugate gradients failed at the λ that they were raised to, after half the time of the fit.
func (e *exactSearch) lift() error {
	f := e.c.f
	least := liftTo * conjugatePenalty * float64(len(e.order))
	if !f.iterative() || e.least > 0 || f.o.Lambda > 0 || e.margins != nil || len(e.order) < conjugateRows ||
		!peaked(e.tries.kind) || e.at.lambda >= solvablePenalty(e.tries.kind, len(e.order)*5/4) {
		return nil
	}
	at := e.trialAt(e.at)
	if at < 0 {
		return nil
	}
	p := exactPoint{e.at.scale, least}
	if err := e.try([]exactPoint{p}); err != nil {
		return err
	}
	if to := e.trialAt(p); to >= 0 && !e.all[at].clearly(&e.all[to]) {
		e.at = p
	}
	return nil
}

// tolerance returns the residual at which conjugate gradients end, at most most.
func (d *decision) tolerance(most float64) float64 {
	if d.Missed == 0 {
		return iterativeTolerance
	}
	return min(max(missedShare*d.Missed, leastTolerance), most)
}

// setMissed keeps the error of the best trial.
func (d *decision) setMissed(ts []trial) {
	if i := best(ts); i >= 0 {
		d.Missed = math.Sqrt(mean(ts[i].compared()))
	}
}
