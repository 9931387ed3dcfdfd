package theory

import (
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/theory/forms"
)

func TestWarn(t *testing.T) {
	for _, c := range []struct {
		shape forms.Shape
		law   coupling.PairKind
		d     int
		t     float64
		warns bool
	}{
		{forms.Exponential, coupling.PairSimplex, 8, 1, false},
		{forms.Exponential, coupling.PairOrthogonal, 8, 1, false},
		{forms.Hyperbolic, coupling.PairOrthogonal, 8, 1, false},
		{forms.Hyperbolic, coupling.PairSimplex, 8, 1, true},
		{forms.Trigonometric, coupling.PairSimplex, 8, 1, true},
		{forms.Trigonometric, coupling.PairSimplex, 1, 1, false}, // no pairs
		{forms.Trigonometric, coupling.PairOrthogonal, 8, 1, false},
		{forms.Trigonometric, coupling.PairOrthogonal, 4, 30, true}, // kappa > 0: e^{30} rho' − 1
		{forms.Trigonometric, coupling.PairIndependent, 8, 1, false},
	} {
		if got := warn(c.shape, c.law, c.d, c.t); (got != "") != c.warns {
			t.Errorf("warn(%v, %v, %d, %g) = %q", c.shape, c.law, c.d, c.t, got)
		}
	}
}
