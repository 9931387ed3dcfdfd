package coupling_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
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
			// d = 3 with a nearly degenerate triangle converges slowly; skip what 20 sweeps cannot close.
			if 2*largest > 0.95*total {
				continue
			}
			if s := resultant(o.Rows); s > 1e-6*largest {
				t.Errorf("d=%d: |T| = %g", d, s)
			}
		}
	}
}

// docs/theory.md §4.8, d = 6: mean |T| falls from 1.6 to 4e-4 after one sweep and 3e-7 after two; it never grows.
func TestSimplexPlusConvergence(t *testing.T) {
	const d, reps = 6, 2000
	src := rng.Stream(91)
	var mean [3]stattest.Moments
	for range reps {
		norms := make([]float64, d)
		for i := range norms {
			norms[i] = rng.Chi(d, src)
		}
		start, err := coupling.SimplexPlusSweeps(norms, 0, dense.Identity[float64](d))
		if err != nil {
			t.Fatal(err)
		}
		res, err := coupling.SimplexPlusSweeps(norms, 5, dense.Identity[float64](d))
		if err != nil {
			t.Fatal(err)
		}
		last := resultant(dense.MustFromRows(start.W))
		mean[0].Add(last)
		mean[1].Add(res.Resultant[0])
		mean[2].Add(res.Resultant[1])
		for i, v := range res.Resultant {
			if v > last+1e-14 {
				t.Fatalf("|T| grew from %g to %g in pass %d", last, v, i+1)
			}
			last = v
		}
	}
	for i, c := range []struct{ lo, hi float64 }{{1.55, 1.65}, {1e-4, 2e-3}, {0, 1e-5}} {
		if m := mean[i].Mean(); m < c.lo || m > c.hi {
			t.Errorf("mean |T| after %d sweeps is %g, want %g to %g", i, m, c.lo, c.hi)
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
	id := dense.Identity[float64](2)
	if _, err := coupling.SimplexPlusSweeps(nil, 1, dense.Matrix[float64]{}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no norms: %v", err)
	}
	if _, err := coupling.SimplexPlusSweeps([]float64{1, 2, 3}, 1, id); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong R: %v", err)
	}
	if _, err := coupling.SimplexPlusSweeps([]float64{1, 2}, -1, id); err == nil {
		t.Error("negative passes accepted")
	}
	if _, err := (coupling.SimplexPlus{Sweeps: -2}).Sample(1, 2, coupling.Law{}, rng.Stream(1)); err == nil ||
		!strings.Contains(err.Error(), "Sweeps") {
		t.Errorf("negative sweeps: %v", err)
	}
}
