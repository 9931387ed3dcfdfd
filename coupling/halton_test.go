package coupling_test

import (
	"math"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// estimatorVariance is the variance over draws of the mean of cos(ω·x) over m rows.
func estimatorVariance(t *testing.T, c coupling.Coupling, m, d, reps int) float64 {
	t.Helper()
	src := rng.Stream(100)
	x := denseVector(d)
	var s stattest.Moments
	for range reps {
		o, err := c.Sample(m, d, coupling.Law{}, src)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i := range m {
			sum += math.Cos(dense.Dot(o.Rows.Row(i), x))
		}
		s.Add(sum / float64(m))
	}
	return s.Var()
}

// Quasi-random points are worth their name: far less variance than iid for a smooth integrand in few dimensions.
func TestQMCReducesVariance(t *testing.T) {
	const m, d, reps = 256, 4, 100
	iid := estimatorVariance(t, coupling.IID{}, m, d, reps)
	for _, c := range []struct {
		c    coupling.Coupling
		gain float64 // 4.7 and 42 were measured; shifted Halton points lose some of their structure at the seam
	}{{coupling.Halton{}, 3}, {coupling.Sobol{}, 15}} {
		if v := estimatorVariance(t, c.c, m, d, reps); v > iid/c.gain {
			t.Errorf("%s: variance %g, iid %g", c.c.Name(), v, iid)
		}
	}
}

// coordinate returns the uniforms of one coordinate.
func uniforms(o coupling.Omega, j int) []float64 {
	u := make([]float64, o.Rows.Rows)
	for i := range u {
		u[i] = distuv.UnitNormal.CDF(o.Rows.At(i, j))
	}
	return u
}

// Digit permutations break the correlation of coordinates with large bases; without them (HaltonRows) neighbouring
// large primes give nearly parallel lines.
func TestHaltonDigitPermutations(t *testing.T) {
	const m, d = 60, 40
	correlation := func(w dense.Matrix[float64]) float64 {
		o := coupling.Omega{Rows: w}
		a, b := uniforms(o, d-1), uniforms(o, d-2)
		return math.Abs(pearson(a, b))
	}
	plain, err := omega.HaltonRows(m, make([]float64, d))
	if err != nil {
		t.Fatal(err)
	}
	if r := correlation(plain); r < 0.9 {
		t.Errorf("unscrambled correlation is only %.2f", r)
	}
	var worst float64
	src := rng.Stream(101)
	for range 20 {
		o, err := coupling.Halton{}.Sample(m, d, coupling.Law{}, src)
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, correlation(o.Rows))
	}
	if worst > 0.6 { // 4.6 standard deviations of independent points
		t.Errorf("scrambled correlation %.2f", worst)
	}
}

func pearson(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma += a[i] / float64(len(a))
		mb += b[i] / float64(len(b))
	}
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

// Below and above the permutation threshold every b^k consecutive points put one point into each b-adic cell, up to
// the common shift: gaps between sorted points are at most two cells.
func TestHaltonStratified(t *testing.T) {
	for _, d := range []int{8, 9} {
		o, err := coupling.Halton{}.Sample(125, d, coupling.Law{}, rng.Stream(102))
		if err != nil {
			t.Fatal(err)
		}
		u := uniforms(o, 2) // base 5: 125 = 5³
		// √125·D of 125 stratified points is about 1/√125; iid points have 0.8.
		if k := ks(u, func(x float64) float64 { return x }); k > 0.3 {
			t.Errorf("d=%d: KS %.2f of 125 points in base 5", d, k)
		}
	}
}

// High dimensions are affordable: only the digits that occur are permuted. Whole permutations of the 30000 bases, up
// to 350377, would take 5·10⁹ steps and 40 GB of allocations; the digits of three points take 0.02 s.
func TestHaltonHighDimension(t *testing.T) {
	const m, d = 3, 30000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, err := coupling.Halton{}.Sample(m, d, coupling.Law{}, rng.Stream(103))
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 500*m*d {
		t.Errorf("%d bytes allocated", bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Rows.CheckFinite(); err != nil {
		t.Error(err)
	}
	if k := ks(o.Rows.Row(1), distuv.UnitNormal.CDF); k > ksBound {
		t.Errorf("coordinates of one row: KS %.2f", k)
	}
}

// Points with digit permutations, sparse (m far below most bases) and whole: the values are those of plain Fisher–Yates
// on arrays, and API like those of TestRegression.
func TestHaltonScrambledRegression(t *testing.T) {
	for _, c := range []struct {
		m, d        int
		first, last float64
	}{{3, 2000, 0.681167747293, -0.449075230827}, {100, 500, 2.10148029444, -0.74463686993},
		{40, 9, -1.07599464258, 0.109630234431}} {
		o, err := coupling.Halton{}.Sample(c.m, c.d, coupling.Law{}, rng.Stream(103))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := o.Rows.At(0, 0), o.Rows.At(c.m-1, c.d-1); math.Abs(a-c.first) > 1e-10 || math.Abs(b-c.last) > 1e-10 {
			t.Errorf("m = %d, d = %d: %.12g, %.12g, want %.12g, %.12g", c.m, c.d, a, b, c.first, c.last)
		}
	}
}
