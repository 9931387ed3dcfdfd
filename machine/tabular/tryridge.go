package tabular

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// ridgeTries tries least squares with penalties. One matrix ΦᵀΦ per fold of the sample serves all penalties and
// folds, and features are computed once, for the sums and for the predictions. machine.Ridge does not keep features
// and would map every row once more per fold; the algebra is the same (linalg.Normal).
//
// Memory: 8nF bytes of features, a packed copy of those of one fold, and K + 3 matrices of 8F² bytes; up to
// trialFeatures features one more per goroutine. The memory is reused from map to map. It is always float64, even if
// the model will use float32.
type ridgeTries struct {
	ctx      context.Context
	s        *sample
	task     machine.Task
	evidence bool // score by the marginal likelihood

	tab   *kern.Table[float64]
	ws    randfeat.Workspace[float64]
	phi   dense.Matrix[float64]
	spec  randfeat.Spec   // the map of phi, parts and total; empty while they are computed
	parts []linalg.Normal // of the folds
	total linalg.Normal
	rest  linalg.Normal           // total without a fold
	gram  linalg.Gram[float64]    // its memory
	u     []dense.Matrix[float64] // F×F scratch, one per goroutine
	t     dense.Matrix[float64]   // targets and a column of ones
	pred  dense.Matrix[float64]
	// scaled holds the features of a fold times the roots of the weights of rows.
	scaled dense.Matrix[float64]
}

// try works with any family whose features are finite.
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
		if r.parts[j].N == 0 || j < r.s.scored() {
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
		t.loss, t.tie = r.s.judged(t.loss), r.s.judged(t.tie)
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

// sums computes the features and their products, none if features overflow. It keeps those of the last map, because
// penalties of one map are tried in several calls. While it computes, spec is empty, so that the incomplete sums of
// a cancelled call are not reused.
func (r *ridgeTries) sums(spec randfeat.Spec) error {
	if r.parts != nil && reflect.DeepEqual(spec, r.spec) {
		return nil
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		return err
	}
	if !m.Symmetric() {
		return fmt.Errorf("family %s maps queries and keys differently, ridge needs φ·φ: use a smoother or another "+
			"family: %w", spec.Family.Name(), machine.ErrSetup)
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
		r.parts = make([]linalg.Normal, r.s.folds())
	}
	r.total.Reset(m.OutDim(), r.s.t.Cols)
	for j := range r.parts {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.gather(&r.parts[j], j)
		r.total.Add(&r.parts[j], 1)
	}
	r.spec = spec
	return nil
}

// gather sums the rows of fold j into p.
func (r *ridgeTries) gather(p *linalg.Normal, j int) {
	lo, hi := r.s.fold(j)
	phi, k := r.phi.RowRange(lo, hi), r.s.t.Cols
	r.t = buf.Shaped(r.t, hi-lo, k+1)
	for i := range r.t.Rows {
		copy(r.t.Row(i), r.s.t.Row(lo+i))
		r.t.Row(i)[k] = 1
	}
	if r.s.weighted {
		r.scaled = buf.Shaped(r.scaled, phi.Rows, phi.Cols)
		for i := range phi.Rows {
			root := math.Sqrt(r.s.weight(lo + i))
			r.tab.Scale(r.t.Row(i), root)
			copy(r.scaled.Row(i), phi.Row(i))
			r.tab.Scale(r.scaled.Row(i), root)
		}
		phi = r.scaled
	}
	p.Reset(phi.Cols, k)
	p.N = int64(hi - lo)
	r.gram.Add(r.tab, p.Gram, phi)
	linalg.AddProduct(r.tab, p.Cross, phi, r.t)
	p.AddTargets(r.t)
}

// leave predicts the rows of fold j with models of the other folds. If a penalty is too small, its loss becomes nil.
// The sums of the other folds are the total minus fold j, which takes F² additions instead of K·F². The rounding
// error of the difference is of the order of that of ΦᵀΦ; a λ too small for it fails in the factorisation.
func (r *ridgeTries) leave(ts []trial, j int) error {
	if r.s.ordered {
		r.rest.Copy(&r.parts[0])
		for k := 1; k < j; k++ {
			r.rest.Add(&r.parts[k], 1)
		}
	} else {
		r.rest.Copy(&r.total)
		r.rest.Add(&r.parts[j], -1)
	}
	f, k := r.phi.Cols, r.s.t.Cols
	// The weights of all penalties stand side by side, so one product predicts with all of them.
	all := dense.New[float64](f, k*len(ts))
	bias := make([]float64, k*len(ts))
	err := r.eachPenalty(len(ts), func(u *dense.Matrix[float64], l int) error {
		if ts[l].loss == nil {
			return nil
		}
		s, err := r.rest.Solve(ts[l].lambda, *u)
		if errors.Is(err, linalg.ErrNotPositive) {
			ts[l].loss = nil
			return nil
		}
		if err != nil {
			return err
		}
		*u = s.U
		copy(bias[l*k:], s.Intercept())
		for i := range f {
			copy(all.Row(i)[l*k:], s.W.Row(i))
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

// eachPenalty runs work for every penalty, several at a time: one factorisation of a few hundred features does not
// occupy more than one core. Larger ones run in parallel inside, one after the other, which also bounds the scratch to
// one matrix. Which goroutine takes which penalty does not matter: each writes its own columns.
func (r *ridgeTries) eachPenalty(n int, work func(u *dense.Matrix[float64], l int) error) error {
	workers := 1
	if r.phi.Cols <= trialFeatures {
		workers = min(runtime.GOMAXPROCS(0), n)
	}
	for len(r.u) < workers {
		r.u = append(r.u, dense.Matrix[float64]{})
	}
	errs := make([]error, n)
	par.Each(n, workers, func(w, l int) { errs[l] = work(&r.u[w], l) })
	return errors.Join(errs...)
}

// judge writes the losses of row i.
func (r *ridgeTries) judge(t *trial, i int, p []float64) {
	square := squared(p, r.s.t.Row(i))
	if r.task != machine.Classification {
		t.loss[i] = square * r.s.weight(i)
		return
	}
	t.tie[i] = square * r.s.weight(i)
	t.loss[i] = wrong(p, int(r.s.y.At(i, 0))) * r.s.weight(i)
}

func squared(p, t []float64) float64 {
	sum := 0.0
	for c, v := range p {
		sum += float64((v - t[c]) * (v - t[c]))
	}
	return sum
}

// wrong returns 0 if class y has the largest score (the first one, if several are equal), else 1.
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

// saturation returns the saturation of least squares with penalty λ on the sample (see machine.Point), NaN if it
// cannot be computed.
func (r *ridgeTries) saturation(spec randfeat.Spec, lambda float64) (float64, error) {
	if err := r.sums(spec); err != nil || r.phi.Rows == 0 {
		return math.NaN(), err
	}
	s, err := r.total.Solve(lambda, dense.Matrix[float64]{})
	if errors.Is(err, linalg.ErrNotPositive) {
		return math.NaN(), nil
	}
	if err != nil {
		return 0, err
	}
	trace, err := linalg.TraceInverse(s.U)
	f := float64(r.phi.Cols)
	return (1 + f - lambda*trace) / f, err
}

// logEvidence returns the log marginal likelihood of all rows of the sample, each target with its best noise, or
// −Inf if there is none. No fold is held out: the marginal likelihood itself penalises parameters (Rasmussen &
// Williams 2006, §5.2).
func (r *ridgeTries) logEvidence(lambda float64) float64 {
	if len(r.u) == 0 {
		r.u = make([]dense.Matrix[float64], 1)
	}
	s, err := r.total.Solve(lambda, r.u[0])
	if err != nil {
		return math.Inf(-1)
	}
	r.u[0] = s.U
	total := 0.0
	for c := range s.Mean {
		v := s.Noise(c)
		if !(v > 0) {
			return math.Inf(-1)
		}
		total += s.LogEvidence(c, v)
	}
	return total
}
