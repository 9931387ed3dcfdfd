package tabular

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// TestBudgetBoundsFeatures: a budget rules the exact kernel out, so that memory is that of the features and the sample,
// and without one the products of a fit are bounded: more rows have fewer features.
func TestBudgetBoundsFeatures(t *testing.T) {
	_, r := mustFit(t, stairs(400, 1), Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Budget: 64,
		Scaling: scalingStandard, Folds: 1})
	if c := choice(t, r, "features"); c.Number > 64 {
		t.Errorf("%g features", c.Number)
	}
	c := featureSearch{frame: &frame{job: &job{o: Options{Budget: defaultBudget}}}, d: &decision{}}
	last := math.MaxInt
	for _, n := range []int64{100_000, 500_000, 1_000_000, 10_000_000} {
		c.d.Rows = n
		f := c.limit()
		if f > last || float64(n)*float64(f)*float64(f) > mostProducts {
			t.Errorf("%d features of %d rows", f, n)
		}
		last = f
	}
	if c.d.Rows = 100_000; c.limit() != defaultBudget {
		t.Errorf("%d features of 100,000 rows", c.limit())
	}
	if c.o.Budget, c.d.Rows = 4096, 10_000_000; c.limit() != 4096 {
		t.Errorf("%d features of a budget of 4096", c.limit())
	}
}

// TestAllFolds: the predictions of every fold from one factorisation are those of separate fits, in both formats of
// numbers, with and without weights of rows, and so are those of one fold.
func TestAllFolds(t *testing.T) {
	const n, folds, lambda, s = 120, 5, 0.1, 1.5
	x, y := dense.New[float64](n, 3), dense.New[float64](n, 2)
	rng.Normals(x.Data, rng.Stream(3))
	rng.Normals(y.Data, rng.Stream(4))
	roots, fold := make([]float64, n), make([]int, n)
	for i := range roots {
		roots[i], fold[i] = math.Sqrt(0.5+float64(i%3)), i*i%7%folds
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Laplace, kernel.Matern12, kernel.Matern52} {
		for _, r := range [][]float64{nil, roots} {
			small, large := new(solver[float32]), new(solver[float64])
			near := nearRows(matrix{}, kind, x)
			b, err := large.allFolds(near, y, kind, s, r, lambda, [][]int{fold}, folds)
			if err != nil {
				t.Fatal(err)
			}
			a, err := small.allFolds(dense.Convert[float32](near), dense.Convert[float32](y), kind, s, r, lambda,
				[][]int{fold}, folds)
			if err != nil {
				t.Fatal(err)
			}
			want := dense.New[float64](n, 2)
			for k := range folds {
				var rows []int
				m := 0
				for _, in := range []bool{false, true} {
					for i, at := range fold {
						if (at == k) == in {
							rows = append(rows, i)
						}
					}
					if !in {
						m = len(rows)
					}
				}
				gram := dense.New[float64](m, m)
				if err := kernel.Gram(kernel.Kernel{Kind: kind, Scale: s}, gram, pick(x, rows[:m]), pick(x,
					rows[:m])); err != nil {
					t.Fatal(err)
				}
				var root []float64
				for _, i := range rows {
					if r != nil {
						root = append(root, r[i])
					}
				}
				of := root
				if r != nil {
					of = root[:m]
				}
				d, err := linalg.SolveDualWeighted(gram, pick(y, rows[:m]), of, lambda)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range rows[m:] {
					copy(want.Row(i), d.Intercept)
					for at, j := range rows[:m] {
						v := kernel.Kernel{Kind: kind, Scale: s}.Eval(x.Row(i), x.Row(j))
						for c := range 2 {
							want.Row(i)[c] += v * d.Alpha.At(at, c)
						}
					}
				}
				one, _, err := large.oneFold(nearRows(matrix{}, kind, pick(x, rows)), pick(y, rows), kind, s,
					root, lambda, m,
					false)
				if err != nil {
					t.Fatal(err)
				}
				for at, i := range rows[m:] {
					if math.Abs(one.At(at, 1)-want.At(i, 1)) > 1e-9 {
						t.Fatalf("%v, weights %v: row %d by its own fit %g, want %g", kind, r != nil, i, one.At(at, 1),
							want.At(i, 1))
					}
				}
			}
			for i, w := range want.Data {
				if math.Abs(b[0].Data[i]-w) > 1e-9 || math.Abs(a[0].Data[i]-w) > 1e-3 {
					t.Fatalf("%v, weights %v: prediction %d is %g and %g, want %g", kind, r != nil, i, b[0].Data[i],
						a[0].Data[i], w)
				}
			}
		}
	}
}
