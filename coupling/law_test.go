package coupling_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

func TestLawString(t *testing.T) {
	for want, l := range map[string]coupling.Law{
		"normal":         {},
		"sphere(2)":      {Kind: coupling.Sphere, Param: 2},
		"poisson(0.5)":   {Kind: coupling.Poisson, Param: 0.5},
		"geometric(0.1)": {Kind: coupling.Geometric, Param: 0.1},
		"student(3)":     {Kind: coupling.Student, Param: 3},
		"cauchy":         {Kind: coupling.Cauchy},
		"LawKind(9)(0)":  {Kind: 9},
	} {
		if l.String() != want {
			t.Errorf("%q, want %q", l.String(), want)
		}
	}
}

// Every coupling refuses bad sizes, bad parameters and undefined laws, with errors that name the wrong value.
func TestSampleErrors(t *testing.T) {
	each(func(_ string, c coupling.Coupling, info coupling.Info) {
		for _, size := range [][2]int{{0, 3}, {-1, 3}, {3, 0}, {3, -2}} {
			_, err := c.Sample(size[0], size[1], coupling.Law{}, rng.Stream(1))
			if !errors.Is(err, coupling.ErrSize) {
				t.Errorf("%s %v: %v", info.Name, size, err)
			}
		}
		if _, err := c.Sample(3, -2, coupling.Law{}, rng.Stream(1)); !strings.Contains(err.Error(), "dim = -2") {
			t.Errorf("%s: %v does not name the value", info.Name, err)
		}
		defined := map[coupling.LawKind]bool{}
		for _, k := range info.Laws {
			defined[k] = true
		}
		for _, k := range []coupling.LawKind{coupling.Normal, coupling.Sphere, coupling.Poisson, coupling.Geometric,
			coupling.Student, coupling.Cauchy} {
			_, err := c.Sample(3, 4, testLaw(k), rng.Stream(1))
			if defined[k] && err != nil || !defined[k] && !errors.Is(err, coupling.ErrLaw) {
				t.Errorf("%s with %v: %v", info.Name, k, err)
			}
		}
		if _, err := c.Sample(3, 4, coupling.Law{Kind: 17}, rng.Stream(1)); !errors.Is(err, coupling.ErrLaw) {
			t.Errorf("%s with an unknown law: %v", info.Name, err)
		}
	})
}

func TestLawParameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		kind coupling.LawKind
		name string
		bad  []float64
		good []float64
	}{
		{coupling.Normal, "", nil, []float64{0, nan, -1}},
		{coupling.Sphere, "radius", []float64{0, -1, nan, inf}, []float64{1e-9, 5}},
		{coupling.Student, "degrees of freedom", []float64{0, -1, nan, inf}, []float64{1e-2, 1, 5}},
		{coupling.Cauchy, "", nil, []float64{0, nan, -1}},
		{coupling.Poisson, "λ", []float64{-1e-9, nan, inf}, []float64{0, 1, 1e6}},
		{coupling.Geometric, "p (Param)", []float64{0, -0.1, 1.1, nan, inf}, []float64{1e-9, 0.5, 1}},
	} {
		for _, p := range c.bad {
			_, err := coupling.IID{}.Sample(1, 1, coupling.Law{Kind: c.kind, Param: p}, rng.Stream(1))
			if err == nil || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%v(%v): %v", c.kind, p, err)
			}
		}
		for _, p := range c.good {
			if _, err := (coupling.IID{}).Sample(1, 1, coupling.Law{Kind: c.kind, Param: p},
				rng.Stream(1)); err != nil {
				t.Errorf("%v(%v): %v", c.kind, p, err)
			}
		}
	}
}

// Poisson(0) and Geometric(1) are all zeros.
func TestDegenerateCounts(t *testing.T) {
	for _, c := range []coupling.Coupling{coupling.IID{}, coupling.Halton{}, coupling.Sobol{}} {
		for _, l := range []coupling.Law{{Kind: coupling.Poisson}, {Kind: coupling.Geometric, Param: 1}} {
			o, err := c.Sample(20, 11, l, rng.Stream(22))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range o.Rows.Data {
				if v != 0 {
					t.Fatalf("%s, %v: %v", c.Name(), l, v)
				}
			}
		}
	}
}

// Counts have the right probabilities over the whole range of λ, including P(0) at λ = 10, where gonum's sampler
// loses mass, and large λ, where the walk starts from an expansion.
func TestCountProbabilities(t *testing.T) {
	const n = 200000
	bound := stattest.Bound(alpha, comparisons)
	for _, l := range []coupling.Law{
		{Kind: coupling.Poisson, Param: 0.01}, {Kind: coupling.Poisson, Param: 3}, {Kind: coupling.Poisson, Param: 10},
		{Kind: coupling.Poisson, Param: 50}, {Kind: coupling.Poisson, Param: 1e5},
		{Kind: coupling.Geometric, Param: 0.05}, {Kind: coupling.Geometric, Param: 0.9},
	} {
		o, err := coupling.IID{}.Sample(n, 1, l, rng.Stream(23))
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []float64{-4, -2, -1, 0, 1, 2, 4} {
			k := math.Max(0, math.Floor(l.Param+q*math.Sqrt(l.Param)))
			want := mathext.GammaIncRegComp(k+1, l.Param)
			if l.Kind == coupling.Geometric {
				k = math.Abs(q)
				want = 1 - math.Pow(1-l.Param, k+1)
			}
			var below float64
			for _, v := range o.Rows.Data {
				if v != math.Floor(v) || v < 0 {
					t.Fatalf("%v: not a count: %v", l, v)
				}
				if v <= k {
					below++
				}
			}
			if n*min(want, 1-want) < 20 {
				continue // too few for a z-score
			}
			if z := stattest.Z(below/n, want, math.Sqrt(want*(1-want)), n); math.Abs(z) > bound {
				t.Errorf("%v: P(X ≤ %v) = %v, want %v", l, k, below/n, want)
			}
		}
	}
}

// Extreme λ end, and end near λ.
func TestHugePoisson(t *testing.T) {
	for _, lambda := range []float64{1e11, 1e13, 1e200} {
		o, err := coupling.IID{}.Sample(10, 1, coupling.Law{Kind: coupling.Poisson, Param: lambda}, rng.Stream(24))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range o.Rows.Data {
			if math.Abs(v-lambda) > 8*math.Sqrt(lambda) {
				t.Errorf("Poisson(%g) gave %g", lambda, v)
			}
		}
	}
}
