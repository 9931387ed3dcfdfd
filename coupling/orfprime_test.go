package coupling_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// Rows are uniform on the sphere of radius 1 or √d, whatever the law asked for.
func TestORFPrime(t *testing.T) {
	for _, c := range []coupling.ORFPrime{{}, {SqrtDim: true}} {
		for _, d := range []int{1, 2, 5, 16} {
			fixed := coupling.Law{Kind: coupling.Sphere, Param: c.Radius(d)}
			for _, asked := range []coupling.Law{{}, {Kind: coupling.Sphere, Param: 9}} {
				s := func(m, dim int, _ coupling.Law, src rand.Source) (coupling.Omega, error) {
					return c.Sample(m, dim, asked, src)
				}
				for _, m := range []int{(d + 1) / 2, d, 2*d + 1} {
					for _, bad := range marginalFailures(s, true, m, d, fixed, 300, rng.Stream(40)) {
						t.Errorf("%+v, d=%d, m=%d: %s", c, d, m, bad)
					}
				}
			}
		}
	}
}

// The target is the Bessel kernel: for d = 3, sin(z)/z instead of exp(−z²/2) (docs/theory.md §1.2).
func TestORFPrimeTarget(t *testing.T) {
	const d, reps = 3, 4000
	src := rng.Stream(41)
	z := 1.4
	var s stattest.Moments
	for range reps {
		o, err := coupling.ORFPrime{}.Sample(2, d, coupling.Law{}, src)
		if err != nil {
			t.Fatal(err)
		}
		x := denseVector(d)
		s.Add((math.Cos(z*dense.Dot(o.Rows.Row(0), x)) + math.Cos(z*dense.Dot(o.Rows.Row(1), x))) / 2)
	}
	if zs := stattest.Z(s.Mean(), math.Sin(z)/z, math.Sqrt(s.Var()), reps); math.Abs(zs) > stattest.Bound(alpha,
		comparisons) {
		t.Errorf("mean %v, want %v (z = %.1f)", s.Mean(), math.Sin(z)/z, zs)
	}
}
