package centroid

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/internal/kern"
)

func TestSelector(t *testing.T) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var s selector
	var got []int32
	for trial := range 400 {
		n := 2 + r.IntN(1500)
		x := make([]float32, n)
		for i := range x {
			switch trial % 5 {
			case 0:
				x[i] = float32(r.NormFloat64())
			case 1:
				x[i] = float32(r.IntN(4)) // many equal ones
			case 2:
				x[i] = float32(math.Exp(20 * r.NormFloat64())) // nearly all in one bucket
			case 3:
				x[i] = float32(i%sampleStep) * float32(r.NormFloat64()) // a sample that misleads
			case 4:
				x[i] = float32(r.NormFloat64()) * math.MaxFloat32 / 4
			}
		}
		k := 1 + r.IntN(n-1)
		order := make([]int32, n)
		for i := range order {
			order[i] = int32(i)
		}
		slices.SortStableFunc(order, func(i, j int32) int {
			if x[i] > x[j] {
				return -1
			} else if x[i] < x[j] {
				return 1
			}
			return 0
		})
		want := order[:k]
		slices.Sort(want)
		if got = s.top(got, x, k, tab); !slices.Equal(got, want) {
			t.Fatalf("trial %d: %d of %d: %v, want %v", trial, k, n, got, want)
		}
	}
}
