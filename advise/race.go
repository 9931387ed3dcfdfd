package advise

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/par"
)

// study is one question: what is asked, the rows, and what was found.
type study struct {
	Options
	dim    int
	oneSet bool
	folds  []*fold
	all    []*variety
	last   []*entrant // of the last race
	crew   par.Crew[pilot]
	robust bool  // ranked by typical errors instead of the root mean square
	fixed  *bool // what robust is to be, whatever the tails
	first  int   // number of the first draw
}

// estimate is an error with the standard deviation of its logarithm.
type estimate struct{ value, sd float64 }

func (e *entrant) rms() estimate {
	var mean, square float64
	n := float64(len(e.draws))
	for _, d := range e.draws {
		mean += d.square / n
	}
	for _, d := range e.draws {
		square += (d.square - mean) * (d.square - mean) / (n - 1)
	}
	return estimate{math.Sqrt(mean), math.Sqrt(square/n) / mean / 2}
}

// typical is the median over draws; its standard deviation is that of a median of normal logarithms.
func (e *entrant) typical() estimate {
	logs := make([]float64, len(e.draws))
	var mean, square float64
	n := float64(len(logs))
	for i, d := range e.draws {
		logs[i] = math.Log(d.typical)
		mean += logs[i] / n
	}
	for _, l := range logs {
		square += (l - mean) * (l - mean) / (n - 1)
	}
	slices.Sort(logs)
	mid := (logs[(len(logs)-1)/2] + logs[len(logs)/2]) / 2
	return estimate{math.Exp(mid), math.Sqrt(math.Pi / 2 * square / n)}
}

// figure is what entrants are ranked by.
func (s *study) figure(e *entrant) estimate {
	if s.robust {
		return e.typical()
	}
	return e.rms()
}

// trusted says that the mean of the squared errors can be measured: no few pairs make it up, and no few draws.
func (e *entrant) trusted() bool {
	variation := 2 * e.rms().sd * math.Sqrt(float64(len(e.draws))) // coefficient of variation of draws
	return e.tail.index() > trustedIndex && variation < trustedVariation
}

const trustedIndex, trustedVariation = 1.5, 1

// rounds of a race: after so many draws at most so many go on, and those that are worse beyond doubt do not.
var rounds = []struct{ draws, keep int }{{4, 64}, {8, 36}, {16, 24}, {32, 16}, {64, 12}, {128, 8}, {256, 6}}

// doubt is the number of standard deviations that decides.
const doubt = 3

// first are the couplings that tell what a family is worth; the others join those that are left after a first look.
var first = []string{"iid", "orthogonal", "simplex"}

// chance is the factor by which a family may be worse than the best one in the first look: other couplings and more
// draws may make up for it.
const chance = 2.5

// screen measures all varieties with the first couplings and returns the entrants of those that have a chance.
func (s *study) screen(ctx context.Context, entrants []*entrant) (in, out []*entrant, err error) {
	looks := slices.DeleteFunc(slices.Clone(entrants), func(e *entrant) bool {
		return e.refused != "" || s.Couplings == nil && !slices.Contains(first, e.coupling.Name()) &&
			slices.ContainsFunc(entrants, func(o *entrant) bool {
				return o.variety == e.variety && o.refused == "" && o != e && slices.Contains(first, o.coupling.Name())
			})
	})
	if err := s.more(ctx, looks, rounds[0].draws); err != nil {
		return nil, nil, err
	}
	for i, e := range looks { // the first of a name's twins stays, with all of its couplings
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
	for _, figure := range []func(*entrant) estimate{(*entrant).rms, (*entrant).typical} {
		least := math.Inf(1)
		for _, e := range looks {
			least = min(least, figure(e).value)
		}
		for _, e := range looks {
			good[e.variety] = good[e.variety] || figure(e).value <= chance*least
		}
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

// race measures entrants until the best are known. It returns those that stayed by their figures, best first, and then
// those that dropped out.
func (s *study) race(ctx context.Context, entrants []*entrant) ([]*entrant, error) {
	left, out, err := s.screen(ctx, entrants)
	if err != nil {
		return nil, err
	}
	for i, round := range rounds {
		draws := min(round.draws, s.Draws)
		if err := s.more(ctx, left, draws); err != nil {
			return nil, err
		}
		s.progress("race", draws, s.Draws)
		left = slices.DeleteFunc(left, func(e *entrant) bool { return e.refused != "" })
		if len(left) == 0 {
			return nil, nil
		}
		var gone []*entrant
		if i < 2 { // which figure is to be trusted is not known yet
			a, _ := s.best(left, round.keep, (*entrant).rms)
			b, _ := s.best(left, round.keep, (*entrant).typical)
			both := slices.Concat(a, b)
			s.decide(left)
			s.sort(left)
			left, gone = slices.DeleteFunc(slices.Clone(left), func(e *entrant) bool {
				return !slices.Contains(both,
					e)
			}),
				slices.DeleteFunc(left, func(e *entrant) bool { return slices.Contains(both, e) })
		} else {
			s.decide(left)
			left, gone = s.best(left, round.keep, s.figure)
		}
		out = append(gone, out...)
		if draws == s.Draws || i >= 2 && s.settled(left) {
			break
		}
	}
	s.sort(left)
	s.sort(out)
	return append(left, out...), nil
}

// settled says that the first of those left, which are in order, is worse than none of them by more than little.
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

// decide chooses the figure: the root mean square, unless the candidate that has the smallest cannot be trusted with
// it,
// or is as bad as an estimate of zero, which always errs by 1 and so has no tail.
func (s *study) decide(left []*entrant) {
	least := slices.MinFunc(left, func(a, b *entrant) int { return cmp.Compare(a.rms().value, b.rms().value) })
	if s.fixed != nil {
		s.robust = *s.fixed
		return
	}
	s.robust = !least.trusted() || least.rms().value > useless || s.unseen(least.variety)
}

// rare is the factor by which theory may expect more than was measured before the rest must lie in rare draws.
const rare = 1.5

// unseen says that the draws of a variety have missed most of its error: theory, which knows independent rows best,
// expects more of those than they showed.
func (s *study) unseen(v *variety) bool {
	at := slices.IndexFunc(s.last, func(e *entrant) bool {
		return e.variety == v && e.coupling == (coupling.IID{}) && e.refused == "" && len(e.draws) > 0
	})
	if at < 0 {
		return false
	}
	e := s.last[at]
	if v.expected == nil || v.expectedM != e.m {
		v.expected, v.expectedM = s.predicted(e, e.m, 0), e.m
	}
	return v.expected != nil && *v.expected > rare*e.rms().value
}

// useless is an error beyond which means say more about tails than about estimators.
const useless = 0.7

func (s *study) sort(e []*entrant) {
	slices.SortStableFunc(e, func(a, b *entrant) int { return cmp.Compare(s.figure(a).value, s.figure(b).value) })
}

// best divides entrants into those that may be the best, at most keep, and the others, each in order.
func (s *study) best(left []*entrant, keep int, figure func(*entrant) estimate) (stay, gone []*entrant) {
	type measured struct {
		e *entrant
		estimate
	}
	var all []measured
	for _, e := range left {
		all = append(all, measured{e, figure(e)})
	}
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(a.value, b.value) })
	for i, m := range all {
		worse := math.Log(m.value / all[0].value)
		if i > 0 && (i >= keep || worse > doubt*math.Hypot(m.sd, all[0].sd)+0.05) {
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

// enterAll lets all varieties enter with every coupling and at most so many features.
func (s *study) enterAll(features int) []*entrant {
	s.last = nil
	for _, v := range s.all {
		s.last = append(s.last, v.enter(s, features)...)
	}
	return s.last
}
