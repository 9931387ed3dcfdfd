package linalg

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Dual is least squares with a penalty and a free intercept b by the kernel matrix K of n rows instead of features:
// f(x) = Σ_i α_i κ(x_i, x) + b minimises Σ(y − f)² + λ αᵀKα, where
//
//	(K + λI) α + b·1 = y,  1ᵀα = 0
//
// (Saunders, Gammerman & Vovk 1998; with b: Suykens & Vandewalle 1999, eq. 13). With K = ΦΦᵀ it is the fit of Normal.
type Dual struct {
	U         dense.Matrix[float64] // UᵀU = K + λI; empty after SolveDualMixed
	Alpha     dense.Matrix[float64] // n×K
	Intercept []float64

	roots []float64 // square roots of the weights of rows; nil means 1
	ones  []float64 // (K + λI)⁻¹·1
	sum   float64   // 1ᵀ(K + λI)⁻¹1
	mixed *mixed    // solver used in place of U
}

// SolveDual fits targets y, n×K, with penalty λ ≥ 0. It overwrites the upper triangle of k with U and ignores the
// elements below. It takes n³/6 multiply-adds and no memory of order n² besides k. A matrix that is singular up to
// rounding is ErrNotPositive.
func SolveDual(k, y dense.Matrix[float64], lambda float64) (*Dual, error) {
	return SolveDualWeighted(k, y, nil, lambda)
}

// SolveDualWeighted is SolveDual with squares multiplied by weights v, given as roots √v; nil means 1. With S = diag √v
// it is the fit of S(y − b·1) by SKS, whose coefficients are S⁻¹α. Rows of weight 0 get α = 0.
func SolveDualWeighted(k, y dense.Matrix[float64], roots []float64, lambda float64) (*Dual, error) {
	if k.Rows != y.Rows {
		return nil, fmt.Errorf("targets of %d rows for kernels of %d: %w", y.Rows, k.Rows, dense.ErrShape)
	}
	for i := range k.Rows {
		if roots != nil {
			row := k.Row(i)
			for j := i; j < len(row); j++ {
				row[j] *= roots[i] * roots[j]
			}
		}
		k.Row(i)[i] += lambda
	}
	if err := Cholesky(k); err != nil {
		return nil, err
	}
	n, outs := y.Rows, y.Cols
	b := dense.New[float64](n, outs+1)
	for i := range n {
		row := b.Row(i)
		copy(row, y.Row(i))
		row[outs] = 1
		for c := 0; roots != nil && c < len(row); c++ {
			row[c] *= roots[i]
		}
	}
	if err := errors.Join(SolveT(k, b), Solve(k, b)); err != nil {
		return nil, err
	}
	d, err := newDual(b, y, roots)
	if err == nil {
		d.U = k
	}
	return d, err
}

// newDual is the fit to targets y, given b = (K+λI)⁻¹·[y | 1]. With roots, both the matrix and the right-hand side are
// those of rows multiplied by them.
func newDual(b, y dense.Matrix[float64], roots []float64) (*Dual, error) {
	n, outs := y.Rows, y.Cols
	d := &Dual{Alpha: dense.New[float64](n, outs), Intercept: make([]float64, outs), ones: make([]float64, n),
		roots: roots}
	for i := range n {
		v := b.At(i, outs)
		d.ones[i] = v
		if roots != nil {
			v *= roots[i]
		}
		d.sum += v
		for c, t := range y.Row(i) {
			d.Intercept[c] += float64(v * t)
		}
	}
	if !(d.sum > 0) {
		return nil, ErrNotPositive
	}
	for c := range d.Intercept {
		d.Intercept[c] /= d.sum
	}
	for i := range n {
		for c, t := range b.Row(i)[:outs] {
			a := t - float64(d.ones[i]*d.Intercept[c])
			if roots != nil {
				a *= roots[i]
			}
			d.Alpha.Set(i, c, a)
		}
	}
	if d.Alpha.CheckFinite() != nil {
		return nil, ErrNotPositive
	}
	return d, nil
}

// LeaveOneOut sets row i of dst to the prediction of row from + i by the fit of all others, intercept included: y_i −
// α_i/G_ii with G = M − M11ᵀM/(1ᵀM1), M = (K+λI)⁻¹ (the inverse of a bordered matrix; Cawley & Talbot 2003, eq. 8).
// M_ii is the squared length of row i of U⁻¹. The last m rows of U⁻¹ are those of the inverse of the last m×m block of
// U, so leaving out the last m rows takes m³/6 multiply-adds. inverse is m×m scratch.
func (d *Dual) LeaveOneOut(dst, y, inverse dense.Matrix[float64], from int) error {
	n := y.Rows
	if err := Inverse(inverse, block(d.U, from, n, from, n)); err != nil {
		return err
	}
	tab := kern.Best[float64]()
	bad := make([]bool, n-from)
	par.For(n-from, 64, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			i := from + r
			g := tab.Norm2(inverse.Row(r)[r:]) - float64(d.ones[i]*d.ones[i])/d.sum
			if !(g > 0) {
				bad[r] = true
				continue
			}
			if d.roots != nil { // α belongs to S(y − f), whose coefficients are S⁻¹α
				g *= d.roots[i] * d.roots[i]
			}
			for c, t := range y.Row(i) {
				if dst.Row(r)[c] = t; g > 0 { // a row of weight 0 keeps its target: it has no prediction here
					dst.Row(r)[c] -= d.Alpha.At(i, c) / g
				}
			}
		}
	})
	for _, b := range bad {
		if b {
			return ErrNotPositive
		}
	}
	return nil
}

// CopyUpper copies the upper triangle of src to dst, in the memory of dst if that is large enough.
func CopyUpper(dst, src dense.Matrix[float64]) dense.Matrix[float64] {
	dst = buf.Shaped(dst, src.Rows, src.Cols)
	par.For(src.Rows, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(dst.Row(i)[i:], src.Row(i)[i:])
		}
	})
	return dst
}
