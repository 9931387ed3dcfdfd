package coupling_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// rowPowers are Σ r⁴ and Σ r⁶ of the direction of a row.
func rowPowers(row []float64) (fourth, sixth float64) {
	n2 := dense.Norm2(row)
	for _, v := range row {
		u := v * v / n2
		fourth += u * u
		sixth += u * u * u
	}
	return fourth, sixth
}

// excessOf is the claimed value of E Σ r⁴ and E Σ r⁶.
func excessOf(t *testing.T, c coupling.Coupling, d, m int) (fourth, sixth float64) {
	t.Helper()
	e, ok := coupling.Excess(c, d, m)
	if !ok || e.Dim != d {
		t.Fatalf("%+v, d = %d: excess %+v, %v", c, d, e, ok)
	}
	n := float64(d)
	return e.Fourth + 3/(n+2), e.Sixth + 15/((n+2)*(n+4))
}

// The excess of two factors, exactly: over all signs of D_1 for n = 4 and 8 (those of D_2 do not change moduli).
func TestExcessEnumerated(t *testing.T) {
	for _, n := range []int{4, 8} {
		signs := [][]float64{make([]float64, n), make([]float64, n)}
		for i := range n {
			signs[1][i] = 1
		}
		// Columns of the product are H D_1 H e_j up to signs; rows are its transpose, and all alike.
		x := make([]float64, n)
		x[1] = 1
		var fourth, sixth float64
		patterns := 1 << n
		for p := range patterns {
			for b := range n {
				signs[0][b] = 1 - 2*float64(p>>b&1)
			}
			y := hdProduct(signs, x)
			a, b := rowPowers(y)
			fourth += a / float64(patterns)
			sixth += b / float64(patterns)
		}
		want4, want6 := excessOf(t, coupling.Hadamard{K: 2}, n, n)
		if math.Abs(fourth-want4) > 1e-14 || math.Abs(sixth-want6) > 1e-14 {
			t.Errorf("n = %d: %v, %v, want %v, %v", n, fourth, sixth, want4, want6)
		}
	}
}

// The moments of the directions of every coupling are those that Excess claims: of all in the registry with their
// defaults, where most claim to be uniform, and of products with few factors or rotations, which are not.
func TestExcess(t *testing.T) {
	type run struct {
		c    coupling.Coupling
		d, m int
	}
	var runs []run
	each(func(_ string, c coupling.Coupling, _ coupling.Info) {
		for _, d := range []int{2, 3, 8, 32} {
			if replicates(c, d) > 0 && !isPadded(c, d) {
				runs = append(runs, run{c, d, d})
			}
		}
	})
	few, draws, dims := len(runs), 3500, []int{4, 8, 16}
	if stattest.Full() {
		draws, dims = 6000, []int{4, 8, 16, 32}
	}
	for _, d := range dims {
		for _, c := range []coupling.Coupling{coupling.Hadamard{K: 1}, coupling.Hadamard{K: 2}, coupling.Hadamard{K: 3},
			coupling.Hadamard{K: 4},
			coupling.FastSimplex{K: 2}, coupling.FastSimplex{K: 3}, coupling.Givens{Rotations: 1},
			coupling.Givens{Rotations: d}} {
			runs = append(runs, run{c, d, d}, run{c, d, d / 2}, run{c, d, 2*d + 1})
		}
	}
	bound := stattest.Bound(1e-6, 2*len(runs))
	seen := 0
	for i, r := range runs {
		var g [2]stattest.Moments
		src := rng.Stream(90, uint64(i))
		for range max(60, draws/r.m) {
			o, err := r.c.Sample(r.m, r.d, coupling.Law{}, src)
			if err != nil {
				t.Fatal(err)
			}
			var fourth, sixth float64
			for j := range r.m {
				a, b := rowPowers(o.Rows.Row(j))
				fourth += a / float64(r.m)
				sixth += b / float64(r.m)
			}
			g[0].Add(fourth)
			g[1].Add(sixth)
		}
		var want, uniform [2]float64
		want[0], want[1] = excessOf(t, r.c, r.d, r.m)
		uniform[0], uniform[1] = excessOf(t, nil, r.d, r.m)
		for p, name := range []string{"fourth", "sixth"} {
			se := math.Sqrt(g[p].Var() / float64(g[p].N()))
			slack := bound*se + 1e-12 // moduli that do not vary have se = 0
			if diff := g[p].Mean() - want[p]; math.Abs(diff) > slack {
				t.Errorf("%+v, d = %d, m = %d: %s moment %.6f ± %.6f, want %.6f", r.c, r.d, r.m, name, g[p].Mean(), se,
					want[p])
			}
			if i >= few && math.Abs(g[p].Mean()-uniform[p]) > slack {
				seen++
			}
		}
	}
	t.Logf("%d runs, bound %.1f; %d of the uneven moments are refuted as uniform", len(runs), bound, seen)
	if seen < 2*(len(runs)-few)/2 {
		t.Errorf("only %d uneven moments seen: no power", seen)
	}
}

// Rows of one factor of FastSimplex do not have covariance I, and couplings of other packages are unknown.
func TestExcessUnknown(t *testing.T) {
	for _, c := range []coupling.Coupling{coupling.FastSimplex{K: 1}, foreign{}} {
		if _, ok := coupling.Excess(c, 8, 8); ok {
			t.Errorf("%s: an excess is claimed", fmt.Sprintf("%+v", c))
		}
	}
}
