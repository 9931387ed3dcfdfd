package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/krr"
)

const (
	// heldKernels is the memory for kernels that FitExactIterative keeps between products, in bytes.
	heldKernels = 2 << 30
	// The preconditioner has one landmark for every sketchEvery rows, within the bounds. n/16 landmarks cost about as
	// much as the products that they save: 10,000 rows took 10 products and 0.8 s with 512 landmarks, 4 products and
	// 1.4 s with 1024, 23 products and 1.2 s with 256.
	sketchEvery             = 16
	leastSketch, mostSketch = 256, 2048
	// Residuals of a class are relative to the length of its targets, or to that of a class of rareClass² of the rows.
	// Few rows of a class lie alone, in directions of small eigenvalues, and are solved last, although they hardly
	// change an error of all rows: with two rows of 10,368 (nursery), 40 products left a residual of 0.4.
	rareClass = 1. / 8
	// Margins end when a step changes scores by less than marginTolerance.
	marginTolerance = 1e-3
	// Margins of at least startRows rows start from a fit of every second row.
	startRows = 3000
)

// FitExactIterative is [FitExact] by conjugate gradients, for more rows than an n×n matrix allows. A product with the
// kernel matrix takes n²/2 kernels and n²·outputs multiply-adds in float32; residuals are corrected in float64. Up to 2
// GiB of kernels stay in memory, and the others are recomputed in every product. Further memory is 4nm bytes for the m
// landmarks of the preconditioner (n/16, at least 256 and at most 2048; or o.Sketch) and some n·outputs numbers.
//
// With s.Margins it starts from a fit of every second row, and that one from a fit of half as many, down to 3000 rows.
// It takes at most 40 products, 20 from such a start, or 14 from s.Start if that has three quarters of the rows, and
// ends when a step changes predictions by less than a thousandth.
//
// Residuals of a class are relative to the length of its targets, or of those of a class of a 64th of the rows.
//
// The bits do not depend on GOMAXPROCS. Ending before the residual is small is not an error: see Iterations.Converged.
func FitExactIterative(s Setup, x, y dense.Matrix[float64], lambda float64, o Iterative) (*Model, Iterations, error) {
	var done Iterations
	if s.Weighted {
		return nil, done, fmt.Errorf("conjugate gradients of rows with weights: use Ridge: %w", ErrSetup)
	}
	s, margins, err := exactSetup(s, x, y, lambda)
	if err != nil {
		return nil, done, err
	}
	if o.Tolerance < 0 || o.Steps < 0 || o.Sketch < 0 {
		return nil, done, fmt.Errorf("tolerance %g, %d steps, a sketch of %d rows, want none of them negative: %w",
			o.Tolerance, o.Steps, o.Sketch, ErrSetup)
	}
	t := dense.New[float64](x.Rows, s.Outputs+1)
	s.targets(t, y)
	targets := t.ColRange(0, s.Outputs).Clone()
	how := krr.Options{Tolerance: cmp.Or(o.Tolerance, defaultTolerance), Steps: cmp.Or(o.Steps, defaultSteps),
		Progress: o.Progress}
	if s.Task == Classification {
		how.Least = rareClass * math.Sqrt(float64(x.Rows))
	}
	var start *krr.Fit
	if margins {
		how.Tolerance, how.Steps = marginTolerance, min(how.Steps, krr.MarginSteps)
		if s.Start != nil {
			if a := s.Start.Weights; a.Rows != x.Rows || a.Cols != s.Outputs || len(s.Start.Intercept) != s.Outputs {
				return nil, done, fmt.Errorf("a start of %d×%d weights and %d intercepts for %d rows of %d classes: %w",
					a.Rows, a.Cols, len(s.Start.Intercept), x.Rows, s.Outputs, ErrSetup)
			}
			start = &krr.Fit{Alpha: s.Start.Weights, Intercept: s.Start.Intercept}
		} else if start, err = marginStart(s, x, targets, lambda, o, how); err != nil {
			return nil, done, err
		}
		switch {
		case s.Start != nil && 4*s.Start.Rows >= 3*x.Rows:
			how.Steps = (how.Steps + 2) / 3
		case start != nil:
			how.Steps = (how.Steps + 1) / 2
		}
	}
	hold, landmarks := o.held(x.Rows)
	if hold > 1<<27 {
		runtime.GC() // frees the kernels of an earlier fit before new ones are allocated
	}
	k, err := krr.NewKernels(s.Spec.Kernel, x, hold)
	if err != nil {
		return nil, done, err
	}
	sketch, err := krr.NewSketch(k, min(landmarks, x.Rows), s.Spec.Seed)
	if err != nil {
		return nil, done, err
	}
	var (
		fit *krr.Fit
		res krr.Result
	)
	if margins {
		fit, res, err = krr.Margins(k, sketch, targets, lambda, start, how)
	} else {
		fit, res, err = krr.Solve(k, sketch, targets, lambda, nil, how)
	}
	done = Iterations{Steps: res.Steps, Residual: res.Residual, Converged: res.Converged, Sketch: sketch.Landmarks(),
		Bytes: k.Bytes() + sketch.Bytes() + 8*int64(6*x.Rows*(s.Outputs+1))}
	if errors.Is(err, krr.ErrNotPositive) {
		return nil, done, fmt.Errorf("λ = %g: %w (%w): use a larger λ", lambda, ErrSingular, err)
	}
	if err != nil {
		return nil, done, err
	}
	return landmarkModel(s, x, fit.Alpha, fit.Intercept, lambda, int64(x.Rows)), done, nil
}

// marginStart fits margins to every second row, with 0 for the weights of the others; nil if x has few rows. A fit that
// starts there needs half of the products: 8,000 rows of 18 classes came to the same objective after 14 products as
// after 28 from 0, and a product of half of the rows takes a quarter of the time.
func marginStart(s Setup, x, t dense.Matrix[float64], lambda float64, o Iterative, how krr.Options) (*krr.Fit, error) {
	n := x.Rows / 2
	if x.Rows < startRows {
		return nil, nil
	}
	if o.Progress != nil {
		how.Progress = func(_ int, residual float64) error { return o.Progress(0, residual) }
	}
	few, y := dense.New[float64](n, x.Cols), dense.New[float64](n, t.Cols)
	for i := range n {
		copy(few.Row(i), x.Row(2*i))
		copy(y.Row(i), t.Row(2*i))
	}
	start, err := marginStart(s, few, y, lambda, o, how)
	if err != nil {
		return nil, err
	}
	if start != nil {
		how.Steps = (how.Steps + 1) / 2
	}
	hold, landmarks := o.held(n)
	k, err := krr.NewKernels(s.Spec.Kernel, few, hold)
	if err != nil {
		return nil, err
	}
	sketch, err := krr.NewSketch(k, min(landmarks, n), s.Spec.Seed)
	if err != nil {
		return nil, err
	}
	fit, _, err := krr.Margins(k, sketch, y, lambda, start, how)
	if errors.Is(err, krr.ErrNotPositive) {
		return nil, nil // all rows may have a solution
	}
	if err != nil {
		return nil, err
	}
	out := &krr.Fit{Alpha: dense.New[float64](x.Rows, t.Cols), Intercept: fit.Intercept}
	for i := range n {
		copy(out.Alpha.Row(2*i), fit.Alpha.Row(i))
	}
	return out, nil
}

// held returns the bytes of kernels that stay in memory and the number of landmarks of the preconditioner, for n rows.
// With a bound on memory, two fifths of it go to the kernels and an eighth to the landmarks, at least 256 of them.
func (o Iterative) held(n int) (hold int64, landmarks int) {
	hold, landmarks = heldKernels, cmp.Or(o.Sketch, min(max(n/sketchEvery, leastSketch), mostSketch))
	if o.Memory > 0 {
		hold = min(hold, o.Memory/5*2)
		landmarks = min(landmarks, max(256, int(o.Memory/8/int64(4*n))))
	}
	return hold, landmarks
}

// exactSetup validates the arguments of a fit with the kernels of all rows, and whether it has margins. It needs no
// projections.
func exactSetup(s Setup, x, y dense.Matrix[float64], lambda float64) (_ Setup, margins bool, err error) {
	margins, s.Margins, s.Omega = s.Margins, false, []coupling.Omega{}
	if s, err = s.prepared(); err != nil {
		return s, margins, err
	}
	switch {
	case margins && s.Task != Classification:
		err = fmt.Errorf("margins of a %s: they are for classes: %w", s.Task, ErrSetup)
	case margins && s.Weighted:
		err = fmt.Errorf("margins of rows with weights: use squares: %w", ErrSetup)
	case s.Task == Unsupervised:
		err = fmt.Errorf("kernel ridge regression without targets: %w", ErrSetup)
	case !(lambda > 0) || math.IsInf(lambda, 1):
		err = fmt.Errorf("λ = %g, want a positive number: %w", lambda, ErrSetup)
	case s.Spec.Kernel.Kind.Signed():
		err = fmt.Errorf("kernel ridge regression with the %v kernel, which family landmarks does not have: %w",
			s.Spec.Kernel.Kind, ErrSetup)
	case x.Rows == 0:
		err = fmt.Errorf("kernel ridge regression of no rows: %w", ErrNoRows)
	default:
		err = s.checkBlock(x, y, 0)
	}
	return s, margins, err
}
