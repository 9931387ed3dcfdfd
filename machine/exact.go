package machine

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// FitExact is kernel ridge regression on all rows without random features: the limit of [Ridge] as F grows. The kernel
// is that of s.Spec; its family, coupling and M do not matter. It needs 8n² bytes (3.2 GB for 20,000 rows), or 12n² up
// to 16,000 rows, and n³/6 multiply-adds or half of that.
//
// The model is a ridge of the family landmarks, with all rows as landmarks. It is saved, loaded and served like any
// other, and holds 8n(d + outputs) bytes.
//
// With s.Margins it takes up to 40n² further multiply-adds per class. If few rows violate a margin, it takes far less,
// and only the kernels of these rows.
func FitExact(s Setup, x, y dense.Matrix[float64], lambda float64) (*Model, error) {
	return fitExact(s, x, y, lambda)
}

// fitExact forms the kernel matrix of all rows and solves for α. Margins of many rows are first sought among the rows
// that violate them (linalg.SolveMargins), which may take too long. Then conjugate gradients fit iterativeMargins rows
// or more, and a factorisation fits fewer.
func fitExact(s Setup, x, y dense.Matrix[float64], lambda float64) (*Model, error) {
	s, margins, err := exactSetup(s, x, y, lambda)
	if err != nil {
		return nil, err
	}
	t := dense.New[float64](x.Rows, s.Outputs+1)
	s.targets(t, y)
	few := margins && x.Rows >= activeRows // whether few rows may violate a margin
	if few && x.Rows >= iterativeMargins {
		if few, err = marginsWorth(s, x, t, lambda); err != nil {
			return nil, err
		}
	}
	if few {
		d, ok, err := linalg.SolveMargins(kernelRows(s.Spec.Kernel, x), t.ColRange(0, s.Outputs), lambda,
			newtonProducts(x.Rows, s.Outputs))
		if err != nil {
			return nil, err
		}
		if ok {
			return landmarkModel(s, x, d.Alpha, d.Intercept, lambda, int64(x.Rows)), nil
		}
	}
	if margins && x.Rows >= iterativeMargins {
		s.Margins = true
		m, _, err := FitExactIterative(s, x, y, lambda, Iterative{Steps: marginProducts})
		return m, err
	}
	k := dense.New[float64](x.Rows, x.Rows)
	if err := kernel.Gram(s.Spec.Kernel, k, x, x); err != nil {
		return nil, err
	}
	d, err := solveExact(k, t.ColRange(0, s.Outputs), s.roots(y), lambda, margins)
	if errors.Is(err, linalg.ErrNotPositive) {
		return nil, fmt.Errorf("λ = %g: %w (%w): use a larger λ", lambda, ErrSingular, err)
	}
	if err == nil && margins {
		err = d.Margins(t.ColRange(0, s.Outputs), lambda, krr.MarginSteps)
	}
	if err != nil {
		return nil, err
	}
	return landmarkModel(s, x, d.Alpha, d.Intercept, lambda, int64(x.Rows)), nil
}

// kernelRows computes rows of the kernel matrix of x.
func kernelRows(k kernel.Kernel, x dense.Matrix[float64]) linalg.KernelRows {
	var u dense.Matrix[float64] // in units of the bandwidth, and in the metric
	return func(dst dense.Matrix[float64], rows []int) error {
		if u.IsEmpty() {
			u = dense.New[float64](x.Rows, k.Dim(x.Cols))
			par.For(u.Rows, 64, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					k.Embed(u.Row(i), x.Row(i))
				}
			})
		}
		few := dense.New[float64](len(rows), u.Cols)
		for at, i := range rows {
			copy(few.Row(at), u.Row(i))
		}
		return kernel.Gram(kernel.Kernel{Kind: k.Kind}, dst, few, u)
	}
}

// marginProducts bounds the products of margins by conjugate gradients. 10,000 rows of 18 classes had 69.7, 70.4, 70.5
// and 70.8 % correct after 10, 20, 30 and 40 products without a start from fewer rows.
const marginProducts = 28

// marginsWorth asks linalg.MarginsWorth about the rows x with targets t.
func marginsWorth(s Setup, x, t dense.Matrix[float64], lambda float64) (bool, error) {
	n := x.Rows / linalg.MarginsEvery
	few, y, k := dense.New[float64](n, x.Cols), dense.New[float64](n, s.Outputs), dense.New[float64](n, n)
	for i := range n {
		copy(few.Row(i), x.Row(i*linalg.MarginsEvery))
		copy(y.Row(i), t.Row(i * linalg.MarginsEvery)[:s.Outputs])
	}
	err := kernel.Gram(s.Spec.Kernel, k, few, few)
	return err == nil && linalg.MarginsWorth(k, y, lambda, newtonProducts(x.Rows, s.Outputs)), err
}

// newtonProducts returns the number of multiply-adds that linalg.SolveMargins may take: about as many as a
// factorisation and the steps that follow it, which are many and mostly not products. Conjugate gradients cost less
// with few classes, but end before they are exact. 10,368 rows of five classes (nursery) had 99.9 % correct by
// SolveMargins and 99.8 % by conjugate gradients, in the same time. 10,000 rows of two classes (campaign) had 90.4 %
// and 90.3 %, and a fit took 19 CPU-seconds by SolveMargins and 8 by conjugate gradients.
func newtonProducts(n, outs int) float64 {
	rows := float64(n)
	steps, factor := 20*rows*rows*float64(outs), rows*rows*rows/6
	if n >= iterativeMargins {
		factor *= min(1, float64(outs)/10)
	}
	return factor + steps
}

// activeRows is the number of rows from which the solver first looks for margins among the violating rows, which are
// usually few (linalg.SolveMargins).
const activeRows = 2000

// iterativeMargins is the number of rows from which conjugate gradients fit margins if many rows violate them.
const iterativeMargins = 3000

// Kernel matrices of at least mixedRows rows are factored in float32 and refined (linalg.SolveDualMixed). Above
// mixedMost rows the 12n² bytes of that would exceed the 8n² bytes of 20,000 rows in float64.
const (
	mixedRows = 1000
	mixedMost = 16000
)

// solveExact solves the dual system of all rows. If λ is large enough for a float32 factorisation with refinement, this
// takes about half the time of a float64 one. Margins take many steps, and each would be refined.
func solveExact(k, t dense.Matrix[float64], roots []float64, lambda float64, margins bool) (*linalg.Dual, error) {
	const least = 0.5 // below this λ refinement needs more than about 20 steps: half a factorisation
	if !margins && roots == nil && k.Rows >= mixedRows && k.Rows <= mixedMost {
		d, err := linalg.SolveDualMixed(k, t, lambda, least)
		if !errors.Is(err, linalg.ErrNotPositive) {
			return d, err
		}
	}
	return linalg.SolveDualWeighted(k, t, roots, lambda)
}
