package tabular

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// floatLeast is the smallest penalty of n rows that is solved in float32: eight roundings of the largest eigenvalue
// that a kernel matrix can have. Rounding errors of the elements are nearly independent, so the matrix of them is far
// smaller than their bound.
func floatLeast(n int) float64 { return float64(n) * 0x1p-21 }

// nearRows computes the distances that a kernel is a function of: −|u−v|²/2 (Gaussian), −Σ|u_l−v_l| (Laplace) or −|u−v|
// (Matérn). It fills the upper triangle, in the memory of near.
func nearRows[T dense.Float](near dense.Matrix[T], kind kernel.Kind, u dense.Matrix[T]) dense.Matrix[T] {
	n := u.Rows
	near = buf.Shaped(near, n, n)
	tab := kern.Best[T]()
	if kind == kernel.Laplace {
		columns := dense.New[T](u.Cols, n)
		for i := range n {
			for l, v := range u.Row(i) {
				columns.Set(l, i, v)
			}
		}
		par.For(n, 16, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := near.Row(i)[i:]
				tab.AbsSums(row, columns.ColRange(i, n), u.Row(i))
				tab.Scale(row, -1)
			}
		})
		return near
	}
	norms, root := make([]float64, n), kind.Matern() > 0
	tab.Norms(norms, u)
	var packed kern.Panel[T]
	tab.Pack(&packed, u)
	par.For(n, 64, func(lo, hi int) {
		tab.MulT(near.RowRange(lo, hi), u.RowRange(lo, hi), &packed, nil)
		for i := lo; i < hi; i++ {
			row := near.Row(i)
			for j := i; j < n; j++ {
				sum := norms[i] + norms[j]
				v := sum - 2*float64(row[j])
				if v < cancels*sum {
					v = 0
					for l, a := range u.Row(i) {
						d := a - u.At(j, l)
						v += float64(d * d)
					}
				}
				if root {
					row[j] = T(-math.Sqrt(v))
				} else {
					row[j] = T(-v / 2)
				}
			}
			row[i] = 0
		}
	})
	return near
}

// cancels is the fraction of |u|²+|v|² below which |u−v|² is summed from differences: the product form has lost most of
// its digits there.
const cancels = 1e-3

// kernelValues turns a row of distances into kernels of bandwidth s. value is scratch memory.
func kernelValues[T dense.Float](kind kernel.Kind, row, value []T, s float64) {
	tab := kern.Best[T]()
	factor := 1 / s
	switch kind {
	case kernel.Gaussian:
		factor /= s
	case kernel.Matern32, kernel.Matern52:
		factor *= math.Sqrt(float64(kind.Matern()))
	}
	tab.Scale(row, T(factor))
	value = value[:len(row)]
	switch kind {
	case kernel.Matern32:
		for j, a := range row { // −a of (1+a)exp(−a)
			value[j] = 1 - a
		}
	case kernel.Matern52:
		for j, a := range row {
			value[j] = 1 - a + a*a/3
		}
	default:
		tab.Exp(row, 0)
		return
	}
	tab.Exp(row, 0)
	tab.Mul(row, value)
}

// kernelsOf writes the kernels of bandwidth s to k, upper triangle.
func kernelsOf[T dense.Float](k, near dense.Matrix[T], kind kernel.Kind, s float64) dense.Matrix[T] {
	n := near.Rows
	k = buf.Shaped(k, n, n)
	par.For(n, 64, func(lo, hi int) {
		value := make([]T, n)
		for i := lo; i < hi; i++ {
			row := k.Row(i)[i:]
			copy(row, near.Row(i)[i:])
			kernelValues(kind, row, value, s)
			for j, v := range row {
				if v < negligible {
					row[j] = 0
				}
			}
		}
	})
	return k
}

// negligible kernels are far below the rounding errors of every penalty. Without the cut their products underflow, and
// processors take a hundred times as long for numbers near the smallest: 2,048 rows of chess in a narrow kernel took
// 39 s instead of 0.5 s.
const negligible = 1e-18

// solver solves kernel ridge regression of some rows in one number format. Its memory is reused.
type solver[T dense.Float] struct {
	k, u, inverse dense.Matrix[T]
	small         matrix // of one fold
}

// solved is the result of a factorisation with penalty λ: α, and g = (K+λI)⁻¹1 with the sum of its elements. With
// roots of weights, rows of K and targets are multiplied by them, and they stand for 1.
type solved[T dense.Float] struct {
	alpha, one dense.Matrix[T] // of the rows; one has one column
	intercept  []float64
	sum        float64
}

// factor factors K+λI of the kernels k, upper triangle, and solves for the targets t.
func (w *solver[T]) factor(k, t dense.Matrix[T], roots []float64, lambda float64) (*solved[T], error) {
	n, outs := t.Rows, t.Cols
	w.u = buf.Shaped(w.u, n, n)
	b := dense.New[T](n, outs+1)
	for i := range n {
		row, bi := w.u.Row(i)[i:], b.Row(i)
		copy(row, k.Row(i)[i:n])
		copy(bi, t.Row(i))
		bi[outs] = 1
		if roots != nil {
			for j := range row {
				row[j] *= T(roots[i] * roots[i+j])
			}
			for c := range bi {
				bi[c] *= T(roots[i])
			}
		}
		row[0] += T(lambda)
	}
	one := b.ColRange(outs, outs+1).Clone()
	targets := b.ColRange(0, outs).Clone()
	if err := linalg.Cholesky(w.u); err != nil {
		return nil, err
	}
	if err := errors.Join(linalg.SolveT(w.u, b), linalg.Solve(w.u, b)); err != nil {
		return nil, err
	}
	s := &solved[T]{alpha: b.ColRange(0, outs), one: b.ColRange(outs, outs+1), intercept: make([]float64, outs)}
	for i := range n {
		v := float64(s.one.At(i, 0))
		s.sum += v * float64(one.At(i, 0))
		for c, y := range targets.Row(i) {
			s.intercept[c] += v * float64(y)
		}
	}
	if !(s.sum > 0) {
		return nil, linalg.ErrNotPositive
	}
	for c := range s.intercept {
		s.intercept[c] /= s.sum
	}
	for i := range n {
		v := float64(s.one.At(i, 0))
		for c, a := range s.alpha.Row(i) {
			s.alpha.Row(i)[c] = T(float64(a) - v*s.intercept[c])
		}
	}
	if s.alpha.CheckFinite() != nil {
		return nil, linalg.ErrNotPositive
	}
	return s, nil
}

// allFolds predicts every fold of every deal by a fit of the others, from one factorisation of all rows. With
// G = (K+λI)⁻¹ − gg ᵀ/Σg the weights are α = Gy, and the predictions of the rows of a fold by all others are
// y_f − (G_ff)⁻¹α_f.
func (w *solver[T]) allFolds(near, t dense.Matrix[T], kind kernel.Kind, s float64, roots []float64, lambda float64,
	deals [][]int, folds int) ([]matrix, error) {
	w.k = kernelsOf(w.k, near, kind, s)
	d, err := w.factor(w.k, t, roots, lambda)
	if err != nil {
		return nil, err
	}
	n := t.Rows
	w.inverse = buf.Shaped(w.inverse, n, n)
	if err := linalg.Inverse(w.inverse, w.u); err != nil {
		return nil, err
	}
	linalg.InverseProduct(w.u, w.inverse)
	out := make([]matrix, len(deals))
	for r, fold := range deals {
		out[r] = dense.New[float64](n, t.Cols)
		for k := range folds {
			var rows []int
			for i, at := range fold {
				if at == k {
					rows = append(rows, i)
				}
			}
			if err := w.leaveOut(out[r], rows, d, t, roots); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// leaveOut writes the predictions of some rows by the others. w.u holds (K+λI)⁻¹, upper triangle.
func (w *solver[T]) leaveOut(out matrix, rows []int, d *solved[T], t dense.Matrix[T], roots []float64) error {
	m := len(rows)
	if m == 0 {
		return nil
	}
	w.small = buf.Shaped(w.small, m, m)
	z := dense.New[float64](m, t.Cols)
	for a, i := range rows {
		row, gi := w.small.Row(a), float64(d.one.At(i, 0))
		for b := a; b < m; b++ {
			j := rows[b]
			row[b] = float64(w.u.At(min(i, j), max(i, j))) - gi*float64(d.one.At(j, 0))/d.sum
		}
		for c, v := range d.alpha.Row(i) {
			z.Row(a)[c] = float64(v)
		}
	}
	if err := linalg.Cholesky(w.small); err != nil {
		return err
	}
	if err := errors.Join(linalg.SolveT(w.small, z), linalg.Solve(w.small, z)); err != nil {
		return err
	}
	for a, i := range rows {
		for c, y := range t.Row(i) {
			v := z.At(a, c)
			if roots != nil {
				v /= roots[i]
			}
			out.Row(i)[c] = float64(y) - v
		}
	}
	return nil
}

// oneFold fits the first m rows and predicts the others. It returns their predictions and the weights of the fit.
// margins asks for squared hinges instead of squared errors.
func (w *solver[T]) oneFold(near, t dense.Matrix[T], kind kernel.Kind, s float64, roots []float64, lambda float64,
	m int, margins bool) (pred matrix, alpha dense.Matrix[T], err error) {
	w.k = kernelsOf(w.k, near, kind, s)
	n, outs := near.Rows, t.Cols
	var intercept []float64
	if margins {
		d, err := w.margins(t.RowRange(0, m), lambda)
		if err != nil {
			return pred, alpha, err
		}
		alpha, intercept = dense.Convert[T](d.Alpha), d.Intercept
	} else {
		if roots != nil {
			roots = roots[:m]
		}
		d, err := w.factor(w.k, t.RowRange(0, m), roots, lambda)
		if err != nil {
			return pred, alpha, err
		}
		alpha, intercept = d.alpha, d.intercept
		for i := 0; roots != nil && i < m; i++ {
			for c := range alpha.Row(i) {
				alpha.Row(i)[c] *= T(roots[i])
			}
		}
	}
	sums := dense.New[T](n-m, outs)
	tab := kern.Best[T]()
	par.For(n-m, 32, func(lo, hi int) {
		tab.TMul(sums.RowRange(lo, hi), w.k.RowRange(0, m).ColRange(m+lo, m+hi), alpha)
	})
	pred = dense.Convert[float64](sums)
	for i := range pred.Rows {
		for c, v := range intercept {
			pred.Row(i)[c] += v
		}
	}
	return pred, alpha, nil
}

// marginSteps bounds the steps of margins in a trial; the last ones move few rows.
const marginSteps = 20

// margins fits squared hinges to the first rows of w.k.
func (w *solver[T]) margins(t dense.Matrix[T], lambda float64) (*linalg.Dual, error) {
	m, targets := t.Rows, dense.Convert[float64](t)
	var d *linalg.Dual
	var err error
	switch k := any(w.k).(type) {
	case dense.Matrix[float32]:
		u := dense.New[float32](m, m)
		for i := range m {
			copy(u.Row(i)[i:], k.Row(i)[i:m])
		}
		d, err = linalg.SolveDualFloat32(u, targets, lambda)
	case matrix:
		u := dense.New[float64](m, m)
		for i := range m {
			copy(u.Row(i)[i:], k.Row(i)[i:m])
		}
		d, err = linalg.SolveDual(u, targets, lambda)
	}
	if err == nil {
		err = d.Margins(targets, lambda, marginSteps)
	}
	return d, err
}
