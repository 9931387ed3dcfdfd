package advise

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
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
	e := &entrant{draws: make([]draw, 2), sums: []rowSums{f.newSums()}}
	f.squares = f.newSums()
	for i := range n {
		for j := range n {
			if same && i == j {
				continue
			}
			v, k := 2*math.Exp(a[i]+b[j]), 1.0 // two draws
			if absolute {
				k = math.Exp((a[i] + b[j]) / 2)
			}
			e.sums[0].pair(f, i*n+j, v)
			f.squares.pair(f, i*n+j, k)
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
			f := s.folds[0]
			rows, _ := ofSide(e.sums[0].x, f.squares.x, 1, 1, 0, nil, c.same)
			if !c.same {
				y, _ := ofSide(e.sums[0].y, f.squares.y, 1, 1, 0, nil, false)
				rows = rows.plus(y)
			}
			logs.Add(math.Log(sum(e.sums[0].x)/sum(f.squares.x)) / 2)
			stated += rows.value / 4 / sets
		}
		// The variance of the sets is known to √(2/600) = 6 %, the jackknife is a little too large.
		if f := stated / logs.Var(); f < 0.8 || f > 1.3 {
			t.Errorf("%s: variance %.4g over sets of rows, the jackknife says %.4g", name, logs.Var(), stated)
		}
	}
}
