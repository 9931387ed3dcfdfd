package family

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

var errSingular = errors.New("matrix is singular")

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
	return fromMat(&inv), nil
}

// eigSym is the decomposition m = U diag(values) Uᵀ of the symmetric part of m, values ascending.
func eigSym(m dense.Matrix[float64]) (values []float64, u dense.Matrix[float64]) {
	s := mat.NewSymDense(m.Rows, nil)
	for i := range m.Rows {
		for j := i; j < m.Cols; j++ {
			s.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	var e mat.EigenSym
	if !e.Factorize(s, true) {
		panic("family: the symmetric eigensolver did not converge on a finite matrix")
	}
	var v mat.Dense
	e.VectorsTo(&v)
	return e.Values(nil), fromMat(&v)
}

// spectral is U diag(f(values)) Uᵀ for a symmetric matrix; f = pow gives square roots and their inverses.
func spectral(m dense.Matrix[float64], f func(float64) float64) dense.Matrix[float64] {
	values, u := eigSym(m)
	scaled := u.Clone()
	for i := range scaled.Rows {
		for j := range scaled.Cols {
			scaled.Row(i)[j] *= f(values[j])
		}
	}
	return plan.Mul(scaled, plan.Transpose(u))
}

// ridged adds rel·trace/d to the diagonal, so that rank-deficient covariances can be inverted.
func ridged(m dense.Matrix[float64], rel float64) dense.Matrix[float64] {
	c := m.Clone()
	var tr float64
	for i := range c.Rows {
		tr += c.At(i, i)
	}
	eps := rel * tr / float64(c.Rows)
	if eps == 0 {
		eps = rel // all rows equal: any small multiple of I
	}
	for i := range c.Rows {
		c.Row(i)[i] += eps
	}
	return c
}

func sqrtClamped(v float64) float64 { return math.Sqrt(max(v, 0)) }

// Match returns P = Cx^{-1/2}(Cx^{1/2} Cy Cx^{1/2})^{1/2} Cx^{-1/2}, for which A = P^{1/2} minimises
// E|Ax + A^{-T}y|² over invertible A for centred data, and that minimum, 2 tr (Cx^{1/2} Cy Cx^{1/2})^{1/2}
// (docs/theory.md §2.18). Both matrices must be positive definite.
func Match(cx, cy dense.Matrix[float64]) (p dense.Matrix[float64], minTrace float64) {
	root := spectral(cx, sqrtClamped)
	inv := spectral(cx, func(v float64) float64 { return 1 / math.Sqrt(v) })
	middle := spectral(plan.Mul(root, plan.Mul(cy, root)), sqrtClamped)
	for i := range middle.Rows {
		minTrace += 2 * middle.At(i, i)
	}
	p = plan.Mul(inv, plan.Mul(middle, inv))
	for i := range p.Rows {
		for j := range i {
			s := (p.At(i, j) + p.At(j, i)) / 2
			p.Set(i, j, s)
			p.Set(j, i, s)
		}
	}
	return p, minTrace
}

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
