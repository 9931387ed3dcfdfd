package omega

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/randfeat/randfeat/dense"
)

// BalancedSimplex is a block of SimplexPlus before its rotation, after at most sweeps passes. It stops early once |T| <
// 1e-10·max c.
func BalancedSimplex(norms []float64, sweeps int) dense.Matrix[float64] {
	w := simplexMatrix(len(norms))
	ScaleRows(w, norms)
	var largest float64
	for _, c := range norms {
		largest = max(largest, c)
	}
	total := make([]float64, len(norms))
	for range sweeps {
		if sweep(w, norms, total) < 1e-10*largest {
			break
		}
	}
	return w
}

// sweep does one Gauss–Seidel pass and returns |T| after it. T is recomputed at the start of the pass, so rounding
// does not accumulate over passes. Every update minimises |T| over the direction of one row: |T| never grows.
func sweep(w dense.Matrix[float64], norms, total []float64) float64 {
	sumRows(total, w)
	for i := range w.Rows {
		row := w.Row(i)
		var rest float64
		for j, v := range row {
			total[j] -= v
			rest += total[j] * total[j]
		}
		// The others cancel exactly (always so for d = 1): any direction is optimal, keep it.
		if rest = math.Sqrt(rest); rest >= 1e-12 {
			for j, v := range total {
				row[j] = -norms[i] * v / rest
			}
		}
		for j, v := range row {
			total[j] += v
		}
	}
	sumRows(total, w)
	return math.Sqrt(dense.Norm2(total))
}

// sumRows writes the sum of the rows of w into dst.
func sumRows(dst []float64, w dense.Matrix[float64]) {
	clear(dst)
	for i := range w.Rows {
		for j, v := range w.Row(i) {
			dst[j] += v
		}
	}
}

// MulInto writes a·b into dst.
func MulInto(dst, a, b dense.Matrix[float64]) {
	general := func(m dense.Matrix[float64]) blas64.General {
		return blas64.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(a), general(b), 0, general(dst))
}

// SweepResult is the result of [SimplexPlusSweeps].
type SweepResult struct {
	W         [][]float64 `json:"W"`                              // the rows after all passes, times R
	Resultant []float64   `json:"resultant_norm_after_each_pass"` // |Σ_i w_i| after each pass
}

// SimplexPlusSweeps runs exactly the given number of passes of SimRF eq 17 from w_i = norms[i]·s_i and multiplies
// the result by the d×d matrix R, d = len(norms). The coupling does the same with random norms and a Haar R,
// stopping once the rows sum to zero.
func SimplexPlusSweeps(norms []float64, passes int, r dense.Matrix[float64]) (SweepResult, error) {
	d := len(norms)
	if err := r.Check(); err != nil {
		return SweepResult{}, fmt.Errorf("coupling: R: %w", err)
	}
	if d == 0 || r.Rows != d || r.Cols != d {
		return SweepResult{}, fmt.Errorf("coupling: R is %d×%d for %d norms: %w", r.Rows, r.Cols, d, dense.ErrShape)
	}
	if passes < 0 {
		return SweepResult{}, fmt.Errorf("coupling: passes is %d, want ≥ 0", passes)
	}
	w := simplexMatrix(d)
	ScaleRows(w, norms)
	res := SweepResult{Resultant: make([]float64, passes)}
	total := make([]float64, d)
	for i := range res.Resultant {
		res.Resultant[i] = sweep(w, norms, total)
	}
	out := dense.New[float64](d, d)
	MulInto(out, w, r)
	res.W = out.ToRows()
	return res, nil
}
