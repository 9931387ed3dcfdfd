package kernel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
)

// FromSigma is the Mahalanobis kernel exp(xᵀΣy) of a symmetric positive semidefinite Σ. It factors Σ = UΛUᵀ into M =
// Λ^{1/2}Uᵀ, with one row per positive eigenvalue. If M with Σ = MᵀM is known, use Mahalanobis, which needs no
// factorisation. A Σ that is not symmetric, not semidefinite or zero is ErrKernel.
func FromSigma(sigma dense.Matrix[float64]) (Kernel, error) {
	d := sigma.Rows
	if err := sigma.Check(); err != nil {
		return Kernel{}, fmt.Errorf("matrix Σ: %w", err)
	}
	if d < 1 || sigma.Cols != d {
		return Kernel{}, fmt.Errorf("matrix Σ is %d×%d, want a square matrix: %w", sigma.Rows, sigma.Cols,
			dense.ErrShape)
	}
	if err := sigma.CheckFinite(); err != nil {
		return Kernel{}, fmt.Errorf("matrix Σ: %w", err)
	}
	top := 0.0
	for i := range d {
		for _, v := range sigma.Row(i) {
			top = max(top, math.Abs(v))
		}
	}
	s := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range i + 1 {
			if a, b := sigma.At(i, j), sigma.At(j, i); math.Abs(a-b) > 1e-12*top {
				return Kernel{}, fmt.Errorf("matrix Σ is not symmetric: entries %d,%d and %d,%d are %v and %v: %w", i,
					j, j, i, a, b, ErrKernel)
			}
			s.SetSym(i, j, sigma.At(i, j))
		}
	}
	var e mat.EigenSym
	if !e.Factorize(s, true) {
		return Kernel{}, fmt.Errorf("matrix Σ: its eigenvalues did not converge: %w", ErrKernel)
	}
	values := e.Values(nil)
	// Rounding of a singular Σ leaves eigenvalues of this size on either side of zero.
	tiny := 1e-13 * float64(d) * math.Abs(values[d-1])
	if values[0] < -tiny {
		return Kernel{}, fmt.Errorf("matrix Σ is not positive semidefinite: it has the eigenvalue %.4g: %w", values[0],
			ErrKernel)
	}
	var u mat.Dense
	e.VectorsTo(&u)
	var rows [][]float64
	for k, l := range values {
		if l <= tiny {
			continue
		}
		row := make([]float64, d)
		for i := range row {
			row[i] = math.Sqrt(l) * u.At(i, k)
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return Kernel{}, fmt.Errorf("matrix Σ is zero: the kernel would be 1 everywhere: %w", ErrKernel)
	}
	m, err := dense.FromRows(rows)
	return Mahalanobis(m), err
}
