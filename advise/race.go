package advise

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/par"
)

// study is one call of Kernel: the options, the rows and the results so far.
type study struct {
	Options
	dim    int
	oneSet bool
	folds  []*fold
	all    []*variety
	last   []*entrant // entrants of the last race
	crew   par.Crew[pilot]
	first  int // number of the first draw
}

// estimate is an error with the standard deviation of its logarithm.
type estimate struct{ value, sd float64 }

// rms is the root mean square over pairs and draws. Its standard deviation is over draws only, because
// candidates are compared on the same rows.
func (e *entrant) rms() estimate {
	var mean, square float64
	n := float64(len(e.draws))
	for _, d := range e.draws {
		mean += d.square / n
	}
	for _, d := range e.draws {
		square += (d.square - mean) * (d.square - mean) / (n - 1)
	}
	if mean == 0 { // the estimate is exact
		return estimate{}
	}
	return estimate{math.Sqrt(mean), math.Sqrt(square/n) / mean / 2}
}

// typical is the median over draws. Its standard deviation is that of the median of a log-normal sample.
func (e *entrant) typical() estimate {
	logs := make([]float64, len(e.draws))
	var mean, square float64
	n := float64(len(logs))
	for i, d := range e.draws {
		logs[i] = math.Log(max(d.typical, math.SmallestNonzeroFloat64))
		mean += logs[i] / n
	}
	for _, l := range logs {
		square += (l - mean) * (l - mean) / (n - 1)
	}
	slices.Sort(logs)
	mid := (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2
	return estimate{math.Exp(mid), math.Sqrt(math.Pi / 2 * square / n)}
}

// figure is the error that entrants are ranked by. If theory expects much more than the draws showed, the root
// mean square is raised to it: see unseen.
func (s *study) figure(e *entrant) estimate {
	if s.Measure == measureTypical {
		return e.typical()
	}
	f := e.rms()
	f.value *= s.unseen(e.variety)
	return f
}

// The mean squared error of a candidate is trusted if neither a few pairs nor a few draws make it up.
const (
	trustedIndex     = 2   // tail index of the squared errors, at least: below, their means have no normal limit
	trustedRows      = 4   // tail index of the rows' parts, at least: below, their variance cannot be estimated
	trustedVariation = 1   // coefficient of variation of the draws, at most
	trustedMean      = 0.5 // mean error of an unbiased map over its root mean square, at most
)

// trusted reports whether the draws determine the root mean square error of an entrant. If not, the rest of the
// error lies in rare pairs or draws. An unbiased map whose errors all have one sign has not shown its large
// values yet.
func (s *study) trusted(e *entrant) bool {
	rms := e.rms()
	if rms.value == 0 {
		return true
	}
	mean := 0.0
	for _, d := range e.draws {
		mean += d.mean / float64(len(e.draws))
	}
	variation := 2 * rms.sd * math.Sqrt(float64(len(e.draws)))
	return e.tail.index() > trustedIndex && e.rowIndex() > trustedRows && variation < trustedVariation &&
		s.unseen(e.variety) == 1 &&
		(e.landmarks || math.Abs(mean) <= trustedMean*rms.value)
}

// rounds of a race: after the given number of draws, at most keep candidates continue, without those that are
// worse beyond doubt.
var rounds = []struct{ draws, keep int }{{4, 64}, {8, 36}, {16, 24}, {32, 16}, {64, 12}, {128, 8}, {256, 6}}

// doubt is the number of standard deviations that decides. The standard deviation of a leader with a heavy tail
// counts heavyDoubt times.
const doubt, heavyDoubt = 3, 3

// first reports whether an entrant takes part in the first round. Plain couplings show how good a family is; the others
// join the survivors.
func (e *entrant) first() bool { return coupling.InfoOf(e.coupling).Plain }

// chance is the factor by which a family may be worse than the best one in the first look: other couplings and
// more draws may make up for it.
const chance = 2.5

// screen measures all varieties with the first couplings and returns the entrants of those that have a chance.
func (s *study) screen(ctx context.Context, entrants []*entrant) (in, out []*entrant, err error) {
	looks := slices.DeleteFunc(slices.Clone(entrants), func(e *entrant) bool {
		return e.refused != "" || s.Couplings == nil && !e.first() &&
			slices.ContainsFunc(entrants, func(o *entrant) bool {
				return o.variety == e.variety && o.refused == "" && o != e && o.first()
			})
	})
	if err := s.more(ctx, looks, rounds[0].draws); err != nil {
		return nil, nil, err
	}
	for i, e := range looks { // of varieties with the same map, the first stays, with all of its couplings
		for _, o := range looks[:i] {
			if o.refused == "" && e.refused == "" && o.variety != e.variety && e.same(o) {
				for _, all := range entrants {
					if all.variety == e.variety {
						all.refused, all.twin = "its fit is the map of "+o.name, o.variety
					}
				}
			}
		}
	}
	looks = slices.DeleteFunc(looks, func(e *entrant) bool { return e.refused != "" })
	good := map[*variety]bool{}
	least := math.Inf(1)
	for _, e := range looks {
		least = min(least, s.figure(e).value)
	}
	for _, e := range looks {
		good[e.variety] = good[e.variety] || s.figure(e).value <= chance*least
	}
	for _, e := range entrants {
		switch {
		case e.refused != "":
		case good[e.variety]:
			in = append(in, e)
		case len(e.draws) > 0:
			out = append(out, e)
		}
	}
	return in, out, nil
}

// race measures entrants until the best are known. It returns the survivors, best first, and then the others.
//
// Each round adds draws to the survivors and drops those that are worse beyond doubt, so most draws go to
// candidates that may still win. The race ends early when the first is settled.
//
// Landmarks run outside the race: inside it they would often end it before the best random features are known.
func (s *study) race(ctx context.Context, entrants []*entrant) ([]*entrant, error) {
	var marks []*entrant
	for _, e := range entrants {
		if e.landmarks && e.refused == "" {
			marks = append(marks, e)
		}
	}
	if err := s.more(ctx, marks, s.Draws); err != nil {
		return nil, err
	}
	marks = slices.DeleteFunc(marks, func(e *entrant) bool { return e.refused != "" })
	random := slices.DeleteFunc(slices.Clone(entrants), func(e *entrant) bool { return e.landmarks })
	left, out, err := s.screen(ctx, random)
	if err != nil {
		return nil, err
	}
	for i, round := range rounds {
		draws := min(round.draws, s.Draws)
		if err := s.more(ctx, slices.Concat(left, s.plain(left)), draws); err != nil {
			return nil, err
		}
		s.progress("race", draws, s.Draws)
		left = slices.DeleteFunc(left, func(e *entrant) bool { return e.refused != "" })
		if len(left) == 0 {
			return marks, nil
		}
		var gone []*entrant
		left, gone = s.best(left, round.keep)
		out = append(gone, out...)
		if draws == s.Draws || i >= 2 && s.settled(left) {
			break
		}
	}
	left = append(left, marks...)
	s.sort(left)
	s.sort(out)
	return append(left, out...), nil
}

// plain returns entrants with independent projections, for varieties that have none among the entrants. Theory is
// compared with them, with the same number of draws.
func (s *study) plain(left []*entrant) (out []*entrant) {
	for _, e := range s.last {
		if e.coupling == (coupling.IID{}) && e.refused == "" && !slices.Contains(left, e) &&
			slices.ContainsFunc(left, func(o *entrant) bool { return o.variety == e.variety }) {
			out = append(out, e)
		}
	}
	return out
}

// settled reports that no remaining entrant can be better than the first by more than a little. They are in
// order.
func (s *study) settled(left []*entrant) bool {
	const little, sure = 0.04, 2
	f := s.figure(left[0])
	for _, e := range left[1:] {
		if o := s.figure(e); math.Log(f.value/o.value)+sure*math.Hypot(f.sd, o.sd) > little {
			return false
		}
	}
	return true
}

// unseen is the factor by which theory expects more error of a variety than its draws have shown, or 1 if that
// is below rare or theory has no answer. Closed forms exist for independent projections, so those are compared;
// other couplings of the variety have the same tails. Without the factor, a map that answers 0 in all draws but
// the rarest would win wherever the others err by more than 1.
func (s *study) unseen(v *variety) float64 {
	if v.landmarks {
		return 1
	}
	at := slices.IndexFunc(s.last, func(e *entrant) bool {
		return e.variety == v && e.coupling == (coupling.IID{}) && e.refused == "" && len(e.draws) > 0
	})
	if at < 0 {
		return 1
	}
	e := s.last[at]
	if v.expected == nil || v.expectedM != e.m {
		if v.expected, v.expectedM = s.predicted(e, e.m, 0), e.m; v.expected == nil {
			v.expected = new(float64) // 0 means no closed form: do not ask again
		}
	}
	if f := *v.expected / e.rms().value; f > rare {
		return finite(f)
	}
	return 1
}

func (s *study) sort(e []*entrant) {
	slices.SortStableFunc(e, func(a, b *entrant) int { return cmp.Compare(s.figure(a).value, s.figure(b).value) })
}

// best divides entrants into those that may be the best, at most keep, and the others, each in order. The best
// entrant whose mean can be trusted always stays: it is the recommendation if the mean of the first cannot be
// trusted.
func (s *study) best(left []*entrant, keep int) (stay, gone []*entrant) {
	type measured struct {
		e *entrant
		estimate
	}
	var all []measured
	for _, e := range left {
		all = append(all, measured{e, s.figure(e)})
	}
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(a.value, b.value) })
	safe := slices.IndexFunc(all, func(m measured) bool { return s.trusted(m.e) })
	reference := all[0]
	if s.Measure == measureRMS && safe != 0 { // a heavy tail hides most of its spread in few draws
		reference.sd *= heavyDoubt
	}
	for i, m := range all {
		worse := math.Log(m.value / reference.value)
		if i > 0 && i != safe && (i >= keep || !(worse <= doubt*math.Hypot(m.sd, reference.sd)+0.05)) {
			gone = append(gone, m.e)
		} else {
			stay = append(stay, m.e)
		}
	}
	return stay, gone
}

// fitAll fits all varieties to every fold.
func (s *study) fitAll() error {
	s.all = s.varieties()
	return s.crew.Do(len(s.all), par.Workers(len(s.all), 1), step(func(_ *pilot,
		i int) error {
		return s.all[i].fit(s)
	}))
}

// enterAll returns all varieties with every coupling and at most the given number of features.
func (s *study) enterAll(features int) []*entrant {
	s.last = nil
	for _, v := range s.all {
		s.last = append(s.last, v.enter(s, features)...)
	}
	return s.last
}
