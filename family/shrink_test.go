package family

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

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

// The excess kurtosis is that of a table of columns: m₄/m₂² − 3 is 8/2 − 3 for one in four rows at ±1, whatever the
// location and scale, and 0 is the least.
func TestExcessKurtosis(t *testing.T) {
	rare := []float64{1, 0, 0, 0, -1, 0, 0, 0}
	sign := []float64{1, -1, 1, -1, 1, -1, 1, -1} // m₄/m₂² − 3 = −2
	for name, c := range map[string]struct {
		columns [][]float64
		want    float64
	}{
		"one column":                    {[][]float64{rare}, 1},
		"a second that does not vary":   {[][]float64{rare, make([]float64, 8)}, 1},
		"a second one":                  {[][]float64{rare, rare}, 1},
		"light tails are no negative":   {[][]float64{rare, sign}, 0},
		"their mean with heavier tails": {[][]float64{rare, {0, 0, 0, 0, 0, 0, 0, 1}}, (1 + 22./7) / 2},
		"nothing varies":                {[][]float64{make([]float64, 8)}, 0},
	} {
		x := dense.New[float64](8, len(c.columns))
		for l, column := range c.columns {
			for i, v := range column {
				x.Set(i, l, 3*v+float64(5*l))
			}
		}
		if got := excess(x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: excess kurtosis %v, want %v", name, got, c.want)
		}
	}
}

// Rows with heavy tails know the covariance like n/(1+κ/2) normal rows: their oracle weight, here
// the largest of the three, is that of fewer rows.
func TestHeavyTailsCountAsFewerRows(t *testing.T) {
	const n, d = 400, 4
	x := dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(5))
	for i := range n {
		for l := range d {
			x.Row(i)[l] *= 1 + 0.3*float64(l)
			if i%10 == 0 {
				x.Row(i)[l] *= 4
			}
		}
	}
	m := newMoments(d, Options{Covariance: true, Sample: n})
	if err := m.Add(x); err != nil {
		t.Fatal(err)
	}
	raw := dense.New[float64](d, d)
	for i := range n {
		for l, v := range x.Row(i) {
			for k, w := range x.Row(i) {
				raw.Row(l)[k] += v * w / n
			}
		}
	}
	e := m.fresh(false)
	_, rows := m.robust()
	got := 1 - e.second.At(0, 1)/raw.At(0, 1)
	equal := n / (1 + excess(rows)/2)
	if want := oracleWeight(1/freedom(raw), equal, d); math.Abs(got-want) > 1e-9 || want > 0.99 {
		t.Errorf("weight %v, want %v, the oracle weight of %.0f rows", got, want, equal)
	}
}

// likeliest is compared with a likelihood that leaves every row out by hand.
func TestLikeliestLeavesRowsOut(t *testing.T) {
	const d = 5
	weights := map[float64]bool{}
	for seed := range uint64(12) {
		n := 7 + int(seed)
		x := dense.New[float64](n, d)
		rng.Normals(x.Data, rng.Stream(seed, 41))
		for i := range x.Data {
			x.Data[i] /= float64(1 + i%d)
		}
		c := dense.New[float64](d, d)
		for i := range n {
			for l, v := range x.Row(i) {
				for k, w := range x.Row(i) {
					c.Row(l)[k] += v * w / float64(n)
				}
			}
		}
		iso := trace(c) / d
		best, least := 1.0, math.Inf(1)
		for w := 1.0; w > 1e-4; w *= math.Sqrt2 / 2 {
			var sum float64
			for out := range n {
				sigma := mat.NewSymDense(d, nil)
				for i := range n {
					if i != out {
						sigma.SymRankOne(sigma, (1-w)/float64(n-1), mat.NewVecDense(d, x.Row(i)))
					}
				}
				for l := range d {
					sigma.SetSym(l, l, sigma.At(l, l)+w*iso)
				}
				var chol mat.Cholesky
				if !chol.Factorize(sigma) {
					t.Fatal("the covariance of the other rows is singular")
				}
				var u mat.VecDense
				row := mat.NewVecDense(d, x.Row(out))
				if err := chol.SolveVecTo(&u, row); err != nil {
					t.Fatal(err)
				}
				sum += chol.LogDet() + mat.Dot(row, &u)
			}
			if sum < least {
				best, least = w, sum
			}
		}
		got := likeliest(estimate{n: float64(n), centre: make([]float64, d), second: c}, x)
		if math.Abs(got/best-1) > 1e-12 {
			t.Errorf("%d rows: weight %v, the likeliest of rows left out is %v", n, got, best)
		}
		weights[best] = true
	}
	if len(weights) < 4 {
		t.Errorf("only %d different weights: the cases cannot tell likelihoods apart", len(weights))
	}
}
