// Package cases has examples of every family and coupling of the registries, for the tests that iterate over them.
package cases

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// Family is an example of a family, ready for use.
type Family struct {
	family.Example
	Info family.Info // its registry entry
}

// Families returns the examples of every registered family for rows like those of x and y, queries and keys.
// Tests of all families iterate over them. Examples that need a fit are fitted to these rows, for the softmax
// kernel.
func Families(t testing.TB, x, y dense.Matrix[float64]) []Family {
	t.Helper()
	var out []Family
	for _, info := range family.List() {
		examples := info.Examples(x.Cols)
		if len(examples) == 0 {
			t.Errorf("family %s has no examples: nothing tests it", info.Name)
		}
		for _, e := range examples {
			if e.Fit {
				s, err := randfeat.Fit(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: e.Family,
					Dim: x.Cols}, x,
					y)
				if err != nil {
					t.Fatalf("fitting %s: %v", e.Name, err)
				}
				e.Family, e.Fit = s.Family, false
			}
			out = append(out, Family{e, info})
		}
	}
	return out
}

// Estimators returns the Families that estimate a kernel: all but the baselines.
func Estimators(t testing.TB, x, y dense.Matrix[float64]) []Family {
	t.Helper()
	var out []Family
	for _, f := range Families(t, x, y) {
		if f.Info.Unbiased {
			out = append(out, f)
		}
	}
	return out
}

// Rows returns n independent normal rows of dim columns with the given mean and standard deviation: data to fit
// examples to.
func Rows(n, dim int, mean, sd float64, seed uint64) dense.Matrix[float64] {
	x := dense.New[float64](n, dim)
	rng.Normals(x.Data, rng.Stream(seed, uint64(dim)))
	for i := range x.Data {
		x.Data[i] = mean + sd*x.Data[i]
	}
	return x
}

// Coupling is an example of a coupling.
type Coupling struct {
	Name  string // name of the coupling; for further examples, their JSON form
	Value coupling.Coupling
	Info  coupling.Info // its registry entry
}

// Couplings returns the examples of every registered coupling.
func Couplings(t testing.TB) []Coupling {
	t.Helper()
	var out []Coupling
	for _, info := range coupling.List() {
		examples := info.Examples()
		if len(examples) == 0 {
			t.Errorf("coupling %s has no examples: nothing tests it", info.Name)
		}
		for i, c := range examples {
			name := info.Name
			if i > 0 {
				b, err := coupling.Encode(c)
				if err != nil {
					t.Fatal(err)
				}
				name = string(b)
			}
			out = append(out, Coupling{name, c, info})
		}
	}
	return out
}
