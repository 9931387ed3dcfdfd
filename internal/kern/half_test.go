package kern

import (
	"fmt"
	"math"
	"testing"
)

// Scores and sums of values in half precision against the numbers that the halves stand for.
func TestHalfAttention(t *testing.T) {
	for _, tab := range Models() {
		for _, d := range []int{1, 8, 16, 32, 64, 80, 128} {
			for _, blocks := range []int{0, 1, 3, 67} {
				n := blocks * HalfKeys
				if d > 64 && blocks > 3 {
					continue
				}
				name := fmt.Sprintf("%s, d = %d, %d keys", tab.Name, d, n)
				q, x := randomRows(21, 4, d), randomRows(22, max(1, n), d)
				keys, values := make([]uint16, n*d), make([]uint16, n*d)
				for j := range n {
					for c, v := range x.Row(j) {
						keys[j/HalfKeys*HalfKeys*d+c*HalfKeys+j%HalfKeys], values[j*d+c] = ToHalf(v), ToHalf(v)
					}
				}
				stride := n + 5
				scores := make([]float32, 4*stride)
				for i := range scores {
					scores[i] = 77
				}
				tab.HalfScores(scores, stride, q.Data, keys, d)
				for i := range 4 {
					for j := range stride {
						want, size := 77.0, 0.0
						if j < n {
							want = 0
							for c, v := range q.Row(i) {
								p := float64(v) * float64(FromHalf(values[j*d+c]))
								want += p
								size += math.Abs(p)
							}
						}
						if got := float64(scores[i*stride+j]); !(math.Abs(got-want) <= 2e-6*size) {
							t.Fatalf("%s: score %d of query %d is %v, want %v", name, j, i, got, want)
						}
					}
				}
				sums := randomRows(23, 4, d)
				before := sums.Clone()
				tab.HalfValues(sums.Data, scores, stride, values, d)
				for i := range 4 {
					for c := range d {
						want := float64(before.At(i, c))
						size := math.Abs(want)
						for j := range n {
							p := float64(scores[i*stride+j]) * float64(FromHalf(values[j*d+c]))
							want += p
							size += math.Abs(p)
						}
						if got := float64(sums.At(i, c)); !(math.Abs(got-want) <= 1e-5*size) {
							t.Fatalf("%s: sum %d of query %d is %v, want %v", name, c, i, got, want)
						}
					}
				}
			}
		}
	}
}
