package family

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// normalMoments are the moments of n independent normal rows whose column l has the standard deviation sd(l).
func normalMoments(t *testing.T, n, d int, seed uint64, sd func(l int) float64) *Moments {
	t.Helper()
	x := dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(seed, uint64(n), uint64(d)))
	for i := range x.Data {
		x.Data[i] *= sd(i % d)
	}
	m := newMoments(d, Options{Covariance: true})
	if err := m.Add(x); err != nil {
		t.Fatal(err)
	}
	return m
}

// Four rows about zero get no centre. Their variance is uncertain too, and few widens the threshold for that: without
// it, one set in a hundred keeps a part of its mean.
func TestFewRowsKeepNoMean(t *testing.T) {
	const sets, n, d = 4000, 4, 6
	kept := 0
	for seed := range uint64(sets) {
		m := normalMoments(t, n, d, seed, func(int) float64 { return 1 })
		if m.keptMean(m.Covariance()) > 0 {
			kept++
		}
	}
	if kept > sets/1000 {
		t.Errorf("%d of %d sets about zero keep a part of their mean", kept, sets)
	}
}

// The oracle-approximating weight has about the smallest mean squared error of the covariance. Half of it and twice of
// it are worse, so a wrong factor shows on one side or the other.
func TestOracleWeightIsLeast(t *testing.T) {
	const sets, n, d = 400, 60, 8
	sd := func(l int) float64 { return 1 + 0.06*float64(l) }
	var half, twice stattest.Moments
	for seed := range uint64(sets) {
		m := normalMoments(t, n, d, seed, sd)
		raw := m.Covariance()
		for i, a := range m.mean {
			for j, b := range m.mean {
				raw.Row(i)[j] += a * b
			}
		}
		got := m.fresh(false).second
		w := 1 - got.At(0, 1)/raw.At(0, 1)
		loss := func(w float64) (sum float64) {
			c := raw.Clone()
			shrink(c, w)
			for i := range d {
				for j, v := range c.Row(i) {
					if i == j {
						v -= sd(i) * sd(i)
					}
					sum += v * v
				}
			}
			return sum
		}
		here := loss(w)
		half.Add(loss(w/2) - here)
		twice.Add(loss(min(1, 2*w)) - here)
	}
	bound := stattest.Bound(1e-6, 2)
	for name, m := range map[string]*stattest.Moments{"half": &half, "twice": &twice} {
		z := m.Mean() / math.Sqrt(m.Var()/sets)
		if z < bound {
			t.Errorf("%s of the weight is no worse: z = %.1f, want above %.1f", name, z, bound)
		}
	}
}
