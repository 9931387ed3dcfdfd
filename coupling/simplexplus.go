package coupling

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/randfeat/randfeat/dense"
)

// SimplexPlus is the norm-dependent coupling of SimRF section 3.4 (eqs 15-17; docs/theory.md §4.8). For the norms drawn
// it turns the directions until the rows of a block sum to (nearly) zero,
//
//	w_i ← −c_i (T − w_i)/|T − w_i|,  T = Σ_j w_j,  i = 1, …, d, repeatedly,
//
// starting from the simplex, and rotates the result by an independent Haar matrix. Each row is exactly N(0, I_d)
// because the rotation is independent of the norms; the sum minimises the leading term of the variance of positive
// features. d = 1: a block is one N(0,1) row, so it is then the same as IID. Under Sphere(r) the simplex already
// sums to zero and SimplexPlus equals [Simplex].
type SimplexPlus struct {
	Sweeps int `json:"sweeps,omitempty"` // largest number of sweeps over a block; 0 means 20
}

// Name is "simplexplus".
func (SimplexPlus) Name() string { return "simplexplus" }

// defaultSweeps is far more than needed: |T| falls by orders of magnitude per sweep.
const defaultSweeps = 20

func (c SimplexPlus) validate() error {
	if c.Sweeps < 0 {
		return fmt.Errorf("coupling simplexplus: Sweeps (\"sweeps\") is %d, want ≥ 1, or 0 for %d", c.Sweeps,
			defaultSweeps)
	}
	return nil
}

// Sample draws m rows in blocks of dim, with fresh norms for every block.
func (c SimplexPlus) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	sweeps := c.Sweeps
	if sweeps == 0 {
		sweeps = defaultSweeps
	}
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		w := balancedSimplex(l.norms(dim, dim, src), sweeps)
		mulInto(block, w.RowRange(0, block.Rows), haarMatrix(dim, src))
	})}, nil
}

// balancedSimplex is the block before its rotation. It stops early once |T| < 1e-10·max c.
func balancedSimplex(norms []float64, sweeps int) dense.Matrix[float64] {
	w := simplexMatrix(len(norms))
	scaleRows(w, norms)
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

// mulInto writes a·b into dst.
func mulInto(dst, a, b dense.Matrix[float64]) {
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
// the result by the d×d matrix R, d = len(norms). [SimplexPlus] does the same with random norms and a Haar R,
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
	scaleRows(w, norms)
	res := SweepResult{Resultant: make([]float64, passes)}
	total := make([]float64, d)
	for i := range res.Resultant {
		res.Resultant[i] = sweep(w, norms, total)
	}
	out := dense.New[float64](d, d)
	mulInto(out, w, r)
	res.W = out.ToRows()
	return res, nil
}
