package tabular

import (
	"errors"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// quick fits exact kernel ridge regression in float32, for searches that only compare settings. It takes half the time
// and memory of float64. Penalties below quickLeast are lost in rounding.
type quick struct {
	kind kernel.Kind
	u    dense.Matrix[float32] // rows in the coordinates of the metric
	t    dense.Matrix[float32] // targets
	near dense.Matrix[float32] // −|u−v|²/2, −Σ|u_l−v_l| or −|u−v|, as kernelValues needs it; upper triangle
	work []quickWork
	// classes are the targets of a classification; nil: there are none.
	classes []int
}

type quickWork struct {
	k, u, inverse dense.Matrix[float32]
	loo           dense.Matrix[float64]
	scale         float64 // of k; 0: none
}

// quickLeast is the smallest penalty of n rows in float32: eight roundings of the largest eigenvalue that a kernel
// matrix can have. Rounding errors of the elements are nearly independent, so the matrix of them is far smaller than
// their bound.
func quickLeast(n int) float64 { return float64(n) * 0x1p-21 }

// quickFit is the result of one fit.
type quickFit struct {
	at        exactPoint
	alpha     dense.Matrix[float32]
	intercept []float32
	loss      []float64 // of the rows from some on, each left out
	mean      float64   // of loss
}

// setRows takes rows and computes their distances.
func (q *quick) setRows(kind kernel.Kind, u, t dense.Matrix[float32], classes []int) {
	q.kind, q.u, q.t, q.classes = kind, u, t, classes
	for w := range q.work {
		q.work[w].scale = 0
	}
	q.near = nearRows(q.near, kind, u)
}

// nearRows computes the distances that a kernel is a function of: −|u−v|²/2, −Σ|u_l−v_l| (Laplace) or −|u−v| (Matérn).
// It fills the upper triangle, in the memory of near.
func nearRows(near dense.Matrix[float32], kind kernel.Kind, u dense.Matrix[float32]) dense.Matrix[float32] {
	n := u.Rows
	near = buf.Shaped(near, n, n)
	tab := kern.Best[float32]()
	if kind == kernel.Laplace {
		columns := dense.New[float32](u.Cols, n)
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
	var packed kern.Panel[float32]
	tab.Pack(&packed, u)
	par.For(n, 64, func(lo, hi int) {
		tab.MulT(near.RowRange(lo, hi), u.RowRange(lo, hi), &packed, nil)
		for i := lo; i < hi; i++ {
			row := near.Row(i)
			for j := i; j < n; j++ {
				sum := norms[i] + norms[j]
				v := sum - 2*float64(row[j])
				if v < cancels*sum { // the product has lost most of its digits
					v = 0
					for l, a := range u.Row(i) {
						d := a - u.At(j, l)
						v += float64(d * d)
					}
				}
				if root {
					row[j] = float32(-math.Sqrt(v))
				} else {
					row[j] = float32(-v / 2)
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

// median returns the median distance between rows, the unit of bandwidths.
func (q *quick) median(seed uint64) float64 {
	x := dense.Convert[float64](q.u)
	return medianDistance(&sample{x: x}, q.kind, seed)
}

// kernels sets w.k to the kernels of bandwidth s, upper triangle.
func (q *quick) kernels(w *quickWork, s float64) {
	if w.scale == s {
		return
	}
	n := q.u.Rows
	w.k, w.scale = buf.Shaped(w.k, n, n), s
	value := make([]float32, n)
	for i := range n {
		row := w.k.Row(i)[i:]
		copy(row, q.near.Row(i)[i:])
		kernelValues(q.kind, row, value, s)
	}
}

// try fits settings in parallel and leaves out those that are singular. Each fit has the losses of the rows from the
// index from on.
func (q *quick) try(points []exactPoint, from int) ([]quickFit, error) {
	workers := min(runtime.GOMAXPROCS(0), len(points))
	for len(q.work) < workers {
		q.work = append(q.work, quickWork{})
	}
	fits, errs := make([]quickFit, len(points)), make([]error, len(points))
	par.Each(len(points), workers, func(w, l int) { fits[l], errs[l] = q.one(&q.work[w], points[l], from) })
	var good []quickFit
	for l := range fits {
		switch {
		case errs[l] == nil:
			good = append(good, fits[l])
		case !errors.Is(errs[l], linalg.ErrNotPositive):
			return nil, errs[l]
		}
	}
	return good, nil
}

// one fits one setting.
func (q *quick) one(w *quickWork, at exactPoint, from int) (quickFit, error) {
	q.kernels(w, at.scale)
	f := quickFit{at: at}
	var err error
	if f.alpha, f.intercept, err = w.solve(q.t, nil, at.lambda, from); err != nil {
		return f, err
	}
	f.loss = make([]float64, w.loo.Rows)
	for r := range f.loss {
		f.loss[r] = q.lossOf(from+r, w.loo.Row(r))
	}
	f.mean = mean(f.loss)
	return f, nil
}

// solve is linalg.SolveDualWeighted and Dual.LeaveOneOut in float32 for the kernels in w.k. It returns the fit to
// targets t, and sets w.loo to the predictions of the rows from the index from on, each by a fit of all other rows.
func (w *quickWork) solve(t dense.Matrix[float32], roots []float64, lambda float64, from int) (dense.Matrix[float32],
	[]float32, error) {
	n, outs := t.Rows, t.Cols
	m := n - from
	w.u, w.inverse, w.loo = buf.Shaped(w.u, n, n), buf.Shaped(w.inverse, m, m), buf.Shaped(w.loo, m, outs)
	alpha, intercept := dense.New[float32](n, outs), make([]float32, outs)
	fail := func(err error) (dense.Matrix[float32], []float32, error) { return alpha, intercept, err }
	b := dense.New[float32](n, outs+1)
	for i := range n {
		row := w.u.Row(i)[i:]
		copy(row, w.k.Row(i)[i:])
		copy(b.Row(i), t.Row(i))
		b.Row(i)[outs] = 1
		if roots != nil {
			for j := range row {
				row[j] *= float32(roots[i] * roots[i+j])
			}
			for c := range b.Row(i) {
				b.Row(i)[c] *= float32(roots[i])
			}
		}
		row[0] += float32(lambda)
	}
	if err := linalg.Cholesky(w.u); err != nil {
		return fail(err)
	}
	last := w.u.RowRange(from, n).ColRange(from, n)
	err := linalg.Inverse(w.inverse, last)
	switch {
	case err != nil:
	case from == 0:
		err = linalg.SolveByInverse(w.inverse, b)
	default:
		err = errors.Join(linalg.SolveT(w.u, b), linalg.Solve(w.u, b))
	}
	if err != nil {
		return fail(err)
	}
	root := func(i int) float64 {
		if roots == nil {
			return 1
		}
		return roots[i]
	}
	sum, tops := 0.0, make([]float64, outs)
	for i := range n {
		v := float64(b.Row(i)[outs]) * root(i)
		sum += v
		for c, y := range t.Row(i) {
			tops[c] += float64(v * float64(y))
		}
	}
	if !(sum > 0) {
		return fail(linalg.ErrNotPositive)
	}
	for c := range tops {
		tops[c] /= sum
		intercept[c] = float32(tops[c])
	}
	for i := range n {
		bi, ai := b.Row(i), alpha.Row(i)
		for c := range ai {
			ai[c] = float32((float64(bi[c]) - float64(float64(bi[outs])*tops[c])) * root(i))
		}
	}
	if alpha.CheckFinite() != nil {
		return fail(linalg.ErrNotPositive)
	}
	tab := kern.Best[float32]()
	for r := range m {
		i := from + r
		one := float64(b.Row(i)[outs])
		g := tab.Norm2(w.inverse.Row(r)[r:]) - float64(one*one)/sum
		if !(g > 0) {
			return fail(linalg.ErrNotPositive)
		}
		g *= root(i) * root(i)
		loo, ai := w.loo.Row(r), alpha.Row(i)
		for c, y := range t.Row(i) {
			if loo[c] = float64(y); g > 0 { // a row of no weight is not predicted
				loo[c] -= float64(ai[c]) / g
			}
		}
	}
	return alpha, intercept, nil
}

// lossOf returns the loss of a row: the squared error, or for classes half of it (the Brier score) plus the error. The
// error alone is the target but noisy.
func (q *quick) lossOf(i int, pred []float64) float64 {
	sum := 0.0
	for c, t := range q.t.Row(i) {
		d := pred[c] - float64(t)
		sum += float64(d * d)
	}
	if q.classes == nil {
		return sum
	}
	return sum/2 + wrong(pred, q.classes[i])
}
