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
	Tolerance float64 // relative residual of every target, checked in float64
	Steps     int     // most products in float32
	Rough     bool    // residuals are checked in float32: enough to compare settings
	Progress  func(step int, residual float64) error
}

// Result says how a solution ended.
type Result struct {
	Steps     int
	Residual  float64 // the largest of a target, in float64
	Converged bool
}

const (
	// corrections bounds how often a residual of float64 is solved for in float32.
	corrections = 4
	// A solution ends if so many steps did not halve the residual, or if a correction did not: λ is below what float32
	// can tell, and more steps would only cost time.
	patience = 25
)

// Solve fits the targets y: (K + λI)α + b·1 = y and 1ᵀα = 0, as linalg.Dual does. start, if not nil, is the initial
// guess: a fit of other targets or of another λ.
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

// conjugate solves (K + λI)x = b. Columns are independent systems that share every product with K.
type conjugate struct {
	s      *Kernels
	p      *preconditioner
	lambda float64
	o      Options
	done   *Result
	wanted []float64 // |b|²
}

// residual sets r = b − (K + λI)x in float64, or with kernels in float32.
func (c *conjugate) residual(r, x, b dense.Matrix[float64]) error {
	if c.o.Rough {
		c.s.Product(r, x)
	} else if err := c.s.Exact(r, x); err != nil {
		return err
	}
	for i, v := range b.Data {
		r.Data[i] = v - r.Data[i] - float64(c.lambda*x.Data[i])
	}
	return nil
}

func (c *conjugate) largest(r dense.Matrix[float64]) float64 {
	most := 0.0
	for k, v := range dots(r, r) {
		if c.wanted[k] > 0 {
			most = max(most, math.Sqrt(v/c.wanted[k]))
		}
	}
	return most
}

// solve adds (K + λI)⁻¹r to x by flexible conjugate gradients (Notay 2000), because the preconditioner is subject to
// rounding. It aims at half of the tolerance, which leaves room for errors that float32 does not show.
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
				step[k] = 0 // solved, or not to be: the residual tells
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

// dots are the inner products of the columns of a with those of b.
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
