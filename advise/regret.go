package advise

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// Regret compares the recommended map with the best candidate on rows that the advice has not seen.
type Regret struct {
	Name   string  `json:"name"`   // the recommended map
	Error  float64 `json:"error"`  // its error, by the measure of the report
	Best   string  `json:"best"`   // the best of all candidates
	Least  float64 `json:"least"`  // its error
	Factor float64 `json:"factor"` // Error divided by Least
	Sd     float64 `json:"sd"`     // standard deviation of the logarithm of Factor over draws
	Draws  int     `json:"draws"`
}

// Regret measures the recommendation of a report, and all other candidates with as many features, on fresh
// rows. Each is fitted to all of q and k (a zero k means one set). o holds the options of the report; its Draws
// apply to candidates that may be the best. The draws differ from those that the advice saw.
func (r *Report) Regret(ctx context.Context, q, k, freshQ, freshK dense.Matrix[float64], o Options) (Regret, error) {
	var out Regret
	s, err := r.fresh(q, k, freshQ, freshK, o, max(freshQ.Rows, freshK.Rows))
	if err != nil {
		return out, err
	}
	o = s.Options
	entrants := s.enterAll(o.Features)
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
		return out, fmt.Errorf("%s cannot be used on the fresh rows: %s: %w", name, e.refused, ErrOptions)
	}
	best := ranked[0]
	out = Regret{Name: name, Best: best.title(), Factor: 1, Draws: o.Draws}
	// The smallest of many figures is partly luck: measure both again, with draws that chose neither.
	s.first = freshDraws
	mine := e.again()
	both := []*entrant{mine}
	if e != best {
		both = append(both, best.again())
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

// Fresh is the error of candidate number i of the ranking on fresh rows, by the measure of the report. The
// candidate is fitted to all of q and k (a zero k means one set) and measured with draws that the advice did
// not see: o.Draws of them, or two for every 128 rows. In nine of ten cases the error on many fresh rows should
// be between Candidate.Low and High.
func (r *Report) Fresh(ctx context.Context, i int, q, k, freshQ, freshK dense.Matrix[float64], o Options) (float64,
	error) {
	s, err := r.fresh(q, k, freshQ, freshK, o, defaultRows)
	if err != nil {
		return 0, err
	}
	s.Features = r.Ranking[i].Features
	for _, e := range s.enterAll(s.Features) {
		if e.title() != r.Ranking[i].Name {
			continue
		}
		s.last, s.first = nil, freshDraws
		if err := s.more(ctx, []*entrant{e}, max(s.Draws, 2*len(s.folds))/len(s.folds)*len(s.folds)); err != nil {
			return 0, err
		}
		if e.refused != "" {
			return 0, fmt.Errorf("%s cannot be used on the fresh rows: %s: %w", e.title(), e.refused, ErrOptions)
		}
		return s.figure(e).value, nil
	}
	return 0, fmt.Errorf("%s cannot be used on the fresh rows: %w", r.Ranking[i].Name, ErrOptions)
}

// fresh returns a study whose folds have the given number of fresh rows each, with candidates fitted to all of
// q and k.
func (r *Report) fresh(q, k, freshQ, freshK dense.Matrix[float64], o Options, rows int) (*study, error) {
	oneSet := k.Rows == 0 && k.Cols == 0
	o.Features, o.Target, o.PerToken, o.Measure, o.Seed = r.Features, 0, 0, r.Measure, rng.Mix64(o.Seed+0x7e57)
	o, err := o.complete(q.Cols)
	if err != nil {
		return nil, err
	}
	if oneSet {
		k, freshK = q, freshQ
	}
	s := &study{Options: o, dim: q.Cols, oneSet: oneSet}
	stats, err := s.statistics(q, k)
	if err != nil {
		return nil, err
	}
	n := max(1, min(freshQ.Rows, freshK.Rows)/rows)
	for i := range n {
		f := &fold{stats: stats, same: oneSet, x: freshQ.RowRange(i*freshQ.Rows/n, (i+1)*freshQ.Rows/n),
			y: freshK.RowRange(i*freshK.Rows/n, (i+1)*freshK.Rows/n)}
		s.folds = append(s.folds, f)
	}
	if err := s.exact(); err != nil {
		return nil, err
	}
	return s, s.fitAll()
}
