package auto

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// ridgeTries are trials of least squares with a penalty: one ΦᵀΦ per fold of the sample serves all penalties and all
// folds. It is machine.Ridge for many λ at once, which shares features and products.
type ridgeTries struct {
	ctx      context.Context
	s        *sample
	task     machine.Task
	evidence bool // score by the marginal likelihood

	tab   *kern.Table[float64]
	ws    randfeat.Workspace[float64]
	phi   dense.Matrix[float64]
	spec  randfeat.Spec // of phi, parts and total
	parts []moments     // of the folds
	total moments
	gram  linalg.Gram[float64]    // its memory
	a     dense.Matrix[float64]   // F×F scratch
	u     []dense.Matrix[float64] // the same, one per goroutine
	pred  dense.Matrix[float64]
}

// moments are the sums of some rows.
type moments struct {
	n     float64
	gram  dense.Matrix[float64] // ΦᵀΦ, upper triangle
	cross dense.Matrix[float64] // F×K: ΦᵀT
	sum   []float64             // Σφ
	tSum  []float64             // Σt
	tt    []float64             // Σt²
}

func (m *moments) reset(f, k int) {
	m.n = 0
	m.gram, m.cross = buf.Shaped(m.gram, f, f), buf.Shaped(m.cross, f, k)
	clear(m.gram.Data)
	clear(m.cross.Data)
	m.sum, m.tSum, m.tt = make([]float64, f), make([]float64, k), make([]float64, k)
}

// add adds c times o.
func (m *moments) add(o *moments, c float64) {
	m.n += c * o.n
	par.For(m.gram.Rows, 32, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			addTo(m.gram.Row(i)[i:], o.gram.Row(i)[i:], c)
		}
	})
	addTo(m.cross.Data, o.cross.Data, c)
	addTo(m.sum, o.sum, c)
	addTo(m.tSum, o.tSum, c)
	addTo(m.tt, o.tt, c)
}

func addTo(dst, src []float64, c float64) {
	for i, v := range src {
		dst[i] += float64(c * v)
	}
}

// try is safe for any family whose features are finite.
func (r *ridgeTries) try(spec randfeat.Spec, lambdas []float64) ([]trial, error) {
	if err := r.sums(spec); err != nil || r.phi.Rows == 0 {
		return nil, err
	}
	n := r.s.len()
	ts := make([]trial, len(lambdas))
	for l := range ts {
		ts[l] = trial{spec: spec, lambda: lambdas[l], loss: make([]float64, n)}
		if r.task == machine.Classification {
			ts[l].tie = make([]float64, n)
		}
	}
	for j := range r.parts {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		if r.parts[j].n == 0 {
			continue
		}
		if err := r.leave(ts, j); err != nil {
			return nil, err
		}
	}
	var good []trial
	for l := range ts {
		t := &ts[l]
		if t.loss == nil {
			continue
		}
		t.score = -mean(t.loss)
		if r.evidence {
			if t.score = r.logEvidence(t.lambda) / float64(n); math.IsInf(t.score, 0) {
				continue
			}
		}
		good = append(good, *t)
	}
	return good, nil
}

// sums computes features and their products; there are none of features that overflow. Those of the last map are kept.
func (r *ridgeTries) sums(spec randfeat.Spec) error {
	if r.parts != nil && reflect.DeepEqual(spec, r.spec) {
		return nil
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		return err
	}
	if !m.Symmetric() {
		return fmt.Errorf("family %s maps queries and keys differently, ridge needs φ·φ: use a smoother or another family: %w", spec.Family.Name(), machine.ErrSetup)
	}
	r.spec = randfeat.Spec{}
	r.tab = kern.Best[float64]()
	r.phi = buf.Shaped(r.phi, r.s.len(), m.OutDim())
	if err := m.Queries(r.phi, nil, r.s.x, &r.ws); err != nil {
		return err
	}
	if r.phi.CheckFinite() != nil {
		r.phi = buf.Shaped(r.phi, 0, m.OutDim())
		return nil
	}
	if r.parts == nil {
		r.parts = make([]moments, r.s.folds())
	}
	r.total.reset(m.OutDim(), r.s.t.Cols)
	for j := range r.parts {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.gather(&r.parts[j], j)
		r.total.add(&r.parts[j], 1)
	}
	r.spec = spec
	return nil
}

// gather sums fold j.
func (r *ridgeTries) gather(p *moments, j int) {
	lo, hi := r.s.fold(j)
	phi, t := r.phi.RowRange(lo, hi), r.s.t.RowRange(lo, hi)
	p.reset(phi.Cols, t.Cols)
	p.n = float64(hi - lo)
	r.gram.Add(r.tab, p.gram, phi)
	linalg.AddProduct(r.tab, p.cross, phi, t)
	r.tab.ColSum(p.sum, phi)
	for i := range t.Rows {
		for k, v := range t.Row(i) {
			p.tSum[k] += v
			p.tt[k] += float64(v * v)
		}
	}
}

// centred writes the upper triangle of C = Σ(φ−μ)(φ−μ)ᵀ of total − part to r.a; part may be nil.
func (r *ridgeTries) centred(part *moments) (n float64, sum []float64) {
	f := r.total.gram.Rows
	r.a = buf.Shaped(r.a, f, f)
	n, sum = r.total.n, append([]float64(nil), r.total.sum...)
	if part != nil {
		n -= part.n
		addTo(sum, part.sum, -1)
	}
	par.For(f, 32, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			d := r.a.Row(i)
			copy(d[i:], r.total.gram.Row(i)[i:])
			if part != nil {
				for j, v := range part.gram.Row(i)[i:] {
					d[i+j] -= v
				}
			}
			c := sum[i] / n
			for j := i; j < f; j++ {
				d[j] -= float64(c * sum[j])
			}
			d[i] = max(d[i], 0)
		}
	})
	return n, sum
}

// factor is the factor of C + λI, in the memory of u.
func (r *ridgeTries) factor(u *dense.Matrix[float64], lambda float64) error {
	*u = buf.Shaped(*u, r.a.Rows, r.a.Rows)
	par.For(r.a.Rows, 32, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(u.Row(i)[i:], r.a.Row(i)[i:])
			u.Row(i)[i] += lambda
		}
	})
	return linalg.Cholesky(*u)
}

// leave predicts the rows of fold j by the models of the others. The loss of a penalty that is too small becomes nil.
func (r *ridgeTries) leave(ts []trial, j int) error {
	part := &r.parts[j]
	n, sum := r.centred(part)
	f, k := r.a.Rows, r.total.cross.Cols
	tMean := make([]float64, k)
	for c := range tMean {
		tMean[c] = (r.total.tSum[c] - part.tSum[c]) / n
	}
	all := dense.New[float64](f, k*len(ts))
	bias := make([]float64, k*len(ts))
	err := r.eachPenalty(len(ts), func(u *dense.Matrix[float64], l int) error {
		if ts[l].loss == nil {
			return nil
		}
		err := r.factor(u, ts[l].lambda)
		if errors.Is(err, linalg.ErrNotPositive) {
			ts[l].loss = nil
			return nil
		}
		if err != nil {
			return err
		}
		w := dense.New[float64](f, k)
		for i := range f {
			for c := range k {
				w.Set(i, c, r.total.cross.At(i, c)-part.cross.At(i, c)-float64(sum[i]*tMean[c]))
			}
		}
		if err := errors.Join(linalg.SolveT(*u, w), linalg.Solve(*u, w)); err != nil {
			return err
		}
		b := bias[l*k : (l+1)*k]
		copy(b, tMean)
		for i := range f {
			copy(all.Row(i)[l*k:], w.Row(i))
			for c, v := range w.Row(i) {
				b[c] -= float64(sum[i] / n * v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	lo, hi := r.s.fold(j)
	r.pred = buf.Shaped(r.pred, hi-lo, all.Cols)
	par.For(hi-lo, 1+r.tab.Grain/(f*all.Cols), func(a, b int) {
		r.tab.Product(r.pred.RowRange(a, b), r.phi.RowRange(lo+a, lo+b), all, false)
		for i := a; i < b; i++ {
			p := r.pred.Row(i)
			for c, v := range bias {
				p[c] += v
			}
			for l := range ts {
				if ts[l].loss != nil {
					r.judge(&ts[l], lo+i, p[l*k:(l+1)*k])
				}
			}
		}
	})
	return nil
}

// eachPenalty runs work for every penalty, several at a time: one factorisation of a few hundred features does not occupy
// more than one core.
func (r *ridgeTries) eachPenalty(n int, work func(u *dense.Matrix[float64], l int) error) error {
	workers := 1
	if r.a.Rows <= trialFeatures {
		workers = min(runtime.GOMAXPROCS(0), n)
	}
	for len(r.u) < workers {
		r.u = append(r.u, dense.Matrix[float64]{})
	}
	errs := make([]error, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for l := int(next.Add(1)) - 1; l < n; l = int(next.Add(1)) - 1 {
				errs[l] = work(&r.u[w], l)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// judge writes the losses of one row.
func (r *ridgeTries) judge(t *trial, i int, p []float64) {
	square := squared(p, r.s.t.Row(i))
	if r.task != machine.Classification {
		t.loss[i] = square
		return
	}
	t.tie[i] = square
	t.loss[i] = wrong(p, int(r.s.y.At(i, 0)))
}

func squared(p, t []float64) float64 {
	sum := 0.0
	for c, v := range p {
		sum += float64((v - t[c]) * (v - t[c]))
	}
	return sum
}

// wrong is 1 unless class y has the first of the largest scores.
func wrong(p []float64, y int) float64 {
	top := 0
	for c, v := range p {
		if v > p[top] {
			top = c
		}
	}
	if top == y {
		return 0
	}
	return 1
}

// logEvidence of all rows of the sample; see machine.Ridge.LogEvidence.
func (r *ridgeTries) logEvidence(lambda float64) float64 {
	n, sum := r.centred(nil)
	if len(r.u) == 0 {
		r.u = make([]dense.Matrix[float64], 1)
	}
	u := &r.u[0]
	if r.factor(u, lambda) != nil {
		return math.Inf(-1)
	}
	f, k := r.a.Rows, r.total.cross.Cols
	w := dense.New[float64](f, k)
	for i := range f {
		for c := range k {
			w.Set(i, c, r.total.cross.At(i, c)-float64(sum[i]*r.total.tSum[c]/n))
		}
	}
	// Q = Σ(t−t̄)² − |U⁻ᵀ b|² for b = Σ(φ−μ)(t−t̄).
	if linalg.SolveT(*u, w) != nil {
		return math.Inf(-1)
	}
	logDet := linalg.LogDet(*u)
	total := 0.0
	for c := range k {
		q := r.total.tt[c] - float64(r.total.tSum[c]*r.total.tSum[c]/n)
		for i := range f {
			q -= float64(w.At(i, c) * w.At(i, c))
		}
		v := q / (n - 1)
		if !(v > 0) {
			return math.Inf(-1)
		}
		total -= ((n-1)*math.Log(2*math.Pi*v) + math.Log(n) + logDet - float64(f)*math.Log(lambda) + n - 1) / 2
	}
	return total
}
