package tabular

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// TestThinnedFolds: of a table of many rows a model that is scored learns from about nestedMost rows outside its fold
// and is judged on about heldMost inside; no row is on both sides.
func TestThinnedFolds(t *testing.T) {
	const n, parts = 200_000, 5
	s := foldSource{deal: newDealer(7, nil), k: 1, last: 1, parts: parts, rows: n}
	in := s
	in.inside = true
	outside, inside := 0, 0
	for i := range int64(n) {
		a, b := s.has(i), in.has(i)
		if a && b {
			t.Fatalf("row %d is on both sides", i)
		}
		if b && s.deal.of(i, parts) != 1 || a && s.deal.of(i, parts) == 1 {
			t.Fatalf("row %d is in part %d", i, s.deal.of(i, parts))
		}
		if a {
			outside++
		}
		if b {
			inside++
		}
	}
	for _, c := range []struct {
		got  int
		want int64
		of   float64
	}{{outside, nestedMost, n * 0.8}, {inside, heldMost, n * 0.2}} {
		p := float64(c.want) / c.of
		if z := (float64(c.got) - float64(c.want)) / math.Sqrt(c.of*p*(1-p)); math.Abs(z) > 5 {
			t.Errorf("%d rows, want about %d: z = %.1f", c.got, c.want, z)
		}
	}
}

// TestThinnedScore: the score of a table with thinned folds says so, and holds on new rows.
func TestThinnedScore(t *testing.T) {
	rows, most, held := exactRows, nestedMost, heldMost
	t.Cleanup(func() { exactRows, nestedMost, heldMost = rows, most, held })
	exactRows, nestedMost, heldMost = 100, 800, 300
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: 1, Scaling: scalingStandard, Map: MapRandom,
		Features: 64}
	m, r := mustFit(t, stairs(3000, 1), o)
	if !strings.Contains(r.ScoredOn, "about 800 other rows") {
		t.Errorf("scored on %s", r.ScoredOn)
	}
	e := evaluate(t, m, stairs(3000, 2))[1]
	if s := r.Scores[1]; s.Name != e.Name || e.Value < s.Low-0.05 || e.Value > s.High+0.05 {
		t.Errorf("stated %s %.3f (%.3f to %.3f), on new rows %.3f", s.Name, s.Value, s.Low, s.High, e.Value)
	}
}

// TestBudgetBoundsFeatures: a budget rules the exact kernel out, so that memory is that of the features and the sample,
// and without one the products of a fit are bounded: more rows have fewer features.
func TestBudgetBoundsFeatures(t *testing.T) {
	_, r := mustFit(t, stairs(400, 1), Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Budget: 64,
		Scaling: scalingStandard, Folds: 1})
	if c := choice(t, r, "features"); c.Number > 64 {
		t.Errorf("%g features", c.Number)
	}
	c := chooser{f: &search{job: &job{o: Options{Budget: defaultBudget}}}}
	last := math.MaxInt
	for _, n := range []int64{100_000, 500_000, 1_000_000, 10_000_000} {
		c.rows = n
		f := c.limit()
		if f > last || float64(n)*float64(f)*float64(f) > mostProducts {
			t.Errorf("%d features of %d rows", f, n)
		}
		last = f
	}
	if c.rows = 100_000; c.limit() != defaultBudget {
		t.Errorf("%d features of 100,000 rows", c.limit())
	}
	if c.f.o.Budget, c.rows = 4096, 10_000_000; c.limit() != 4096 {
		t.Errorf("%d features of a budget of 4096", c.limit())
	}
}

// TestFloat32Trials: trials in float32 leave rows out as those in float64 do, with and without weights of rows.
func TestFloat32Trials(t *testing.T) {
	const n, from, lambda = 120, 40, 0.1
	x, y := dense.New[float64](n, 3), dense.New[float64](n, 2)
	rng.Normals(x.Data, rng.Stream(3))
	rng.Normals(y.Data, rng.Stream(4))
	roots := make([]float64, n)
	for i := range roots {
		roots[i] = math.Sqrt(float64(i % 3)) // some rows have no weight
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Laplace, kernel.Matern12, kernel.Matern52} {
		for _, r := range [][]float64{nil, roots} {
			e := exactTries{ctx: t.Context(), task: machine.Regression, kind: kind, roots: r}
			if err := errors.Join(e.reset(x, y, y), e.logs()); err != nil {
				t.Fatal(err)
			}
			e.from = from
			got, err := e.leaveOut(0, exactPoint{1.5, lambda})
			if err != nil {
				t.Fatal(err)
			}
			want := dense.New[float64](n-from, 2)
			d, err := linalg.SolveDualWeighted(e.kernels(0, 1.5).Clone(), y, r, lambda)
			if err == nil {
				err = d.LeaveOneOut(want, y, dense.New[float64](n-from, n-from), from)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got.Data {
				if math.Abs(v-want.Data[i]) > 1e-3 {
					t.Fatalf("%v, weights %v: prediction %d is %g, want %g", kind, r != nil, i, v, want.Data[i])
				}
			}
		}
	}
}
