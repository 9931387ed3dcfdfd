package advise

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// effects is a fold of n rows on each side whose squared error at a pair is e^{a_i + b_j}, with one effect per row in
// one set. κ² = e^{(a_i + b_j)/2} where errors are absolute.
func effects(n int, same, absolute bool, r *rand.Rand) (*study, *entrant) {
	a, b := make([]float64, n), make([]float64, n)
	for i := range n {
		a[i], b[i] = 0.5*r.NormFloat64(), 0.3*r.NormFloat64()
		if same {
			b[i] = a[i]
		}
	}
	f := &fold{x: dense.New[float64](n, 1), y: dense.New[float64](n, 1), same: same}
	e := &entrant{draws: make([]draw, 2), sums: []rowSums{{make([]float64, n), make([]float64, n)}}}
	f.squares = rowSums{make([]float64, n), make([]float64, n)}
	for i := range n {
		for j := range n {
			if same && i == j {
				continue
			}
			v, k := 2*math.Exp(a[i]+b[j]), 1.0 // two draws
			if absolute {
				k = math.Exp((a[i] + b[j]) / 2)
			}
			e.sums[0].x[i] += v
			e.sums[0].y[j] += v
			f.squares.x[i] += k
			f.squares.y[j] += k
		}
	}
	return &study{folds: []*fold{f}}, e
}

// The jackknife over rows estimates how much the error differs between sets of rows.
func TestJackknifeOfRows(t *testing.T) {
	const sets, n = 600, 40
	for name, c := range map[string]struct{ same, absolute bool }{"one set": {true, false}, "two sets": {false, false},
		"one set, absolute": {true, true}, "two sets, absolute": {false, true}} {
		var logs stattest.Moments
		stated := 0.0
		r := rand.New(rng.Stream(9))
		for range sets {
			s, e := effects(n, c.same, c.absolute, r)
			ratio, v := s.jackknife(e, 0)
			logs.Add(math.Log(ratio) / 2)
			stated += v / sets
		}
		// The variance of the sets is known to √(2/600) = 6 %, the jackknife is a little too large.
		if f := stated / logs.Var(); f < 0.8 || f > 1.3 {
			t.Errorf("%s: variance %.4g over sets of rows, the jackknife says %.4g", name, logs.Var(), stated)
		}
	}
}

// The interval of a candidate holds its error on other rows: rows differ much in length, so draws alone tell little.
func TestIntervalCoversRows(t *testing.T) {
	const cases = 24
	ctx := context.Background()
	rows := func(n int, r *rand.Rand) dense.Matrix[float64] {
		m := dense.New[float64](n, 4)
		for i := range n {
			length := 0.5 * math.Exp(0.7*r.NormFloat64())
			for c := range 4 {
				m.Set(i, c, length*r.NormFloat64())
			}
		}
		return m
	}
	inside, narrow := 0, 0
	for i := range uint64(cases) {
		r := rand.New(rng.Stream(1000 + i))
		q, fresh := rows(80, r), rows(400, r)
		o := Options{Kernel: kernel.Kernel{}, Features: 16, Rows: 16, Draws: 64, Seed: i, Brief: true, Unbiased: true,
			Families: []string{"trig"}, Couplings: []string{"iid"}}
		report, err := Kernel(ctx, q, dense.Matrix[float64]{}, o)
		if err != nil {
			t.Fatal(err)
		}
		c := report.Ranking[0]
		o.Draws = 12
		truth, err := report.Fresh(ctx, 0, q, dense.Matrix[float64]{}, fresh, dense.Matrix[float64]{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Low <= truth && truth <= c.High {
			inside++
		}
		if wide := math.Exp(1.645 * 0.03); c.Error/wide <= truth && truth <= c.Error*wide { // about that of 64 draws
			narrow++
		}
	}
	t.Logf("%d of %d inside, %d in intervals of draws alone", inside, cases, narrow)
	if inside < 19 { // 22 of 24 expected; at 90 % fewer than 19 have a probability of 2 %
		t.Errorf("%d of %d errors on fresh rows are inside", inside, cases)
	}
	if narrow > 16 {
		t.Errorf("no power: intervals of draws alone hold %d of %d", narrow, cases)
	}
}
