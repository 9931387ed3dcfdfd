package attention

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// normalRows is a rows×cols matrix of N(0, scale²) values around centre.
func normalRows(rows, cols int, scale, centre float64, seed uint64) dense.Matrix[float64] {
	m := dense.New[float64](rows, cols)
	rng.Normals(m.Data, rng.Stream(seed))
	for i := range m.Data {
		m.Data[i] = centre + scale*m.Data[i]
	}
	return m
}

// fitted fits a family to data like those of the tests.
func fitted(t testing.TB, f family.Family, d int) family.Family {
	t.Helper()
	s, err := randfeat.Fit(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f, Dim: d}, normalRows(300, d, 0.25, 0.1, 1), normalRows(300, d, 0.3, -0.1, 2))
	if err != nil {
		t.Fatalf("fitting %s: %v", f.Name(), err)
	}
	return s.Family
}

// kernelFamilies are the families that estimate a kernel, with parameters for inputs of d columns.
func kernelFamilies(t testing.TB, d int) map[string]family.Family {
	diag, wide := make([]family.Complex, d), dense.Identity[float64](d)
	re, im, m := dense.Identity[float64](d), dense.New[float64](d, d), dense.New[float64](min(d, 3), d)
	for l := range d {
		diag[l] = family.Complex(complex(0.9+0.2*float64(l%2), 0.3-0.1*float64(l%3)))
		wide.Set(l, l, 1.05+0.1*float64(l%3))
		wide.Set(l, (l+1)%d, 0.2)
		re.Set(l, (l+1)%d, 0.15)
		im.Set(l, l, 0.25)
	}
	for i := range m.Rows {
		m.Set(i, i, 0.8)
		m.Set(i, (i+1)%d, -0.3)
	}
	return map[string]family.Family{
		"trig":             family.Trig{},
		"positive":         family.Positive{},
		"hyperbolic":       family.Hyperbolic{},
		"gerf+":            family.GERF{A: -0.05 + 0.03i, S: 1},
		"gerf-":            family.GERF{A: 0.02 - 0.02i, S: -1},
		"oprf":             fitted(t, family.OPRF{}, d),
		"poisson":          fitted(t, family.Poisson{}, d),
		"geometric":        fitted(t, family.Geometric{}, d),
		"poisson+":         fitted(t, family.PoissonPlus{}, d),
		"geometric+":       fitted(t, family.GeometricPlus{}, d),
		"complex-exp-diag": family.ComplexExp{Diag: diag},
		"complex-exp-full": family.ComplexExp{Re: re, Im: im},
		"complex-exp-real": fitted(t, family.ComplexExp{}, d),
		"zero-one":         fitted(t, family.ZeroOne{}, d),
		"zero-one-complex": fitted(t, family.ZeroOne{Clusters: family.Clusters{Complex: true, AMax: 1.3}}, d),
		"mixture":          fitted(t, family.Mixture{N: 2, Clusters: family.Clusters{AMax: 1.5}}, d),
		"angular":          family.Angular{N: 4},
		"gaussian-lambda":  family.GaussianLambda{C: []float64{1.3}, N: 3},
		"bipolar":          fitted(t, family.BipolarGaussian{N: 3}, d),
		"hybrid": family.Hybrid{Bases: []family.Family{family.Positive{}, family.Trig{}},
			Coefficients: []family.Coefficient{{Const: 0.2, Sign: -1, Gain: 0.3, Rho: family.RhoSign, N: 3}}},
		"dark":          family.DARK{M: m},
		"dark-adaptive": fitted(t, family.DARK{Base: family.Adaptive{}}, d),
		"importance":    family.Importance{L: wide},
		"adaptive":      fitted(t, family.Adaptive{}, d),
		"residual":      family.Residual{},
	}
}

// randomSeq is a sequence of N(centre, scale²) values.
func randomSeq[T dense.Float](batch, heads, length, dim int, scale, centre float64, seed uint64) Seq[T] {
	s := NewSeq[T](batch, heads, length, dim)
	v := make([]float64, len(s.Data))
	rng.Normals(v, rng.Stream(seed))
	for i := range v {
		s.Data[i] = T(centre + scale*v[i])
	}
	return s
}

// oneMap is a map for attention over rows of d columns.
func oneMap[T dense.Float](t testing.TB, f family.Family, c coupling.Coupling, d, m int, seed uint64) *randfeat.Map[T] {
	t.Helper()
	mp, err := randfeat.New[T](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Coupling: c, Dim: d, M: m, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return mp
}
