package krr_test

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// clusters is a dense cloud with a few rows far from it: uniform landmarks miss them.
func clusters(n int) dense.Matrix[float64] {
	x := dense.New[float64](n, 2)
	rng.Normals(x.Data, rng.Stream(3))
	for i := range n {
		for j := range 2 {
			x.Row(i)[j] *= 0.05
		}
		if i%40 == 0 {
			x.Row(i)[0] += 1 + float64(i)/40
		}
	}
	return x
}

// left is tr(K − K_nm K_mm⁻¹ K_mn)/n: the part of the kernel that landmarks miss.
func left(t *testing.T, k kernel.Kernel, x dense.Matrix[float64], rows []int) float64 {
	t.Helper()
	z := dense.New[float64](len(rows), x.Cols)
	for i, r := range rows {
		copy(z.Row(i), x.Row(r))
	}
	u, err := krr.Root(k, z, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := dense.New[float64](z.Rows, x.Rows)
	if err := kernel.Gram(k, b, z, x); err != nil {
		t.Fatal(err)
	}
	if err := linalg.SolveT(u, b); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i := range x.Rows {
		sum += k.Eval(x.Row(i), x.Row(i))
	}
	for _, v := range b.Data {
		sum -= v * v
	}
	return sum / float64(x.Rows)
}

// All ways to choose see the rows that are far from the others, where uniform ones leave a good deal more (kernels so
// rough that every row tells of itself alone are not asked); and none depends on the number of threads.
func TestLandmarksTellMoreThanUniformRows(t *testing.T) {
	const n, m = 400, 24
	x := clusters(n)
	uniform := make([]int, m)
	for i := range uniform {
		uniform[i] = (i*137 + 5) % n
	}
	for kind, scale := range map[kernel.Kind]float64{kernel.Gaussian: 0.4, kernel.Matern52: 1, kernel.Matern32: 2} {
		k := kernel.Kernel{Kind: kind, Scale: scale}
		all := left(t, k, x, uniform)
		for name, choose := range map[string]func() ([]int, error){
			"pivots":   func() ([]int, error) { return krr.Pivots(k, x, m, 5) },
			"greedy":   func() ([]int, error) { return krr.Greedy(k, x, m) },
			"leverage": func() ([]int, error) { return krr.Leverage(k, x, m, 5) },
		} {
			rows, err := choose()
			if err != nil || len(rows) != m && name != "leverage" || len(rows) < m*3/4 || len(rows) > m {
				t.Fatalf("%v, %s: %d rows, %v", kind, name, len(rows), err)
			}
			if distinct := slices.Compact(slices.Sorted(slices.Values(rows))); len(distinct) != len(rows) {
				t.Errorf("%v, %s: rows twice: %v", kind, name, rows)
			}
			got := left(t, k, x, rows)
			t.Logf("%v, %s: %.4f, uniform %.4f", kind, name, got, all)
			if got > 0.7*all {
				t.Errorf("%v, %s: leaves %g of the trace, uniform rows leave %g", kind, name, got, all)
			}
			old := runtime.GOMAXPROCS(1)
			again, err := choose()
			runtime.GOMAXPROCS(old)
			if err != nil || !slices.Equal(rows, again) {
				t.Errorf("%v, %s: other rows on one thread", kind, name)
			}
		}
	}
}

// Rows that others tell are none, and equal ones have a root all the same.
func TestEqualRows(t *testing.T) {
	x := dense.New[float64](50, 2)
	for i := range x.Rows {
		x.Row(i)[0] = float64(i % 5)
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Softmax, kernel.Matern12} {
		k := kernel.Kernel{Kind: kind, Scale: 2}
		for _, choose := range []func() ([]int, error){
			func() ([]int, error) { return krr.Pivots(k, x, 20, 1) },
			func() ([]int, error) { return krr.Greedy(k, x, 20) },
		} {
			rows, err := choose()
			if err != nil || len(rows) == 0 || len(rows) > 5 {
				t.Errorf("%v: %v, %v", kind, rows, err)
			}
		}
		r, err := krr.Root(k, x, 0)
		if err != nil || r.CheckFinite() != nil || math.IsNaN(r.At(0, 0)) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
