package krr

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// ErrNotPositive reports that K + λI is singular up to rounding: λ is too small.
var ErrNotPositive = errors.New("krr: K + λI is singular up to rounding")

// Options bound the work and the error of a solution.
type Options struct {
	Tolerance float64 // largest relative residual |r|/max(|y|, Least) of a target that counts as converged
	Least     float64 // see Tolerance; 0: none
	Steps     int     // most products in float32
	Rough     bool    // compute residuals from float32 kernels too, which is enough to compare settings
	Progress  func(step int, residual float64) error
}

// Result describes how a solution ended.
type Result struct {
	Steps     int     // at most so many products with K in float32
	Residual  float64 // the largest relative residual of a target, as [Options] says
	Converged bool
}

const (
	// The system is solved at most corrections times: first for y, then for the float64 residual of the solution so
	// far.
	corrections = 4
	// A solution ends if patience steps did not halve the residual, or if a correction did not: λ is then below the
	// precision of float32, and more steps would only cost time.
	patience = 25
	// Rounding of float32 kernels moves the residual of x by at most about roughError·n·|x|. If that is below the
	// tolerance, residuals are computed from these kernels.
	roughError     = 0x1p-18 * roughTolerance
	roughTolerance = 2e-4 // smaller tolerances always need float64
)

// Solve fits the targets y, one per column: (K + λI)α + b·1 = y and 1ᵀα = 0, as linalg.SolveDual does directly. start,
// if not nil, is a fit of [Solve] for another λ or for other targets, from which the iteration begins.
//
// It first solves (K + λI)X = [y, 1], one system with an extra column o for the vector of ones. Then 1ᵀα = 0 gives b =
// oᵀy/oᵀ1, since K is symmetric, and α = X_y − b·o. The solution alternates conjugate gradients with float32 kernels
// and residuals in float64 (iterative refinement), so that its error is not that of float32.
//
// A solution that ran out of steps is returned with Result.Converged false. The error wraps [ErrNotPositive] if λ is
// too small for the precision; an error of o.Progress ends the solution and is returned.
func Solve(s *Kernels, sk *Sketch, y dense.Matrix[float64], lambda float64, start *Fit, o Options) (*Fit, Result,
	error) {
	var done Result
	p, err := sk.with(lambda)
	if err != nil {
		return nil, done, fmt.Errorf("%w (%w)", ErrNotPositive, err)
	}
	n, outs := y.Rows, y.Cols
	b := dense.New[float64](n, outs+1)
	x := dense.New[float64](n, outs+1)
	for i := range n {
		copy(b.Row(i), y.Row(i))
		b.Row(i)[outs] = 1
		if start != nil {
			copy(x.Row(i), start.Alpha.Row(i))
			x.Row(i)[outs] = start.ones[i]
			for c, v := range start.Intercept {
				x.Row(i)[c] += float64(v * start.ones[i])
			}
		}
	}
	c := &conjugate{s: s, p: p, lambda: lambda, o: o, done: &done, wanted: dots(b, b)}
	for k, v := range c.wanted {
		c.wanted[k] = max(v, o.Least*o.Least)
	}
	r := b.Clone()
	if start != nil {
		if err := c.residual(r, x, b); err != nil {
			return nil, done, err
		}
	}
	before := math.Inf(1)
	for range corrections {
		if err := c.solve(x, r); err != nil {
			return nil, done, err
		}
		if err := c.residual(r, x, b); err != nil {
			return nil, done, err
		}
		done.Residual = c.largest(r)
		if done.Converged = done.Residual <= o.Tolerance; done.Converged || done.Steps >= o.Steps ||
			!(done.Residual < min(before/2, 1)) {
			break
		}
		before = done.Residual
	}
	if x.CheckFinite() != nil || !(done.Residual < 1) {
		return nil, done, ErrNotPositive
	}
	f := &Fit{Alpha: dense.New[float64](n, outs), Intercept: make([]float64, outs), ones: make([]float64, n)}
	sum := 0.0
	for i := range n {
		v := x.At(i, outs)
		f.ones[i], sum = v, sum+v
		for c, t := range y.Row(i) {
			f.Intercept[c] += float64(v * t)
		}
	}
	if !(sum > 0) {
		return nil, done, ErrNotPositive
	}
	for c := range f.Intercept {
		f.Intercept[c] /= sum
	}
	for i := range n {
		a := f.Alpha.Row(i)
		for c := range a {
			a[c] = x.At(i, c) - float64(f.ones[i]*f.Intercept[c])
		}
	}
	return f, done, nil
}

// conjugate solves (K + λI)x = b. The columns are independent systems that share every product with K, which is the
// expensive part.
type conjugate struct {
	s      *Kernels
	p      *preconditioner
	lambda float64
	o      Options
	done   *Result
	wanted []float64 // |b|² of every column, at least Least²
}

// residual sets r = b − (K + λI)x, with kernels in float64, or in float32 if the options say so or their rounding
// cannot hide a residual beyond the tolerance. Kernels in float64 take as long as ten to twenty products.
func (c *conjugate) residual(r, x, b dense.Matrix[float64]) error {
	if c.o.Rough || c.o.Tolerance >= max(roughTolerance, roughError*float64(x.Rows)*c.growth(x)) {
		c.s.Product(r, x)
	} else if err := c.s.Exact(r, x); err != nil {
		return err
	}
	for i, v := range b.Data {
		r.Data[i] = v - r.Data[i] - float64(c.lambda*x.Data[i])
	}
	return nil
}

// growth returns the largest |x|/|b| of a column. It is at most 1/λ, and far less if K has no small eigenvalues, as
// those of kernels with a peak.
func (c *conjugate) growth(x dense.Matrix[float64]) float64 {
	most := 0.0
	for k, v := range dots(x, x) {
		if c.wanted[k] > 0 {
			most = max(most, math.Sqrt(v/c.wanted[k]))
		}
	}
	return most
}

// largest returns the largest relative residual of a column.
func (c *conjugate) largest(r dense.Matrix[float64]) float64 {
	most := 0.0
	for k, v := range dots(r, r) {
		if c.wanted[k] > 0 {
			most = max(most, math.Sqrt(v/c.wanted[k]))
		}
	}
	return most
}

// solve adds (K + λI)⁻¹r to x and updates r. It uses flexible conjugate gradients (Notay 2000), whose β does not assume
// that the preconditioner is exactly linear: it is subject to rounding. It stops at half the tolerance, which leaves
// room for errors that r, updated with float32 kernels, does not show.
func (c *conjugate) solve(x, r dense.Matrix[float64]) error {
	n, cols := r.Rows, r.Cols
	z, q := dense.New[float64](n, cols), dense.New[float64](n, cols)
	if err := c.p.apply(z, r); err != nil {
		return err
	}
	d, rz := z.Clone(), dots(r, z)
	least, halved := c.largest(r), c.done.Steps
	for c.done.Steps < c.o.Steps {
		now := c.largest(r)
		if now < least/2 {
			least, halved = now, c.done.Steps
		}
		if now <= c.o.Tolerance/2 || c.done.Steps-halved >= patience {
			return nil
		}
		c.s.Product(q, d)
		c.done.Steps++
		for i, v := range d.Data {
			q.Data[i] += float64(c.lambda * v)
		}
		step := dots(d, q)
		for k := range step {
			if step[k] = rz[k] / step[k]; !dense.IsFinite(step[k]) || step[k] < 0 {
				step[k] = 0 // this column is solved, or beyond the precision; its residual will show which
			}
		}
		if slices.Max(step) == 0 {
			return nil
		}
		for i := range n {
			xi, ri, di, qi := x.Row(i), r.Row(i), d.Row(i), q.Row(i)
			for k, a := range step {
				xi[k] += float64(a * di[k])
				ri[k] -= float64(a * qi[k])
			}
		}
		if c.o.Progress != nil {
			if err := c.o.Progress(c.done.Steps, c.largest(r)); err != nil {
				return err
			}
		}
		if err := c.p.apply(z, r); err != nil {
			return err
		}
		zq, next := dots(z, q), dots(r, z)
		for k := range zq {
			if zq[k] *= -step[k] / rz[k]; !dense.IsFinite(zq[k]) {
				zq[k] = 0
			}
		}
		rz = next
		for i := range n {
			di, zi := d.Row(i), z.Row(i)
			for k, beta := range zq {
				di[k] = zi[k] + float64(beta*di[k])
			}
		}
	}
	return nil
}

// dots returns the inner product of each column of a with the same column of b.
func dots(a, b dense.Matrix[float64]) []float64 {
	sum := make([]float64, a.Cols)
	for i := range a.Rows {
		bi := b.Row(i)
		for c, v := range a.Row(i) {
			sum[c] += float64(v * bi[c])
		}
	}
	return sum
}
