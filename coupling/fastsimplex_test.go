package coupling_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// FastSimplex marks its blocks, keeps chi_n norms, and estimates the Gaussian kernel also when padded: along a
// dense vector the bias of HD products is not visible (TestExcess has it along the axes).
func TestFastSimplex(t *testing.T) {
	const d, reps = 24, 1500
	x := denseVector(d)
	src := rng.Stream(85)
	var norm, kernel stattest.Moments
	for range reps {
		o, err := coupling.FastSimplex{}.Sample(40, d, coupling.Law{}, src)
		if err != nil {
			t.Fatal(err)
		}
		if o.Fast.N != 32 || len(o.Fast.Blocks) != 2 || !o.Fast.Blocks[0].Simplex || !o.Fast.Blocks[1].Simplex {
			t.Fatalf("bad structure: N = %d, %d blocks", o.Fast.N, len(o.Fast.Blocks))
		}
		c := o.Fast.Blocks[0].Norms[0]
		norm.Add(c * c)
		var sum float64
		for i := range 40 {
			sum += math.Cos(1.4*dense.Dot(o.Rows.Row(i), x)) / 40
		}
		kernel.Add(sum)
	}
	if z := stattest.Z(norm.Mean(), 32, math.Sqrt(64), reps); math.Abs(z) > 5 {
		t.Errorf("mean squared norm %.3f, want 32", norm.Mean())
	}
	if got, se := kernel.Mean(), math.Sqrt(kernel.Var()/reps); math.Abs(got-math.Exp(-0.98)) > 5*se {
		t.Errorf("Gaussian kernel %.4f ± %.4f, want %.4f", got, se, math.Exp(-0.98))
	}
}
