package coupling_test

import (
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

func resultant(w dense.Matrix[float64]) float64 {
	sum := make([]float64, w.Cols)
	for i := range w.Rows {
		for j, v := range w.Row(i) {
			sum[j] += v
		}
	}
	return math.Sqrt(dense.Norm2(sum))
}

// Full blocks sum to zero unless one norm exceeds the sum of the others.
func TestSimplexPlusSumsToZero(t *testing.T) {
	src := rng.Stream(90)
	for _, d := range []int{3, 5, 16, 64} {
		for range 20 {
			o, err := coupling.SimplexPlus{}.Sample(d, d, coupling.Law{}, src)
			if err != nil {
				t.Fatal(err)
			}
			var largest, total float64
			for i := range d {
				n := math.Sqrt(dense.Norm2(o.Rows.Row(i)))
				largest, total = max(largest, n), total+n
			}
			// d = 3 with a nearly degenerate triangle converges slowly; skip cases that 20 sweeps cannot close.
			if 2*largest > 0.95*total {
				continue
			}
			if s := resultant(o.Rows); s > 1e-6*largest {
				t.Errorf("d=%d: |T| = %g", d, s)
			}
		}
	}
}

// On the sphere the simplex is already balanced.
func TestSimplexPlusOnTheSphereIsSimplex(t *testing.T) {
	o, err := coupling.SimplexPlus{}.Sample(7, 7, coupling.Law{Kind: coupling.Sphere, Param: 2}, rng.Stream(92))
	if err != nil {
		t.Fatal(err)
	}
	if e := angleFailure(o.Rows, 7, -1./6); e > 1e-12 {
		t.Errorf("angles off by %g", e)
	}
}

func TestSimplexPlusErrors(t *testing.T) {
	if _, err := (coupling.SimplexPlus{Sweeps: -2}).Sample(1, 2, coupling.Law{}, rng.Stream(1)); err == nil ||
		!strings.Contains(err.Error(), "Sweeps") {
		t.Errorf("negative sweeps: %v", err)
	}
}
