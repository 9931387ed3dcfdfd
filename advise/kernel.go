package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Kernel advises on features of the kernel between queries and keys, or within one set if k is the zero matrix.
// It takes seconds: Options.Rows and Draws bound the work, not the number of rows, except for one pass of
// statistics. Within one set Nyström features take part; Candidate.Biased marks them. Errors are [ErrOptions],
// those of invalid sets, and that there are too few different rows.
//
// The steps are: divide the rows into folds, compute facts, fit all varieties, race the candidates for the
// budget, choose and confirm the best with fresh draws, and write the report.
func Kernel(ctx context.Context, q, k dense.Matrix[float64], o Options) (*Report, error) {
	if err := kernel.CheckSet("queries", q); err != nil {
		return nil, err
	}
	oneSet := k.Rows == 0 && k.Cols == 0
	if oneSet {
		k = q
	} else if err := kernel.CheckSet("keys", k); err != nil {
		return nil, err
	}
	if q.Cols != k.Cols {
		return nil, fmt.Errorf("queries have %d columns, keys %d: %w", q.Cols, k.Cols, dense.ErrShape)
	}
	o, err := o.complete(q.Cols)
	if err != nil {
		return nil, err
	}
	if constant(q) && constant(k) {
		return nil, fmt.Errorf("all rows are equal, so the kernel has one value and any map will do: %w", errRows)
	}
	s := &study{Options: o, dim: q.Cols, oneSet: oneSet}
	if err := s.divide(q, k); err != nil {
		return nil, err
	}
	r := &Report{Kernel: o.Kernel, Dim: q.Cols, Queries: q.Rows, OneSet: oneSet, Seed: o.Seed, Loss: o.Loss,
		Costs: o.Costs}
	if !oneSet {
		r.Keys = k.Rows
	}
	if r.Facts, err = s.facts(q, k); err != nil {
		return nil, err
	}
	if err := s.fitAll(); err != nil {
		return nil, err
	}
	ranked, err := s.answer(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(ranked) == 0 {
		r.Reasons = append(r.Reasons, "No candidate can be used here: see why each was refused.")
		return r, nil
	}
	if ranked, err = s.recommend(ctx, r, ranked, q, k); err != nil {
		return nil, err
	}
	if !s.Brief {
		if err := s.equalTime(ctx, r, ranked); err != nil {
			return nil, err
		}
		if err := s.draw(ctx, r, ranked); err != nil {
			return nil, err
		}
	}
	r.explain()
	return r, nil
}

// constant reports whether all rows are equal.
func constant(x dense.Matrix[float64]) bool {
	for i := 1; i < x.Rows; i++ {
		if !slices.Equal(x.Row(i), x.Row(0)) {
			return false
		}
	}
	return true
}

// answer runs the race for the budget and fills in the refused candidates.
func (s *study) answer(ctx context.Context, r *Report) ([]*entrant, error) {
	var ranked []*entrant
	var err error
	switch {
	case s.Target > 0:
		ranked, err = s.reach(ctx, r)
	case s.PerToken > 0:
		ranked, err = s.within(ctx)
	default:
		ranked, err = s.race(ctx, s.enterAll(s.Features))
	}
	if err != nil {
		return nil, err
	}
	r.Measure = s.Measure
	for _, e := range s.last {
		if e.refused != "" {
			r.Refused = append(r.Refused, Candidate{Name: e.title(), Family: e.family.Name(),
				Coupling: e.couplingName(), Refused: e.refused})
		}
	}
	return ranked, nil
}

// within gives every entrant as many features as its time allows.
func (s *study) within(ctx context.Context) ([]*entrant, error) {
	entrants := s.enterAll(defaultFeatures)
	for _, e := range entrants {
		if e.refused != "" {
			continue
		}
		cost, err := s.cost(e)
		if err != nil {
			return nil, err
		}
		n := e.affordable(s.dim, float64(s.PerToken), cost)
		at, err := e.resized(s, n)
		if err != nil {
			e.refused = fmt.Sprintf("%v allow for %d features: %v", s.PerToken, n, err)
			continue
		}
		e.m, e.features, e.own = at.m, at.features, at.own
	}
	return s.race(ctx, entrants)
}

// Among candidates that hardly differ from the best, the cheapest is recommended. Ten percent of error is worth
// 20 % of the features, so a map that takes a quarter of the time may be worse by that much.
const (
	tie      = 0.02 // logarithm of an error ratio that counts as equal
	tieCheap = 0.1  // the same for a map that is cheaper by the factor cheap
	cheap    = 4
)

// choose returns the index of the recommended entrant. It is the first whose mean can be trusted, if the draws do not
// tell that it is worse than the very first; then the cheapest of those that hardly differ
// from it. Costs are counted, not timed: times would make the recommendation differ between runs.
func (s *study) choose(ranked []*entrant) (int, error) {
	draws := most(ranked)
	all := func(e *entrant) bool { return len(e.draws) >= e.enough(s, draws) }
	at := 0
	if s.Measure == measureRMS && !s.trusted(ranked[0]) {
		f := s.figure(ranked[0])
		high := f.value * math.Exp(doubt*f.sd)
		for i, e := range ranked {
			if s.figure(e).value > high {
				break
			}
			if all(e) && s.trusted(e) {
				at = i
				break
			}
		}
	}
	cost := func(e *entrant) (float64, error) { return modelCost(e.spec(s, 0)) }
	first, err := cost(ranked[at])
	if err != nil {
		return 0, err
	}
	best, least, from := s.figure(ranked[at]).value, first, at
	for i := from + 1; i < len(ranked); i++ {
		e := ranked[i]
		worse := math.Log(s.figure(e).value / best)
		if !(worse <= tieCheap) {
			break
		}
		if !all(e) || s.Measure == measureRMS && s.trusted(ranked[from]) && !s.trusted(e) {
			continue
		}
		c, err := cost(e)
		if err != nil {
			return 0, err
		}
		if c < least && (worse <= tie || cheap*c <= first) {
			least, at = c, i
		}
	}
	return at, nil
}

// confirm measures the leaders again with draws that did not choose them: the smallest of many measured errors
// is partly luck. It returns all entrants in their new order, and the place of the recommended one.
func (s *study) confirm(ctx context.Context, ranked []*entrant, recommended int) ([]*entrant, int, error) {
	var fresh, old []*entrant
	draws := most(ranked)
	for i, e := range ranked {
		if len(e.draws) >= e.enough(s, draws) && len(fresh) < shown || i == recommended {
			e = e.again()
			fresh = append(fresh, e)
		} else {
			old = append(old, e)
		}
		if i == recommended {
			ranked = slices.Clone(ranked)
			ranked[i] = e
		}
	}
	first := s.first
	s.first += freshDraws
	err := s.more(ctx, fresh, draws)
	s.first = first
	if err != nil {
		return nil, 0, err
	}
	mine := ranked[recommended]
	all := append(fresh, old...)
	s.sort(all)
	return all, slices.Index(all, mine), nil
}

// most is the largest number of draws of an entrant.
func most(ranked []*entrant) (n int) {
	for _, e := range ranked {
		n = max(n, len(e.draws))
	}
	return n
}

// freshDraws is the number of the first draw that is never used for choosing.
const freshDraws = 1 << 20

// recommend picks the map, fits it to all rows and writes the ranking, whose entrants it returns.
func (s *study) recommend(ctx context.Context, r *Report, ranked []*entrant, q, k dense.Matrix[float64]) ([]*entrant,
	error) {
	best, err := s.choose(ranked)
	if err != nil {
		return nil, err
	}
	if ranked, r.Best, err = s.confirm(ctx, ranked, best); err != nil {
		return nil, err
	}
	for i, e := range ranked {
		low, high, _ := s.interval(e)
		c := Candidate{Name: e.title(), Family: e.family.Name(), Coupling: e.couplingName(), Features: e.features,
			M: e.m, Error: finite(s.figure(e).value), Low: low, High: high, RMS: finite(e.rms().value),
			Median: e.tail.quantile(0.5), P95: e.tail.quantile(0.95),
			Typical: finite(e.typical().value), Draws: len(e.draws), Positive: e.positive, Biased: e.landmarks,
			Heavy: !s.trusted(e)}
		if t := e.tail.index(); dense.IsFinite(t) {
			c.Tail = &t
		}
		if c.Cost, err = modelCost(e.spec(s, 0)); err != nil {
			return nil, err
		}
		if i < predictions {
			c.Predicted = s.predicted(e, e.m, 0)
		}
		if i < shown && s.Costs == costMeasured {
			if c.Cost, err = s.timedCost(e.spec(s, 0)); err != nil {
				return nil, err
			}
		}
		r.Ranking = append(r.Ranking, c)
	}
	e := ranked[r.Best]
	r.Features = e.features
	spec := e.spec(s, 0)
	spec.Family, spec.Seed = e.family, s.Seed
	unfitted := e.family
	if e.fits {
		st, err := s.statistics(q, k)
		if err != nil {
			return nil, err
		}
		switch f := e.family.(type) {
		case family.Nystrom:
			f.N, f.Seed = e.wanted(), s.Seed
			unfitted = f
			spec.Family, err = f.FitKernel(s.Kernel.Kind, st.Stats)
		case family.Fitter:
			spec.Family, err = f.Fit(st.Stats)
		}
		if err != nil {
			return nil, err
		}
	}
	r.Spec = &spec
	r.Code = code(*r.Spec, unfitted, e.fits, s.oneSet)
	if s.Kernel.Kind == kernel.Softmax && e.positive && !s.oneSet {
		if r.Crossover, err = s.crossover(*r.Spec); err != nil {
			return nil, err
		}
	}
	return ranked, nil
}

// statistics collects the statistics of all rows.
func (s *study) statistics(q, k dense.Matrix[float64]) (*randfeat.Stats, error) {
	st, err := randfeat.NewStats(randfeat.Spec{Kernel: s.Kernel, Dim: s.dim}, needs)
	if err != nil {
		return nil, err
	}
	return st, errors.Join(st.AddQueries(q), st.AddKeys(k))
}

// reach finds the number of features for a target error: it halves or grows the number until the target lies
// between two tries. Growing uses the law error² ∝ 1/features.
func (s *study) reach(ctx context.Context, r *Report) ([]*entrant, error) {
	try := func(n int) ([]*entrant, float64, error) {
		ranked, err := s.race(ctx, s.enterAll(n))
		if err != nil || len(ranked) == 0 {
			return nil, 0, err
		}
		return ranked, s.figure(ranked[0]).value, nil
	}
	n := defaultFeatures
	ranked, e, err := try(n)
	if err != nil || ranked == nil {
		return nil, err
	}
	r.Target = &Target{Error: s.Target, Reached: e <= s.Target, Features: n}
	t := r.Target
	for e <= s.Target && n > 8 { // fewer, until it is too few
		less, f, err := try(n / 2)
		if err != nil {
			return nil, err
		}
		if n /= 2; less == nil || f > s.Target {
			break
		}
		ranked, e, t.Features = less, f, n
	}
	for range 6 { // more, rather a little too many than too few
		if t.Reached || e <= s.Target {
			break
		}
		grow := (e / s.Target) * (e / s.Target) * 1.1
		if want := grow * float64(n); want > 8*maxFeatures || n == maxFeatures {
			t.Features, t.Expected = int(min(math.Ceil(want), 1<<30)), true
			return ranked, nil
		}
		n = min(maxFeatures, 8*int(math.Ceil(math.Min(grow, 8)*float64(n)/8)))
		if ranked, e, err = try(n); err != nil || ranked == nil {
			return nil, err
		}
		t.Reached, t.Features = e <= s.Target, n
	}
	return ranked, nil
}
