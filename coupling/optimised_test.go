package coupling_test

import (
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

// The optimum is stationary: the gradient of the objective has no component that turns a row.
func TestOptimisedIsStationary(t *testing.T) {
	for _, d := range []int{2, 3, 8, 16} {
		for _, v := range []float64{0, 0.3, 4} {
			o, err := coupling.Optimised{V: v}.Sample(d, d, coupling.Law{}, rng.Stream(95, uint64(d)))
			if err != nil {
				t.Fatal(err)
			}
			if v == 0 {
				v = 1 // the default
			}
			res, err := omega.ConformityObjective(o.Rows, v)
			if err != nil {
				t.Fatal(err)
			}
			total := res.Rho * float64(d*(d-1))
			for i := range d {
				row, g := o.Rows.Row(i), res.GradSum[i]
				radial := dense.Dot(row, g) / dense.Norm2(row)
				var tangent float64
				for j := range g {
					e := (g[j] - radial*row[j]) / total
					tangent += e * e
				}
				if tangent = math.Sqrt(tangent * dense.Norm2(row)); tangent > 1e-5 {
					t.Errorf("d=%d, v=%v: relative tangential gradient %g of row %d", d, v, tangent, i)
				}
			}
		}
	}
}

// Large v neither overflows nor breaks the norms.
func TestOptimisedLargeV(t *testing.T) {
	o, err := coupling.Optimised{V: 1e3}.Sample(4, 4, coupling.Law{Kind: coupling.Sphere, Param: 2}, rng.Stream(97))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if n := dense.Norm2(o.Rows.Row(i)); math.Abs(n-4) > 1e-12 {
			t.Errorf("|ω|² = %v, want 4", n)
		}
	}
}

func TestOptimisedErrors(t *testing.T) {
	for _, v := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := (coupling.Optimised{V: v}).Sample(1, 2, coupling.Law{}, rng.Stream(1)); err == nil ||
			!strings.Contains(err.Error(), "V (") {
			t.Errorf("V = %v: %v", v, err)
		}
	}
}
