package advise

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// Regret says how good a recommendation is on rows that the advice has not seen, beside what else could have been
// recommended.
type Regret struct {
	Name   string  `json:"name"`   // what was recommended
	Error  float64 `json:"error"`  // of it, by the measure of the report
	Best   string  `json:"best"`   // the best of all candidates
	Least  float64 `json:"least"`  // its error
	Factor float64 `json:"factor"` // Error over Least
	Sd     float64 `json:"sd"`     // standard deviation of the logarithm of Factor that the draws leave
	Draws  int     `json:"draws"`
}

// Regret measures, on fresh rows, the recommendation of a report on queries q and keys k (none: one set) and all other
// candidates with as many features, each fitted to all of q and k. o is the options of the report with the draws of the
// candidates that may be the best, which are others than those that the advice saw.
func (r *Report) Regret(ctx context.Context, q, k, freshQ, freshK dense.Matrix[float64], o Options) (Regret, error) {
	var out Regret
	oneSet := k.IsEmpty()
	o.Features, o.Target, o.PerToken, o.Seed = r.Features, 0, 0, rng.Mix64(o.Seed+0x7e57)
	o, err := o.complete(q.Cols)
	if err != nil {
		return out, err
	}
	if oneSet {
		k = q
	}
	s := &study{Options: o, dim: q.Cols, oneSet: oneSet}
	f := &fold{x: freshQ, y: freshK, same: oneSet}
	if oneSet {
		f.y = freshQ
	}
	if f.stats, err = randfeat.NewStats(randfeat.Spec{Kernel: o.Kernel, Dim: s.dim}, needs); err != nil {
		return out, err
	}
	if err := f.stats.AddQueries(q); err != nil {
		return out, err
	}
	if err := f.stats.AddKeys(k); err != nil {
		return out, err
	}
	if err := f.exact(&s.Options); err != nil {
		return out, err
	}
	s.folds = []*fold{f}
	if err := s.fitAll(); err != nil {
		return out, err
	}
	entrants := s.enterAll(o.Features)
	robust := r.Measure == Typical
	s.fixed = &robust
	ranked, err := s.race(ctx, entrants)
	if err != nil {
		return out, err
	}
	name := r.Ranking[r.Best].Name
	at := slices.IndexFunc(entrants, func(e *entrant) bool { return e.title() == name })
	if e := entrants[at]; e.twin != nil {
		at = slices.IndexFunc(entrants, func(o *entrant) bool {
			return o.variety == e.twin &&
				o.coupling == e.coupling
		})
	}
	e := entrants[at]
	if e.refused != "" {
		return out, fmt.Errorf("%s is no candidate on the fresh rows: %s: %w", name, e.refused, ErrOptions)
	}
	best := ranked[0]
	out = Regret{Name: name, Best: best.title(), Factor: 1, Draws: o.Draws}
	// The smallest of many figures is small by luck too: both are measured again, with draws that chose neither.
	s.first = 1 << 20
	mine := &entrant{variety: e.variety, coupling: e.coupling, m: e.m}
	both := []*entrant{mine}
	if e != best {
		both = append(both, &entrant{variety: best.variety, coupling: best.coupling, m: best.m})
	}
	if err := s.more(ctx, both, o.Draws); err != nil {
		return out, err
	}
	got := s.figure(mine)
	if out.Error, out.Least = got.value, got.value; e != best {
		least := s.figure(both[1])
		out.Least, out.Factor, out.Sd = least.value, got.value/least.value, math.Hypot(got.sd, least.sd)
	}
	return out, nil
}
