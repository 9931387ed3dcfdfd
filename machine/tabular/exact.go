package tabular

import (
	"cmp"
	"errors"
	"math"
	"runtime"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// kernelFit fits exact kernels with the members of a decision.
type kernelFit struct {
	*job
	d   *decision
	log *journal // nil: nothing is noted
}

// fit fits the members to rows x with targets y. The columns of x are as learned for the first member, and spec is
// that of the first member for them. The model is a mean of all members, which share their landmarks
// (family.Landmarks.Also).
func (k *kernelFit) fit(spec randfeat.Spec, x, y matrix) (*machine.Model, error) {
	first := k.d.Members[0]
	out, err := k.one(spec, first.Candidate, x, y)
	if err != nil || len(k.d.Members) == 1 {
		return out, err
	}
	m := out
	n, unit := m.Weights.Rows, spec.Kernel.Scale/first.Width
	var list family.Landmarks
	all, intercept := dense.New[float64](n*len(k.d.Members), m.Outputs), dense.New[float64](1, m.Outputs)
	for i, of := range k.d.Members {
		if i > 0 {
			spec.Kernel.Kind, spec.Kernel.Scale = of.Kernel, of.Width*unit
			if (of.Kernel == kernel.Laplace) != (first.Kernel == kernel.Laplace) {
				spec.Kernel.Scale = of.Width * medianDistance(inMetric(spec.Kernel.M, x), of.Kernel, k.o.Seed)
			}
			if m, err = k.one(spec, of.Candidate, x, y); err != nil {
				return nil, err
			}
			list.Also = append(list.Also, kernel.Kernel{Kind: of.Kernel,
				Scale: spec.Kernel.Scale / (first.Width * unit)})
		}
		addScaled(all.RowRange(i*n, (i+1)*n), m.Weights, of.Share)
		addScaled(intercept, matrix{Rows: 1, Cols: m.Outputs, Stride: m.Outputs, Data: m.Intercept}, of.Share)
	}
	out.Weights, out.Intercept, out.Spec.Family = all, intercept.Row(0), list
	return out, nil
}

// addScaled adds share·v to sum.
func addScaled(sum, v matrix, share float64) {
	for i := range v.Rows {
		kern.Best[float64]().MulAdd(sum.Row(i), v.Row(i), share)
	}
}

// one fits one kernel. The search had fewer rows, so λ may be too small for all of them; it is raised then.
func (k *kernelFit) one(spec randfeat.Spec, c Candidate, x, y matrix) (*machine.Model, error) {
	setup := k.setup(spec)
	setup.Margins = c.Loss == lossMargins
	if k.iterates(x.Rows) || k.conjugates(c, x.Rows) {
		if m, err := k.iterative(setup, x, y, c.Lambda); m != nil || err != nil {
			return m, err
		}
	}
	return raised(c.Lambda, k.o.Lambda > 0, func(l float64) (*machine.Model, error) {
		return machine.FitExact(setup, x, y, l)
	})
}

// mostRaises bounds how often λ is raised: eight decades. Features of norm 1 are not singular with so large a penalty.
const mostRaises = 16

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

const (
	// iterativeLimit·exactRows is the largest number of rows without marks whose exact kernel is solved by conjugate
	// gradients.
	iterativeLimit = 3
	iterativeSteps = 100
	// Conjugate gradients end when the residual is missedShare of the out-of-fold error of the choice, at least
	// leastTolerance and at most mostTolerance or fewTolerance, in units of the targets.
	missedShare    = 0.03
	leastTolerance = 3e-4
	mostTolerance  = 5e-3
	fewTolerance   = 1e-2
	// Squares of at least conjugateRows rows are solved by conjugate gradients if λ is at least conjugatePenalty·n.
	// They converge in a few steps there: 2,700 rows took 0.1 s instead of 0.2 s by a factorisation, 10,000 rows 0.8 s
	// instead of 5 s. After fewProducts the rows are factored instead.
	conjugateRows    = 2000
	conjugatePenalty = 0x1p-24
	// slack times the tolerance is the largest residual that is accepted after iterativeSteps. A larger one means that
	// conjugate gradients cannot solve the setting.
	slack = 10
)

// leastPenalty is the smallest λ that conjugate gradients of n rows are tried with. Kernels are rounded to 2⁻²⁴, which
// moves the eigenvalues of K by about √n·2⁻²⁴, and by more if the rounding errors are correlated.
func leastPenalty(n int) float64 { return float64(n) * 0x1p-27 }

// fewProducts is the number of products for n rows that take about as long as a factorisation.
func fewProducts(n int) int { return max(40, n/100) }

// conjugates reports whether conjugate gradients solve n rows that could also be factored. Kernels with a peak have far
// fewer small eigenvalues: 10,368 rows of nursery with matern12 and λ = 2⁻²⁵·n took 29 products.
func (j *job) conjugates(c Candidate, n int) bool {
	least := conjugatePenalty * float64(n)
	if c.Kernel == kernel.Matern12 || c.Kernel == kernel.Laplace {
		least = leastPenalty(n)
	}
	return j.iterative() && c.Loss != lossMargins && n >= conjugateRows && c.Lambda >= least
}

// tolerance returns the residual at which conjugate gradients end, at most most.
func (d *decision) tolerance(most float64) float64 {
	if d.Missed == 0 {
		return 1e-3
	}
	return min(max(missedShare*d.Missed, leastTolerance), most)
}

// iterative is machine.FitExact by conjugate gradients. If they do not converge, it returns no model, and the caller
// factors the kernel matrix. If there are too many rows for that, it raises λ tenfold. All attempts together take at
// most 2·iterativeSteps products with the kernel matrix: iterativeSteps products of one output take about as long as a
// factorisation of 20,000 rows, fewProducts as long as one of fewer rows.
func (k *kernelFit) iterative(s machine.Setup, x, y matrix, lambda float64) (*machine.Model, error) {
	o, most := machine.Iterative{Tolerance: k.d.tolerance(mostTolerance), Sketch: largeSketch, Memory: k.o.Memory,
		Progress: func(step int, _ float64) error {
			k.progress("steps", int64(step), 0)
			return k.ctx.Err()
		}}, iterativeSteps
	spare := float64(slack)
	if !k.iterates(x.Rows) {
		o.Tolerance, most, spare = k.d.tolerance(fewTolerance), fewProducts(x.Rows), 2
	}
	for used := 0; ; lambda *= 10 {
		o.Steps = min(most, 2*iterativeSteps-used)
		m, done, err := machine.FitExactIterative(s, x, y, lambda, o)
		if err != nil && !errors.Is(err, machine.ErrSingular) {
			return nil, err
		}
		used += cmp.Or(done.Steps, 1)
		solved := err == nil && (done.Converged || s.Margins || done.Residual <= spare*o.Tolerance)
		if !solved && x.Rows <= min(exactRows, k.factoredRows()) {
			k.note("λ = %s is too small for conjugate gradients (residual %.1g after %d products): the kernel "+
				"matrix was factored", short(lambda), done.Residual, done.Steps)
			runtime.GC() // the kernels
			return nil, nil
		}
		if !solved && k.o.Lambda == 0 && used < 2*iterativeSteps {
			continue
		}
		if err == nil && k.iterates(x.Rows) {
			k.note("the exact kernel by conjugate gradients: %d products (at most %d), residual %.1g, %d "+
				"landmarks, %d MiB; a factorisation would need %d MiB", done.Steps, 2*iterativeSteps, done.Residual,
				done.Sketch, done.Bytes>>20, 8*int64(x.Rows)*int64(x.Rows)>>20)
			if !solved {
				k.note("conjugate gradients have not converged: the weights are between those of this λ and of a "+
					"larger one; give a larger λ than %s", short(lambda))
			}
		}
		return m, err
	}
}

// note adds a note about the fit of all rows. Fits without a fold add none.
func (k *kernelFit) note(format string, args ...any) {
	if k.log != nil {
		k.log.note(format, args...)
	}
}

// without predicts fold fold of a deal by the exact kernel of the rows that a model of it learns from, with columns
// learned from these rows.
func (k *kernelFit) without(f *frame, deal, fold int) (pred matrix, held []int, err error) {
	held, from := f.rows(deal, fold)
	if len(held) == 0 || len(from) < 2 || f.deal.horizon > 0 && len(from) < leastBefore {
		return pred, nil, nil
	}
	c := k.d.Members[0].Candidate
	l, x, err := f.learnColumns(f.base(fold), c, from)
	if err != nil {
		return pred, nil, err
	}
	fields := l.fields
	in := x
	if f.weighs {
		in = x.Clone()
		weigh(in, f.columnWeights(fields))
	}
	rows := pick(in, from)
	spec := f.exactSpec(c, &learned{fields: ones(len(fields)), metric: l.metric}, rows)
	m, err := k.fit(spec, rows, pick(f.s.y, from))
	if err != nil {
		return pred, nil, err
	}
	pred = dense.New[float64](len(held), m.Outputs)
	p, err := machine.NewPredictor[float64](m)
	if err == nil {
		err = p.Predict(pred, pick(in, held), nil)
	}
	return pred, held, err
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}
