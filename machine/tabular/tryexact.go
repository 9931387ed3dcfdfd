package tabular

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// exactTries tries settings of exact kernel ridge regression on some rows. The last rows are judged: a closed form
// predicts each of them by a fit of all other rows (linalg.Dual). Penalties of at least quickLeast are solved in
// float32 in half the time, with more digits than trials or quantiles of residuals can show. Memory: 4n² bytes of
// distances, 8n² more for smaller penalties, and three matrices of 4n² or 8n² bytes per goroutine. Above parallelRows
// rows there is one goroutine.
type exactTries struct {
	ctx  context.Context
	task machine.Task

	x, y, t dense.Matrix[float64]
	small   dense.Matrix[float32] // t
	from    int                   // rows from here on are judged
	kind    kernel.Kind
	near    dense.Matrix[float32] // distances as kernelValues needs them, upper triangle
	log     dense.Matrix[float64] // −|x_i−x_j|²/2, or −Σ|x_il−x_jl| for the Laplace kernel; no rows: not needed yet
	work    []exactWork
	parts   *exactParts
	roots   []float64              // of the weights of rows; nil: none
	parted  map[partKey]partLosses // results of marginTries for these rows
	shifted bool                   // the border between classes will be moved: see judgeShifted
}

// exactWork is the memory of one goroutine. k holds the kernels of bandwidth scale; scale 0 means none.
type exactWork struct {
	k, u, inverse, loo dense.Matrix[float64]
	scale              float64
	small              quickWork // the same of larger penalties
}

// parallelRows is the number of rows up to which settings are tried in parallel. Larger factorisations occupy all
// processors by themselves.
const parallelRows = 1536

// judgedRows is the number of rows up to which all rows are judged. Of more rows half are judged, but at least
// judgedRows: leaving out m of n rows costs (m/n)³ of the factorisation.
const judgedRows = 768

// reset replaces the rows.
func (e *exactTries) reset(x, y, t dense.Matrix[float64]) error {
	e.x, e.y, e.t, e.small, e.parted = x, y, t, dense.Convert[float32](t), map[partKey]partLosses{}
	if e.from = 0; e.parts == nil {
		e.from = x.Rows - min(x.Rows, max(judgedRows, x.Rows/2))
	}
	return e.distances()
}

// distances computes near, and discards results of other rows or of another kind of distance.
func (e *exactTries) distances() error {
	if err := kernel.CheckSet("x", e.x); err != nil {
		return err
	}
	e.forget()
	e.log = e.log.RowRange(0, 0)
	u := dense.New[float32](e.x.Rows, e.x.Cols)
	centre := make([]float64, e.x.Cols) // distances do not change, and products lose fewer digits
	for i := range e.x.Rows {
		for l, v := range e.x.Row(i) {
			centre[l] += v / float64(e.x.Rows)
		}
	}
	for i := range e.x.Rows {
		to := u.Row(i)
		for l, v := range e.x.Row(i) {
			to[l] = float32(v - centre[l])
		}
	}
	e.near = nearRows(e.near, e.kind, u)
	return nil
}

// logs computes log for the kernels of small penalties. It fills the upper triangle and a few elements below.
func (e *exactTries) logs() error {
	n := e.x.Rows
	if e.log.Rows == n {
		return nil
	}
	of := kernel.Gaussian
	if e.kind == kernel.Laplace {
		of = e.kind
	}
	e.log = buf.Shaped(e.log, n, n)
	for lo := 0; lo < n; lo += distanceRows {
		hi := min(lo+distanceRows, n)
		err := kernel.LogGram(kernel.Kernel{Kind: of}, e.log.RowRange(lo, hi).ColRange(lo, n), e.x.RowRange(lo, hi),
			e.x.RowRange(lo, n))
		if err != nil {
			return err
		}
	}
	return nil
}

const distanceRows = 256

// forget discards kernel matrices of another kind or of other rows.
func (e *exactTries) forget() {
	for w := range e.work {
		e.work[w].scale, e.work[w].small.scale = 0, 0
	}
}

// take switches to another kernel.
func (e *exactTries) take(kind kernel.Kind) error {
	was := e.kind
	if e.kind = kind; (kind == kernel.Laplace) != (was == kernel.Laplace) {
		return e.distances()
	}
	if e.forget(); (kind.Matern() > 0) == (was.Matern() > 0) {
		return nil
	}
	par.For(e.near.Rows, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := e.near.Row(i)[i:]
			for j, v := range row {
				if kind.Matern() > 0 {
					row[j] = -float32(math.Sqrt(float64(-2 * v)))
				} else {
					row[j] = -v * v / 2
				}
			}
		}
	})
	return nil
}

// kernels returns the kernel matrix of bandwidth s, in the memory of worker w. It requires logs.
func (e *exactTries) kernels(w int, s float64) dense.Matrix[float64] {
	for len(e.work) <= w {
		e.work = append(e.work, exactWork{})
	}
	work := &e.work[w]
	if work.scale == s {
		return work.k
	}
	tab := kern.Best[float64]()
	k := buf.Shaped(work.k, e.log.Rows, e.log.Rows)
	par.For(k.Rows, 64, func(lo, hi int) {
		value := make([]float64, k.Cols)
		for i := lo; i < hi; i++ {
			row := k.Row(i)[i:]
			copy(row, e.log.Row(i)[i:])
			switch {
			case e.kind == kernel.Gaussian:
				tab.Scale(row, 1/(s*s))
			case e.kind == kernel.Laplace:
				tab.Scale(row, 1/s)
			default:
				values := value[:len(row)]
				for j, l := range row {
					v, a := e.kind.Decay(math.Sqrt(-2*l) / s)
					values[j], row[j] = v, -a
				}
				tab.Exp(row, 0)
				tab.Mul(row, values)
				continue
			}
			tab.Exp(row, 0)
		}
	})
	work.k, work.scale = k, s
	return k
}

// try tries settings and leaves out those that are singular.
func (e *exactTries) try(points []exactPoint) ([]trial, error) {
	workers := 1
	if e.x.Rows <= parallelRows {
		workers = min(runtime.GOMAXPROCS(0), len(points))
	}
	for len(e.work) < workers {
		e.work = append(e.work, exactWork{})
	}
	least := quickLeast(e.x.Rows)
	if slices.ContainsFunc(points, func(p exactPoint) bool { return e.parts != nil || p.lambda < least }) {
		if err := e.logs(); err != nil { // not by several workers at once
			return nil, err
		}
	}
	ts, errs := make([]trial, len(points)), make([]error, len(points))
	par.Each(len(ts), workers, func(w, l int) {
		if errs[l] = e.ctx.Err(); errs[l] == nil {
			ts[l], errs[l] = e.one(w, points[l])
		}
	})
	var good []trial
	for l := range ts {
		switch {
		case errs[l] == nil:
			good = append(good, ts[l])
		case !errors.Is(errs[l], linalg.ErrNotPositive):
			return nil, errs[l]
		}
	}
	return good, nil
}

// one tries one setting in the memory of worker w.
func (e *exactTries) one(w int, at exactPoint) (trial, error) {
	loo, err := e.leaveOut(w, at)
	if err != nil {
		return trial{}, err
	}
	n := e.x.Rows
	t := trial{spec: randfeat.Spec{Kernel: kernel.Kernel{Kind: e.kind, Scale: at.scale}}, lambda: at.lambda}
	if e.shifted {
		return t, e.judgeShifted(&t, loo)
	}
	judgeAll(e.task, &t, loo, e.y.RowRange(e.from, n), e.t.RowRange(e.from, n))
	e.weigh(t.loss)
	e.weigh(t.tie)
	t.loss, t.tie = e.parts.scored(t.loss), e.parts.scored(t.tie)
	t.score = -mean(t.loss)
	return t, nil
}

// leaveOut predicts the judged rows, each by a fit without it, in the memory of worker w.
func (e *exactTries) leaveOut(w int, at exactPoint) (dense.Matrix[float64], error) {
	n := e.x.Rows
	for len(e.work) <= w {
		e.work = append(e.work, exactWork{})
	}
	if small := &e.work[w].small; e.parts == nil && at.lambda >= quickLeast(n) {
		e.smallKernels(small, at.scale)
		_, _, err := small.solve(e.small, e.roots, at.lambda, e.from)
		return small.loo, err
	}
	if err := e.logs(); err != nil {
		return dense.Matrix[float64]{}, err
	}
	k, work, m := e.kernels(w, at.scale), &e.work[w], n-e.from
	work.inverse, work.loo = buf.Shaped(work.inverse, m, m), buf.Shaped(work.loo, m, e.t.Cols)
	if e.parts != nil {
		return work.loo, e.heldOut(work, at.lambda)
	}
	work.u = linalg.CopyUpper(work.u, k)
	d, err := linalg.SolveDualWeighted(work.u, e.t, e.roots, at.lambda)
	if err == nil {
		err = d.LeaveOneOut(work.loo, e.t, work.inverse, e.from)
	}
	return work.loo, err
}

// smallKernels sets w.k to the float32 kernels of bandwidth s, upper triangle.
func (e *exactTries) smallKernels(w *quickWork, s float64) {
	if w.scale == s {
		return
	}
	n := e.near.Rows
	w.k = buf.Shaped(w.k, n, n)
	par.For(n, 64, func(lo, hi int) {
		value := make([]float32, n)
		for i := lo; i < hi; i++ {
			row := w.k.Row(i)[i:]
			copy(row, e.near.Row(i)[i:])
			kernelValues(e.kind, row, value, s)
		}
	})
	w.scale = s
}

// kernelValues turns a row of −|u−v|²/2 (Gaussian), −Σ|u_l−v_l| (Laplace) or −|u−v| (Matérn) into kernels of bandwidth
// s. value is scratch memory.
func kernelValues(kind kernel.Kind, row, value []float32, s float64) {
	tab := kern.Best[float32]()
	factor := 1 / s
	switch kind {
	case kernel.Gaussian:
		factor /= s
	case kernel.Matern32, kernel.Matern52:
		factor *= math.Sqrt(float64(kind.Matern()))
	}
	tab.Scale(row, float32(factor))
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

// judgeAll computes the losses of predictions. y holds the targets, and t the same targets as numbers.
func judgeAll(task machine.Task, tr *trial, pred, y, t dense.Matrix[float64]) {
	tr.loss = make([]float64, pred.Rows)
	for i := range tr.loss {
		tr.loss[i] = squared(pred.Row(i), t.Row(i))
	}
	if task == machine.Classification {
		tr.tie, tr.loss = tr.loss, make([]float64, pred.Rows)
		for i := range tr.loss {
			tr.loss[i] = wrong(pred.Row(i), int(y.At(i, 0)))
		}
	}
	tr.score = -mean(tr.loss)
}
