package advise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
)

// pareto is an entrant of a family whose squared errors have the given tail index, and whose draws have the mean square
// given. Draws differ by a tenth.
func pareto(f family.Family, index, square float64) *entrant {
	e := &entrant{variety: &variety{name: f.Name(), family: f, fitted: []family.Family{f}}, coupling: coupling.IID{},
		features: 32, m: 16}
	r := rand.New(rng.Stream(3, uint64(100*index)))
	for i := range 64 {
		e.draws = append(e.draws, draw{square: square * (1 + 0.1*float64(i%3-1)), typical: math.Sqrt(square)})
		for range 1000 {
			e.tail[cell(math.Pow(1-r.Float64(), -1/index))]++
		}
	}
	return e
}

// A mean is trusted from a tail index of 2 on: below, the mean of the squares has no normal limit, and from 1 on down
// it does not exist.
func TestTrustedTails(t *testing.T) {
	s := &study{Options: Options{Measure: measureRMS}}
	for index, want := range map[float64]bool{0.5: false, 1: false, 1.25: false, 1.75: false, 2.3: true, 4: true} {
		e := pareto(family.Trig{}, index, 0.01)
		if got := s.trusted(e); got != want {
			t.Errorf("squared errors with tail index %g (estimated %.2f): trusted %v, want %v", index, e.tail.index(), got,
				want)
		}
	}
	// Draws that differ by more than their mean.
	e := pareto(family.Trig{}, 4, 0.01)
	e.draws[0].square = 10
	if s.trusted(e) {
		t.Error("one draw makes up the mean, and it is trusted")
	}
	// An unbiased map whose errors are all negative has not shown its large values.
	e = pareto(family.Trig{}, 4, 0.01)
	for i := range e.draws {
		e.draws[i].mean = -0.09
	}
	if s.trusted(e) {
		t.Error("all errors have one sign, and the mean square is trusted")
	}
	if e.landmarks = true; !s.trusted(e) {
		t.Error("landmarks are biased: the sign of their errors says nothing")
	}
}

// The smallest root mean square is recommended, unless a heavy tail hides it; among equals the cheapest.
func TestChoose(t *testing.T) {
	s := &study{Options: Options{Measure: measureRMS}, dim: 8, folds: []*fold{{}}}
	slow, fast := family.Residual{}, family.Trig{}
	for name, c := range map[string]struct {
		ranked []*entrant
		want   int
	}{
		"the smallest":          {[]*entrant{pareto(slow, 4, 0.01), pareto(fast, 4, 0.0144)}, 0},
		"equal, cheaper":        {[]*entrant{pareto(slow, 4, 0.01), pareto(fast, 4, 0.0101)}, 1},
		"10 % worse, a quarter": {[]*entrant{pareto(slow, 4, 0.01), pareto(fast, 4, 0.0118)}, 1},
		"10 % worse, dearer":    {[]*entrant{pareto(fast, 4, 0.01), pareto(slow, 4, 0.0118)}, 0},
		"equal, heavy, cheaper": {[]*entrant{pareto(slow, 4, 0.01), pareto(fast, 1, 0.0101)}, 0},
		"heavy, within doubt":   {[]*entrant{pareto(slow, 1, 0.01), pareto(fast, 4, 0.0102)}, 1},
		"heavy, clearly better": {[]*entrant{pareto(slow, 1, 0.01), pareto(fast, 4, 0.04)}, 0},
	} {
		got, err := s.choose(c.ranked)
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}

// A heavy tail hides most of the spread of a leader: then candidates stay that are worse by three times the doubt.
func TestHeavyLeadersKeepOthers(t *testing.T) {
	s := &study{Options: Options{Measure: measureRMS}, dim: 8, folds: []*fold{{}}}
	for index, want := range map[float64]int{4: 2, 1: 3} {
		left := []*entrant{pareto(family.Trig{}, index, 0.01), pareto(family.Trig{}, 4, 0.0101),
			pareto(family.Trig{}, 4, 0.01*math.Exp(0.17))} // 8.5 %, between 7.2 and 9.8
		if stay, gone := s.best(left, 3); len(stay) != want || len(stay)+len(gone) != 3 {
			t.Errorf("a leader with tail index %g: %d of 3 stay, want %d", index, len(stay), want)
		}
	}
}
