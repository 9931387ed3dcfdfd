package rng_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// Outputs of a seed are API: a change here must be announced as "Results change".
func TestStreamRegression(t *testing.T) {
	for _, c := range []struct {
		path []uint64
		want uint64
	}{
		{nil, 0xcc2004976a5e3478},
		{[]uint64{0}, 0x625024511765e1f6},
		{[]uint64{0, 1}, 0xcd87eae08d56cfd1},
	} {
		if got := rng.Stream(7, c.path...).Uint64(); got != c.want {
			t.Errorf("Stream(7, %v) starts with %#x, want %#x", c.path, got, c.want)
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	first := map[uint64]string{}
	for _, c := range []struct {
		name string
		src  rand.Source
	}{
		{"seed 0", rng.Stream(0)},
		{"seed 1", rng.Stream(1)},
		{"0/1", rng.Stream(0, 1)},
		{"1/0", rng.Stream(1, 0)},
		{"0/0/1", rng.Stream(0, 0, 1)},
		{"0/1/0", rng.Stream(0, 1, 0)},
		{"0/256", rng.Stream(0, 256)},
	} {
		v := c.src.Uint64()
		if o, ok := first[v]; ok {
			t.Errorf("streams %s and %s are equal", o, c.name)
		}
		first[v] = c.name
	}
}

func TestStreamDoesNotModifyPath(t *testing.T) {
	path := make([]uint64, 1, 4)
	a := rng.Stream(3, path...).Uint64()
	b := rng.Stream(3, path...).Uint64()
	if a != b || path[0] != 0 {
		t.Errorf("same path, different streams")
	}
}

// ks is the Kolmogorov–Smirnov statistic times √n; the asymptotic p-value of s is 2·exp(−2s²).
func ks(xs []float64, cdf func(float64) float64) float64 {
	slices.Sort(xs)
	n := float64(len(xs))
	var d float64
	for i, x := range xs {
		f := cdf(x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d * math.Sqrt(n)
}

const ksBound = 2.7 // 2·exp(−2·2.7²) < 1e-6

func TestChi(t *testing.T) {
	for _, d := range []int{1, 2, 3, 5, 64, 1000} {
		src := rng.Stream(11, uint64(d))
		xs := make([]float64, 20000)
		for i := range xs {
			xs[i] = rng.Chi(d, src)
		}
		chi2 := distuv.ChiSquared{K: float64(d)}
		if s := ks(xs, func(x float64) float64 { return chi2.CDF(x * x) }); s > ksBound {
			t.Errorf("d=%d: KS %.2f", d, s)
		}
		// The test has power: one degree of freedom more or less must fail.
		if d <= 5 {
			wrong := distuv.ChiSquared{K: float64(d + 1)}
			if s := ks(xs, func(x float64) float64 { return wrong.CDF(x * x) }); s < ksBound {
				t.Errorf("d=%d: KS %.2f accepts chi with one degree more", d, s)
			}
		}
	}
}

func TestNormalsAndOpen(t *testing.T) {
	src := rng.Stream(12)
	xs := make([]float64, 50000)
	rng.Normals(xs, src)
	if s := ks(xs, distuv.UnitNormal.CDF); s > ksBound {
		t.Errorf("Normals: KS %.2f", s)
	}
	for i := range xs {
		xs[i] = rng.Open(src)
	}
	if s := ks(xs, func(x float64) float64 { return x }); s > ksBound {
		t.Errorf("Open: KS %.2f", s)
	}
	for i := range xs {
		xs[i] = rng.Uniform(src)
	}
	if s := ks(xs, func(x float64) float64 { return x }); s > ksBound {
		t.Errorf("Uniform: KS %.2f", s)
	}
}

func TestOpenFromBitsEnds(t *testing.T) {
	lo, hi := rng.OpenFromBits(0), rng.OpenFromBits(1<<52-1)
	if lo <= 0 || hi >= 1 || lo != 1-hi {
		t.Errorf("ends %g and 1-%g", lo, 1-hi)
	}
}

func TestSigns(t *testing.T) {
	src := rng.Stream(13)
	const n, reps = 130, 2000
	sum := make([]float64, n)
	var pair stattest.Moments // products of neighbours, also over the word boundary
	x := make([]float64, n)
	for range reps {
		rng.Signs(x, src)
		for i, v := range x {
			if v != 1 && v != -1 {
				t.Fatalf("sign %v", v)
			}
			sum[i] += v
		}
		pair.Add(x[63] * x[64])
	}
	bound := stattest.Bound(1e-6, n+1)
	for i, s := range sum {
		if z := stattest.Z(s/reps, 0, 1, reps); math.Abs(z) > bound {
			t.Errorf("sign %d: z = %.1f", i, z)
		}
	}
	if z := stattest.Z(pair.Mean(), 0, 1, reps); math.Abs(z) > bound {
		t.Errorf("neighbours over a word boundary: z = %.1f", z)
	}
}
