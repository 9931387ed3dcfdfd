package family

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

var (
	errSingular  = errors.New("matrix is singular")
	errNotFinite = errors.New("numbers are not finite")
)

func toMat(m dense.Matrix[float64]) *mat.Dense { return mat.NewDense(m.Rows, m.Cols, m.Clone().Data) }

func fromMat(m mat.Matrix) dense.Matrix[float64] {
	r, c := m.Dims()
	out := dense.New[float64](r, c)
	for i := range r {
		for j := range c {
			out.Set(i, j, m.At(i, j))
		}
	}
	return out
}

// invert returns the inverse of a square matrix, or errSingular if it is singular to working precision.
func invert(m dense.Matrix[float64]) (dense.Matrix[float64], error) {
	var inv mat.Dense
	if err := inv.Inverse(toMat(m)); err != nil {
		return dense.Matrix[float64]{}, errSingular
	}
	out := fromMat(&inv)
	if out.CheckFinite() != nil {
		return dense.Matrix[float64]{}, errSingular
	}
	return out, nil
}

// logDet returns log|det m| of a square matrix, or errSingular if it is singular to working precision.
func logDet(m dense.Matrix[float64]) (float64, error) {
	var lu mat.LU
	lu.Factorize(toMat(m))
	if !(lu.Cond() < mat.ConditionTolerance) {
		return math.Inf(-1), errSingular
	}
	det, _ := lu.LogDet()
	return det, nil
}

// binaryScale is the even exponent e for which the largest entry of 2^{-e} m is near 1. Scaling by 2^{-e}, and by its
// square root, is exact. A matrix with NaN or Inf is errNotFinite.
func binaryScale(m dense.Matrix[float64]) (e int, err error) {
	if m.CheckFinite() != nil {
		return 0, errNotFinite
	}
	var top float64
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			top = max(top, math.Abs(v))
		}
	}
	_, e = math.Frexp(top)
	return e &^ 1, nil
}

// scaledBy is 2^e m.
func scaledBy(m dense.Matrix[float64], e int) dense.Matrix[float64] {
	out := m.Clone()
	for i := range out.Data {
		out.Data[i] = math.Ldexp(out.Data[i], e)
	}
	return out
}

// eigSym is the decomposition m = U diag(values) Uᵀ of the symmetric part of m, values ascending. It works on a
// scaled matrix, so that only entries or eigenvalues that are not finite make it fail.
func eigSym(m dense.Matrix[float64]) (values []float64, u dense.Matrix[float64], err error) {
	e, err := binaryScale(m)
	if err != nil {
		return nil, u, err
	}
	m = scaledBy(m, -e)
	s := mat.NewSymDense(m.Rows, nil)
	for i := range m.Rows {
		for j := i; j < m.Cols; j++ {
			s.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(s, true) {
		return nil, u, errors.New("the symmetric eigensolver did not converge")
	}
	values = eig.Values(nil)
	for i := range values {
		values[i] = math.Ldexp(values[i], e)
		if !dense.IsFinite(values[i]) {
			return nil, u, errNotFinite
		}
	}
	var v mat.Dense
	eig.VectorsTo(&v)
	return values, fromMat(&v), nil
}

// spectral is f(m) = U diag(f(values)) Uᵀ for a symmetric matrix, such as a square root or its inverse. A result that
// is not finite is an error.
func spectral(m dense.Matrix[float64], f func(float64) float64) (dense.Matrix[float64], error) {
	values, u, err := eigSym(m)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	for j, v := range values {
		values[j] = f(v)
	}
	scaled := u.Clone()
	for i := range scaled.Rows {
		row := scaled.Row(i)
		for j, v := range values {
			row[j] *= v
		}
	}
	out := plan.Mul(scaled, plan.Transpose(u))
	if out.CheckFinite() != nil {
		return out, errNotFinite
	}
	return out, nil
}

func trace(m dense.Matrix[float64]) float64 {
	var t float64
	for i := range m.Rows {
		t += m.At(i, i)
	}
	return t
}

// vanishes reports whether a covariance is zero, or so small that its inverse would overflow.
func vanishes(cov dense.Matrix[float64]) bool { return trace(cov) < 1e-280 }

// ridged adds rel·trace/d to the diagonal, so that rank-deficient covariances can be inverted. A zero matrix stays
// zero.
func ridged(m dense.Matrix[float64], rel float64) dense.Matrix[float64] {
	c := m.Clone()
	eps := rel * trace(c) / float64(c.Rows)
	for i := range c.Rows {
		c.Row(i)[i] += eps
	}
	return c
}

// sqrtClamped is the square root, 0 for eigenvalues that rounding made negative.
func sqrtClamped(v float64) float64 { return math.Sqrt(max(v, 0)) }

// Match returns P = Cx^{-1/2}(Cx^{1/2} Cy Cx^{1/2})^{1/2} Cx^{-1/2}, for which A = P^{1/2} minimises
// E|Ax + A^{-T}y|² over invertible A for centred data, and that minimum, 2 tr (Cx^{1/2} Cy Cx^{1/2})^{1/2}
// (docs/theory.md §2.18). Both matrices must be positive definite; where they are not, or P overflows, the trace is
// NaN and P is empty.
func Match(cx, cy dense.Matrix[float64]) (p dense.Matrix[float64], minTrace float64) {
	p, minTrace, err := match(cx, cy)
	if err != nil {
		return dense.Matrix[float64]{}, math.NaN()
	}
	return p, minTrace
}

// match is Match with an error. It scales both matrices to order 1: P is homogeneous of degree -1/2 in Cx and 1/2 in
// Cy.
func match(cx, cy dense.Matrix[float64]) (p dense.Matrix[float64], minTrace float64, err error) {
	ex, errX := binaryScale(cx)
	ey, errY := binaryScale(cy)
	if err := errors.Join(errX, errY); err != nil {
		return p, 0, err
	}
	cx, cy = scaledBy(cx, -ex), scaledBy(cy, -ey)
	root, err := spectral(cx, sqrtClamped)
	if err != nil {
		return p, 0, err
	}
	inv, err := spectral(cx, func(v float64) float64 { return 1 / math.Sqrt(v) })
	if err != nil {
		return p, 0, err
	}
	middle, err := spectral(plan.Mul(root, plan.Mul(cy, root)), sqrtClamped)
	if err != nil {
		return p, 0, err
	}
	minTrace = math.Ldexp(2*trace(middle), (ex+ey)/2)
	p = scaledBy(plan.Mul(inv, plan.Mul(middle, inv)), (ey-ex)/2)
	for i := range p.Rows {
		for j := range i {
			s := (p.At(i, j) + p.At(j, i)) / 2
			p.Set(i, j, s)
			p.Set(j, i, s)
		}
	}
	if p.CheckFinite() != nil {
		return p, 0, errNotFinite
	}
	return p, minTrace, nil
}

// checkSquare checks that a parameter is a finite dim×dim matrix.
func checkSquare(f Family, name string, m dense.Matrix[float64], dim int) error {
	if m.Rows != dim || m.Cols != dim {
		return paramError(f, "%s is %d×%d, want %d×%d", name, m.Rows, m.Cols, dim, dim)
	}
	if err := m.Check(); err != nil {
		return paramError(f, "%s: %v", name, err)
	}
	if err := m.CheckFinite(); err != nil {
		return paramError(f, "%s: %v", name, err)
	}
	return nil
}
