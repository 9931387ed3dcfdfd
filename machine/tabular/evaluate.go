package tabular

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// evaluator tries candidates on the rows of a frame. It keeps the trials, the columns of each fold, and the distances
// of the last columns.
type evaluator struct {
	f       *frame
	trials  []*trial
	known   map[Candidate]*trial // nil: it could not be solved
	mu      sync.Mutex
	columns map[columnsKey]matrix
	medians map[medianKey]float64

	of      Candidate                            // whose distances near or nears hold
	nears   map[columnsKey]dense.Matrix[float32] // of folds
	near    dense.Matrix[float32]
	near64  matrix
	targets dense.Matrix[float32]
	workers []worker
}

type medianKey struct {
	columnsKey
	laplace bool
}

type worker struct {
	small solver[float32]
	large solver[float64]
}

func newEvaluator(f *frame) *evaluator {
	return &evaluator{f: f, known: map[Candidate]*trial{}, columns: map[columnsKey]matrix{},
		medians: map[medianKey]float64{}, targets: dense.Convert[float32](f.s.t)}
}

// parallelRows is the number of rows up to which candidates are tried in parallel. Larger factorisations occupy all
// processors by themselves.
const parallelRows = 1536

// evaluate tries candidates that were not tried before. Every row is predicted by models that have not seen its fold:
// neither when columns were learned, nor when they were fitted. It returns the trials of those that could be solved.
func (e *evaluator) evaluate(ctx context.Context, cs ...Candidate) ([]*trial, error) {
	var open []Candidate
	for _, c := range cs {
		if _, ok := e.known[c]; !ok {
			e.known[c] = nil
			open = append(open, c)
		}
	}
	ts, errs := make([]*trial, len(open)), make([]error, len(open))
	for lo := 0; lo < len(open); {
		hi := lo + 1
		for hi < len(open) && e.shares(open[lo], open[hi]) {
			hi++
		}
		if err := e.group(ctx, open[lo:hi], ts[lo:hi], errs[lo:hi]); err != nil {
			return nil, err
		}
		lo = hi
	}
	for i, t := range ts {
		if errs[i] != nil && !errors.Is(errs[i], linalg.ErrNotPositive) && !errors.Is(errs[i], dense.ErrNotFinite) {
			return nil, errs[i]
		}
		if errs[i] == nil {
			e.known[open[i]] = t
			e.trials = append(e.trials, t)
		}
	}
	var out []*trial
	for _, c := range cs {
		if t := e.known[c]; t != nil {
			out = append(out, t)
		}
	}
	return out, ctx.Err()
}

// whole reports whether one factorisation serves all folds of a candidate.
func (e *evaluator) whole(c Candidate) bool {
	return !e.f.learns(c) && !e.f.s.ordered && c.Loss != lossMargins
}

// shares reports whether two candidates have the same distances.
func (e *evaluator) shares(a, b Candidate) bool {
	return e.whole(a) && e.whole(b) && a.columns() == b.columns() && distanceOf(a.Kernel) == distanceOf(b.Kernel)
}

// distanceOf returns a kernel that stands for all kernels of the same distances (nearRows).
func distanceOf(k kernel.Kind) kernel.Kind {
	if k.Matern() > 0 {
		return kernel.Matern12
	}
	return k
}

// group tries candidates of the same distances.
func (e *evaluator) group(ctx context.Context, cs []Candidate, ts []*trial, errs []error) error {
	n := e.f.s.len()
	workers := 1
	if n <= parallelRows && e.whole(cs[0]) {
		workers = max(1, min(runtime.GOMAXPROCS(0), len(cs)))
	}
	for len(e.workers) < workers {
		e.workers = append(e.workers, worker{})
	}
	key := cs[0].columns()
	key.Kernel = distanceOf(cs[0].Kernel)
	if key.Loss = ""; !e.whole(cs[0]) {
		key.Loss = "each fold"
	}
	if key != e.of {
		e.of, e.near, e.near64, e.nears = key, e.near.RowRange(0, 0), matrix{}, map[columnsKey]dense.Matrix[float32]{}
	}
	if e.whole(cs[0]) {
		if err := e.distances(cs); err != nil {
			return err
		}
	}
	par.Each(len(cs), workers, func(w, l int) {
		if errs[l] = ctx.Err(); errs[l] != nil {
			return
		}
		ts[l] = &trial{Candidate: cs[l]}
		if e.whole(cs[l]) {
			errs[l] = e.allFolds(&e.workers[w], ts[l])
		} else {
			errs[l] = e.eachFold(ts[l])
		}
		if errs[l] == nil {
			errs[l] = e.f.judge(ts[l])
		}
	})
	return nil
}

// distances computes the distances of candidates, in the formats that their penalties need.
func (e *evaluator) distances(cs []Candidate) error {
	x, err := e.encoded(cs[0], 0, everyFold)
	if err != nil {
		return err
	}
	for _, c := range cs {
		e.median(c, 0, everyFold, x)
		switch exact := c.Lambda < floatLeast(x.Rows); {
		case exact && e.near64.Rows == 0:
			e.near64 = nearRows(e.near64, c.Kernel, centred[float64](x, seq(x.Rows)))
		case !exact && e.near.Rows == 0:
			e.near = nearRows(e.near, c.Kernel, centred[float32](x, seq(x.Rows)))
		}
	}
	return nil
}

// centred returns rows of x minus the mean of x: distances do not change, and products lose fewer digits.
func centred[T dense.Float](x matrix, rows []int) dense.Matrix[T] {
	centre := make([]float64, x.Cols)
	for i := range x.Rows {
		for l, v := range x.Row(i) {
			centre[l] += v / float64(x.Rows)
		}
	}
	u := dense.New[T](len(rows), x.Cols)
	for to, i := range rows {
		for l, v := range x.Row(i) {
			u.Row(to)[l] = T(v - centre[l])
		}
	}
	return u
}

// bandwidth returns the bandwidth of a candidate for rows in the given columns.
func (e *evaluator) bandwidth(c Candidate, deal, k int, x matrix) float64 {
	if s := e.f.o.Bandwidth; s > 0 {
		return s
	}
	return c.Width * e.median(c, deal, k, x)
}

func (e *evaluator) median(c Candidate, deal, k int, x matrix) float64 {
	key := medianKey{columnsKey{c.columns(), deal, k}, c.Kernel == kernel.Laplace}
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.medians[key]
	if !ok {
		m = medianDistance(x, c.Kernel, e.f.o.Seed)
		e.medians[key] = m
	}
	return m
}

// allFolds predicts all folds from one factorisation.
func (e *evaluator) allFolds(w *worker, t *trial) (err error) {
	c := t.Candidate
	s := e.bandwidth(c, 0, everyFold, matrix{})
	if c.Lambda < floatLeast(e.f.s.len()) {
		t.out, err = w.large.allFolds(e.near64, e.f.s.t, c.Kernel, s, e.f.roots, c.Lambda, e.f.fold, e.f.folds)
	} else {
		t.out, err = w.small.allFolds(e.near, e.targets, c.Kernel, s, e.f.roots, c.Lambda, e.f.fold, e.f.folds)
	}
	return err
}

// manyDeals is the number of rows up to which fits of single folds are repeated for every deal.
const manyDeals = 250

// eachFold predicts every fold by a fit of its own.
func (e *evaluator) eachFold(t *trial) error {
	f := e.f
	n := f.s.len()
	type part struct{ deal, fold int }
	var parts []part
	deals := len(f.fold)
	if n > manyDeals {
		deals = 1 // every fold is a fit of its own
	}
	for r := range deals {
		out := dense.New[float64](n, f.s.t.Cols)
		for i := range out.Data {
			out.Data[i] = math.NaN()
		}
		t.out = append(t.out, out)
		for k := range f.folds {
			if f.probe == 0 || r == 0 && k < f.probe {
				parts = append(parts, part{r, k})
			}
		}
	}
	workers := 1
	if n <= parallelRows {
		workers = max(1, min(runtime.GOMAXPROCS(0), len(parts)))
	}
	for len(e.workers) < workers {
		e.workers = append(e.workers, worker{})
	}
	errs := make([]error, len(parts))
	par.Each(len(parts), workers, func(w, p int) {
		errs[p] = f.ctx.Err()
		if errs[p] == nil {
			errs[p] = e.onePart(&e.workers[w], t, parts[p].deal, parts[p].fold)
		}
	})
	return errors.Join(errs...)
}

// foldNear returns the distances of rows in the columns of a fold. Those of the last columns are kept.
func (e *evaluator) foldNear(c Candidate, deal, k int, x matrix, rows []int) dense.Matrix[float32] {
	key := columnsKey{deal: deal, fold: k}
	e.mu.Lock()
	near, ok := e.nears[key]
	e.mu.Unlock()
	if !ok {
		near = nearRows(near, c.Kernel, centred[float32](x, rows))
		e.mu.Lock()
		e.nears[key] = near
		e.mu.Unlock()
	}
	return near
}

func (e *evaluator) onePart(w *worker, t *trial, deal, k int) error {
	f, c := e.f, t.Candidate
	held, from := f.rows(deal, k)
	if len(held) == 0 || len(from) < 2 || f.deal.horizon > 0 && len(from) < leastBefore {
		return nil
	}
	x, err := e.encoded(c, deal, k)
	if err != nil {
		return err
	}
	rows := append(from, held...)
	s := e.bandwidth(c, deal, k, x)

	var roots []float64
	for i := 0; f.roots != nil && i < len(rows); i++ {
		roots = append(roots, f.roots[rows[i]])
	}
	m, margins := len(from), c.Loss == lossMargins
	var pred matrix
	if c.Lambda < floatLeast(m) {
		near := nearRows(matrix{}, c.Kernel, centred[float64](x, rows))
		pred, _, err = w.large.oneFold(near, pick(f.s.t, rows), c.Kernel, s, roots, c.Lambda, m, margins)
	} else {
		pred, _, err = w.small.oneFold(e.foldNear(c, deal, k, x, rows), pick(e.targets, rows), c.Kernel, s,
			roots, c.Lambda, m, margins)
	}
	if err != nil {
		return err
	}
	for at, i := range held {
		copy(t.out[deal].Row(i), pred.Row(at))
	}
	return nil
}
