package family_test

import (
	"errors"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Fit gives bases to the pairs of clusters that hold the most pairs of rows, the heaviest first.
func TestHeaviestPairs(t *testing.T) {
	rows := func(sizes ...int) (x dense.Matrix[float64]) {
		var all [][]float64
		for c, n := range sizes {
			for i := range n {
				all = append(all, []float64{float64(10 * c), .001 * float64(i)})
			}
		}
		return dense.MustFromRows(all)
	}
	s := gather(t, family.Options{Sample: 256}, rows(40, 20, 4), rows(3, 30, 30))
	f, err := family.ZeroOne{Clusters: family.Clusters{Count: 3, Heaviest: 2}}.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	c := f.(family.ZeroOne).Clusters
	if len(c.Pairs) != 2 {
		t.Fatalf("pairs %v", c.Pairs)
	}
	keys := map[float64]bool{}
	for _, p := range c.Pairs { // 40·30 twice: the largest cluster of queries with both large ones of keys
		if x := c.QueryCentres.At(p[0], 0); x > 1 {
			t.Errorf("pair %v has queries at %g, want 0", p, x)
		}
		keys[c.KeyCentres.At(p[1], 0)] = true
	}
	if len(keys) != 2 || keys[0] {
		t.Errorf("keys of the pairs %v, want those at 10 and 20", keys)
	}
	// Pairs of rows are counted, the product of two sizes: 12·50 and 12·10 before 2·50.
	s = gather(t, family.Options{Sample: 256}, rows(12, 2), rows(50, 10))
	if f, err = (family.ZeroOne{Clusters: family.Clusters{Count: 2, Heaviest: 2}}).Fit(s); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.(family.ZeroOne).Pairs {
		if x := f.(family.ZeroOne).QueryCentres.At(p[0], 0); x > 1 {
			t.Errorf("pair %v has queries at %g, want 0", p, x)
		}
	}
	all, err := family.ZeroOne{Clusters: family.Clusters{Count: 3, Heaviest: 9}}.Fit(s)
	if err != nil || all.(family.ZeroOne).Pairs != nil {
		t.Errorf("9 of 9 pairs: %v, %v", all, err)
	}
	for _, pairs := range [][][2]int{{{0, 3}}, {{-1, 0}}, {{1, 1}, {1, 1}}} {
		bad := family.ZeroOne{Clusters: c}
		bad.Pairs = pairs
		if _, err := bad.Draws(kernel.Softmax, 2, 4); !errors.Is(err, family.ErrParam) {
			t.Errorf("pairs %v: %v", pairs, err)
		}
	}
	// Pairs without a base of their own have the variance of positive features.
	x, y := []float64{0, .01}, []float64{.02, .01} // the light cluster of keys
	got, err := family.ZeroOne{Clusters: c}.Form(kernel.Softmax, x, y)
	want, err2 := family.Positive{}.Form(kernel.Softmax, x, y)
	if err != nil || err2 != nil || len(got.Terms) != 1 || got.Terms[0].LogWeight != want.Terms[0].LogWeight {
		t.Errorf("form %+v, want %+v (%v, %v)", got, want, err, err2)
	}
}
