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
	"github.com/randfeat/randfeat/theory"
)

// Kernel advises on random features of the kernel between queries and keys, or within one set if k is empty. It takes
// seconds: the work is bounded by Options.Rows and Draws, not by the number of rows, except for one pass of statistics.
func Kernel(ctx context.Context, q, k dense.Matrix[float64], o Options) (*Report, error) {
	if err := kernel.CheckSet("queries", q); err != nil {
		return nil, err
	}
	oneSet := k.IsEmpty()
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
	if err := s.recommend(r, ranked, q, k); err != nil {
		return nil, err
	}
	if !s.Brief {
		if err := s.draw(ctx, r, ranked); err != nil {
			return nil, err
		}
	}
	r.explain()
	return r, nil
}

// answer races for the budget and fills in the ranking.
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
	if r.Measure = RMS; s.robust {
		r.Measure = Typical
	}
	for _, e := range s.last {
		if e.refused != "" {
			r.Refused = append(r.Refused, Candidate{Name: e.title(), Family: e.family.Name(),
				Coupling: e.coupling.Name(),
				Refused:  e.refused})
		}
	}
	return ranked, nil
}

// within gives every entrant the features that its time allows.
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
		n := int(float64(e.features) * float64(s.PerToken) / cost)
		spec, err := e.spec(s, 0).WithFeatures(min(n, maxFeatures))
		if err != nil {
			e.refused = fmt.Sprintf("%v allow for %d features: %v", s.PerToken, n, err)
			continue
		}
		if e.m = spec.M; e.m > 0 {
			e.features, err = spec.OutDim()
		}
		if err != nil {
			return nil, err
		}
	}
	return s.race(ctx, entrants)
}

// tie is how much worse than the best, by its logarithm, a candidate may be and still be preferred: for its cost, or,
// where
// medians rank, for the mean of its squares, which tells what else may happen.
const tie = 0.02

// shown is the number of candidates whose times are measured, predictions that of those whose closed forms are
// evaluated.
const shown, predictions = 12, 48

// recommend picks the map, fits it to all rows and writes down the ranking.
func (s *study) recommend(r *Report, ranked []*entrant, q, k dense.Matrix[float64]) error {
	best := s.figure(ranked[0]).value
	least := math.Inf(1)
	for i, e := range ranked {
		f := s.figure(e)
		if math.Log(f.value/best) > tie || len(e.draws) < len(ranked[0].draws) {
			break
		}
		// Counted costs, not times: those would make the recommendation differ from run to run.
		c, err := modelCost(e.spec(s, 0))
		if err != nil {
			return err
		}
		if s.robust {
			c = e.rms().value
		}
		if c < least {
			least, r.Best = c, i
		}
	}
	for i, e := range ranked {
		f := s.figure(e)
		wide := math.Exp(1.645 * f.sd)
		c := Candidate{Name: e.title(), Family: e.family.Name(), Coupling: e.coupling.Name(), Features: e.features,
			M:     e.m,
			Error: finite(f.value), Low: finite(f.value / wide), High: finite(f.value * wide),
			RMS:     finite(e.rms().value),
			Typical: finite(e.typical().value), Draws: len(e.draws), Positive: e.positive}
		if t := e.tail.index(); dense.IsFinite(t) {
			c.Tail = &t
		}
		var err error
		if c.Cost, err = modelCost(e.spec(s, 0)); err != nil {
			return err
		}
		if i < predictions {
			c.Predicted = s.predicted(e, e.m, 0)
		}
		if i < shown {
			if s.Costs == CostMeasured {
				if c.Cost, err = s.timedCost(e.spec(s, 0)); err != nil {
					return err
				}
			}
		}
		r.Ranking = append(r.Ranking, c)
	}
	e := ranked[r.Best]
	r.Features = e.features
	spec := e.spec(s, 0)
	spec.Family, spec.Seed = e.family, s.Seed
	if f, ok := e.family.(family.Fitter); ok && e.fits {
		st, err := s.statistics(q, k)
		if err != nil {
			return err
		}
		if spec.Family, err = f.Fit(st.Stats); err != nil {
			return err
		}
	}
	r.Spec = &spec
	r.Code = code(*r.Spec, e.family, e.fits, s.oneSet)
	if s.Kernel.Kind == kernel.Softmax && e.positive && !s.oneSet {
		var err error
		if r.Crossover, err = s.crossover(*r.Spec); err != nil {
			return err
		}
	}
	return nil
}

// statistics of all rows.
func (s *study) statistics(q, k dense.Matrix[float64]) (*randfeat.Stats, error) {
	st, err := randfeat.NewStats(randfeat.Spec{Kernel: s.Kernel, Dim: s.dim}, needs)
	if err != nil {
		return nil, err
	}
	return st, errors.Join(st.AddQueries(q), st.AddKeys(k))
}

// closedPairs bounds the pairs of a fold at which closed forms are evaluated.
const closedPairs = 64

// predicted is the root mean square error that theory expects of an entrant with m projections over pairs of the pilot,
// or nil where it has no closed form, or one of another kernel.
func (s *study) predicted(e *entrant, m int, folds int) *float64 {
	if folds == 0 {
		folds = len(s.folds)
	}
	var logs []float64
	for i, f := range s.folds[:folds] {
		spec := e.spec(s, i)
		est, err := family.Prepare(spec.Family, s.Kernel.Dim(s.dim))
		if err != nil {
			return nil
		}
		for p := range closedPairs {
			a, b := p*f.x.Rows/closedPairs, (p*7919+i)%f.y.Rows
			if !f.meets(a*f.y.Rows + b) {
				continue
			}
			moments, err := theory.Of(s.Kernel, est, e.coupling, m, f.x.Row(a), f.y.Row(b))
			if err != nil {
				return nil
			}
			logs = append(logs, moments.LogMSE+2*f.shift.At(a, b))
		}
	}
	if len(logs) == 0 {
		return nil
	}
	most := slices.Max(logs)
	if !dense.IsFinite(most) {
		return nil
	}
	var sum float64
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	v := finite(math.Exp((most + math.Log(sum/float64(len(logs)))) / 2))
	return &v
}

// reach finds the number of features for a target error: octaves of features until the target lies between two, then
// between them.
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
	robust := s.robust // one measure for all numbers of features
	s.fixed = &robust
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
	for range 6 { // more: by the law of large numbers, rather a little too many than too few
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
