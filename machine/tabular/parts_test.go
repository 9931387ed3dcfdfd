package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestFolds(t *testing.T) {
	const k, groups = 3, 30000
	count := map[[k]int]int{}
	for g := range int64(groups) {
		var order [k]int
		for j := range order {
			order[j] = fold(4, g*k+int64(j), k)
		}
		count[order]++
		sorted := slices.Sorted(slices.Values(order[:]))
		if !slices.Equal(sorted, []int{0, 1, 2}) {
			t.Fatalf("group %d has folds %v", g, order)
		}
	}
	bound := stattest.Bound(1e-6, 6)
	for order, n := range count {
		p := 1.0 / 6
		if z := (float64(n) - groups*p) / math.Sqrt(groups*p*(1-p)); len(count) != 6 || math.Abs(z) > bound {
			t.Errorf("order %v comes %d times of %d: z = %.1f", order, n, groups, z)
		}
	}
	if fold(4, 20, 40) == fold(5, 20, 40) && fold(4, 21, 40) == fold(5, 21, 40) && fold(4, 22, 40) == fold(5, 22, 40) {
		t.Error("the seed has no effect")
	}
}

func TestReservoir(t *testing.T) {
	x := dense.New[float64](5000, 1)
	for i := range x.Rows {
		x.Set(i, 0, float64(i))
	}
	take := func(block int) []float64 {
		r := reservoir{seed: 9}
		for lo := 0; lo < x.Rows; lo += block {
			r.add(x.RowRange(lo, min(lo+block, x.Rows)), dense.Matrix[float64]{Rows: block}, 1000)
		}
		return slices.Sorted(slices.Values(r.x.Data))
	}
	a := take(1)
	if b := take(333); !slices.Equal(a, b) || len(a) != 1000 {
		t.Errorf("%d and %d rows, or others", len(a), len(b))
	}
	// The mean of 1000 of 0…4999 without replacement has variance (4999·5001/12)/1000·(4/5).
	sum := 0.0
	for _, v := range a {
		sum += v
	}
	if z := (sum/1000 - 2499.5) / math.Sqrt(4999.0*5001/12/1000*0.8); math.Abs(z) > stattest.Bound(1e-6, 1) {
		t.Errorf("mean row %g: z = %.1f", sum/1000, z)
	}
}

func TestMedianDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &sample{x: dense.New[float64](4000, 3)}
	for i := range s.x.Data {
		s.x.Data[i] = r.NormFloat64()
	}
	// |x−y|²/2 has a chi-square law of 3 degrees, whose median is 2.366; 4096 pairs give 2 % at most.
	if got, want := medianDistance(s.x, kernel.Gaussian, 3), math.Sqrt(2*2.366); math.Abs(got-want) > 0.04*want {
		t.Errorf("median distance %g, want %g", got, want)
	}
	clear(s.x.Data)
	if got := medianDistance(s.x, kernel.Gaussian, 3); got != 1 {
		t.Errorf("median distance %g of equal rows", got)
	}
}
