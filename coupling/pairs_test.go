package coupling_test

import (
	"testing"

	"github.com/randfeat/randfeat/coupling"
)

func TestPairs(t *testing.T) {
	cases := []struct {
		c    coupling.Coupling
		dim  int
		want coupling.PairLaw
	}{
		{nil, 5, coupling.PairLaw{Kind: coupling.PairIndependent, Dim: 5, Exact: true}},
		{coupling.IID{}, 5, coupling.PairLaw{Kind: coupling.PairIndependent, Dim: 5, Exact: true}},
		{coupling.Orthogonal{}, 5, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 5, Exact: true}},
		{coupling.Orthogonal{}, 1, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 1, Exact: true}},
		{coupling.ORFPrime{}, 5, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 5, Exact: true}},
		{coupling.Givens{}, 5, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 5}},
		{coupling.Hadamard{}, 5, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 5, Exact: true}},
		{coupling.Hadamard{}, 33, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 64}},
		{coupling.Hadamard{K: 3}, 5, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 8}},
		{coupling.Hadamard{K: 3}, 8, coupling.PairLaw{Kind: coupling.PairOrthogonal, Dim: 8}},
		{coupling.Simplex{}, 5, coupling.PairLaw{Kind: coupling.PairSimplex, Dim: 5, Exact: true}},
		{coupling.FastSimplex{}, 5, coupling.PairLaw{Kind: coupling.PairSimplex, Dim: 5, Exact: true}},
		{coupling.FastSimplex{}, 33, coupling.PairLaw{Kind: coupling.PairSimplex, Dim: 64}},
		{coupling.FastSimplex{K: 3}, 5, coupling.PairLaw{Kind: coupling.PairSimplex, Dim: 8}},
		{coupling.CoupledOrthogonal{}, 5, coupling.PairLaw{Kind: coupling.PairCoupled, Dim: 5, Exact: true}},
		{coupling.CoupledOrthogonal{}, 1, coupling.PairLaw{Kind: coupling.PairIndependent, Dim: 1, Exact: true}},
		{coupling.CoupledHadamard{}, 5, coupling.PairLaw{Kind: coupling.PairCoupled, Dim: 5, Exact: true}},
		{coupling.CoupledHadamard{}, 33, coupling.PairLaw{Kind: coupling.PairCoupled, Dim: 64}},
		{coupling.SimplexPlus{}, 5, coupling.PairLaw{Kind: coupling.PairZeroSum, Dim: 5}},
		{coupling.Optimised{}, 5, coupling.PairLaw{Kind: coupling.PairZeroSum, Dim: 5}},
		{coupling.Halton{}, 5, coupling.PairLaw{Dim: 5}},
		{coupling.Sobol{}, 5, coupling.PairLaw{Dim: 5}},
	}
	for _, i := range coupling.List() {
		known := false
		for _, c := range cases {
			known = known || c.c != nil && c.c.Name() == i.Name
		}
		if !known {
			t.Errorf("%s has no case: add a line with its pair law, or PairLaw{Dim: 5} if there is no closed form", i.Name)
		}
	}
	for _, c := range cases {
		if got := coupling.Pairs(c.c, c.dim); got != c.want {
			t.Errorf("%#v in dimension %d: %+v, want %+v", c.c, c.dim, got, c.want)
		}
	}
	for want, k := range map[string]coupling.PairKind{"unknown": 0, "independent": 1, "orthogonal": 2, "simplex": 3,
		"coupled norms": 4, "zero-sum": 5, "PairKind(8)": 8, "PairKind(-1)": -1} {
		if k.String() != want {
			t.Errorf("%q, want %q", k.String(), want)
		}
	}
}
