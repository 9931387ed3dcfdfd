package linalg

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// mixed solves with A = K + λI by a float32 factor of A. Conjugate gradients with the float64 matrix remove the errors
// of the factor (iterative refinement: Higham, Accuracy and Stability of Numerical Algorithms, ch. 12; with a Krylov
// method outside: Carson & Higham 2018). A float32 factorisation takes less than half the time of a float64 one.
type mixed struct {
	k      dense.Matrix[float64] // the complete matrix K, without λ
	lambda float64
	u      dense.Matrix[float32] // factor of K + (λ+δ)I, δ = mixedShift
	b      dense.Matrix[float32] // scratch
	rough  bool                  // u factors A itself in float32, and nothing is refined
}

const (
	// mixedTolerance is the residual |b − Ax|/|b| of every column. Since ‖K(K+λI)⁻¹‖ < 1, the predictions of training
	// rows have at most this error, relative to the length of the targets.
	mixedTolerance = 1e-9
	mixedSteps     = 40
	// marginTolerance is the same of a step of margins, which end at changes of a thousandth.
	marginTolerance = 1e-6
)

// mixedShift is δ, which keeps the matrix positive definite in float32: about the rounding error of a row of n numbers.
func mixedShift(n int) float64 { return float64(n) * 0x1p-26 }

// SolveDualMixed is SolveDual within mixedTolerance, for a symmetric k with all elements present. It takes 4n² further
// bytes and about half the time, and does not change k. A penalty smaller than least times mixedShift, or a matrix that
// turns out too near to singular, is ErrNotPositive.
func SolveDualMixed(k, y dense.Matrix[float64], lambda, least float64) (*Dual, error) {
	n, outs := y.Rows, y.Cols
	if k.Rows != n || k.Cols != n {
		return nil, fmt.Errorf("targets of %d rows for kernels of %d×%d: %w", n, k.Rows, k.Cols, dense.ErrShape)
	}
	shift := mixedShift(n)
	if !(lambda >= least*shift) {
		return nil, ErrNotPositive
	}
	m := &mixed{k: k, lambda: lambda, u: dense.New[float32](n, n)}
	par.For(n, 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, u := k.Row(i), m.u.Row(i)
			for j := i; j < n; j++ {
				u[j] = float32(row[j])
			}
			u[i] += float32(lambda + shift)
		}
	})
	if err := Cholesky(m.u); err != nil {
		return nil, err
	}
	b := dense.New[float64](n, outs+1)
	for i := range n {
		row := b.Row(i)
		copy(row, y.Row(i))
		row[outs] = 1
	}
	x := dense.New[float64](n, outs+1)
	if err := m.solve(x, b, mixedTolerance); err != nil {
		return nil, err
	}
	d, err := newDual(x, y, nil)
	if err == nil {
		d.mixed = m
	}
	return d, err
}

// SolveDualFloat32 is SolveDual in float32 throughout, Margins included. It is for trials that compare settings, whose
// differences are far larger than the rounding errors. It overwrites the upper triangle of k. Penalties should be far
// above the rounding error of the largest eigenvalue.
func SolveDualFloat32(k dense.Matrix[float32], y dense.Matrix[float64], lambda float64) (*Dual, error) {
	n, outs := y.Rows, y.Cols
	if k.Rows != n {
		return nil, fmt.Errorf("targets of %d rows for kernels of %d: %w", n, k.Rows, dense.ErrShape)
	}
	for i := range n {
		k.Row(i)[i] += float32(lambda)
	}
	if err := Cholesky(k); err != nil {
		return nil, err
	}
	m := &mixed{lambda: lambda, u: k, rough: true}
	b, x := dense.New[float64](n, outs+1), dense.New[float64](n, outs+1)
	for i := range n {
		copy(b.Row(i), y.Row(i))
		b.Row(i)[outs] = 1
	}
	if err := m.precondition(x, b); err != nil {
		return nil, err
	}
	d, err := newDual(x, y, nil)
	if err == nil {
		d.mixed = m
	}
	return d, err
}

// product sets dst = (K + λI)·v.
func (m *mixed) product(dst, v dense.Matrix[float64]) {
	tab := kern.Best[float64]()
	par.For(m.k.Rows, 32, func(lo, hi int) {
		part := dst.RowRange(lo, hi)
		tab.Product(part, m.k.RowRange(lo, hi), v, false)
		for i := lo; i < hi; i++ {
			tab.MulAdd(dst.Row(i), v.Row(i), m.lambda)
		}
	})
}

// precondition sets z = (UᵀU)⁻¹·r.
func (m *mixed) precondition(z, r dense.Matrix[float64]) error {
	if m.b.Rows != r.Rows || m.b.Cols != r.Cols {
		m.b = dense.New[float32](r.Rows, r.Cols)
	}
	for i := range r.Rows {
		b := m.b.Row(i)
		for c, v := range r.Row(i) {
			b[c] = float32(v)
		}
	}
	if err := SolveT(m.u, m.b); err != nil {
		return err
	}
	if err := Solve(m.u, m.b); err != nil {
		return err
	}
	for i := range z.Rows {
		row := z.Row(i)
		for c, v := range m.b.Row(i) {
			row[c] = float64(v)
		}
	}
	return nil
}

// solve solves A·x = b starting from the given x, by conjugate gradients in a form that tolerates a preconditioner with
// rounding errors (Notay 2000).
func (m *mixed) solve(x, b dense.Matrix[float64], tolerance float64) error {
	n, cols := b.Rows, b.Cols
	r, z, p, q := dense.New[float64](n, cols), dense.New[float64](n, cols), dense.New[float64](n, cols),
		dense.New[float64](n, cols)
	m.product(r, x)
	for i := range r.Data {
		r.Data[i] = b.Data[i] - r.Data[i]
	}
	wanted := columnDots(b, b)
	if err := m.precondition(z, r); err != nil {
		return err
	}
	copy(p.Data, z.Data)
	rz := columnDots(r, z)
	for range mixedSteps {
		small := true
		for c, v := range columnDots(r, r) {
			small = small && v <= tolerance*tolerance*wanted[c]
		}
		if small {
			return nil
		}
		m.product(q, p)
		step := columnDots(p, q)
		for c := range step {
			if step[c] = rz[c] / step[c]; !dense.IsFinite(step[c]) {
				step[c] = 0 // this column is solved, or cannot be: the residual tells which
			}
		}
		for i := range n {
			xi, ri, pi, qi := x.Row(i), r.Row(i), p.Row(i), q.Row(i)
			for c, a := range step {
				xi[c] += float64(a * pi[c])
				ri[c] -= float64(a * qi[c])
			}
		}
		if err := m.precondition(z, r); err != nil {
			return err
		}
		zq, next := columnDots(z, q), columnDots(r, z)
		for c := range zq {
			if zq[c] *= -step[c] / rz[c]; !dense.IsFinite(zq[c]) {
				zq[c] = 0
			}
		}
		rz = next
		for i := range n {
			pi, zi := p.Row(i), z.Row(i)
			for c, beta := range zq {
				pi[c] = zi[c] + float64(beta*pi[c])
			}
		}
	}
	return fmt.Errorf("residuals of conjugate gradients stay above %g: %w", tolerance, ErrNotPositive)
}

// columnDots are the inner products of the columns of a and b, in the order of rows; NaN becomes +Inf, so that
// comparisons fail.
func columnDots(a, b dense.Matrix[float64]) []float64 {
	sum := make([]float64, a.Cols)
	for i := range a.Rows {
		bi := b.Row(i)
		for c, v := range a.Row(i) {
			sum[c] += float64(v * bi[c])
		}
	}
	for c, v := range sum {
		if math.IsNaN(v) {
			sum[c] = math.Inf(1)
		}
	}
	return sum
}
