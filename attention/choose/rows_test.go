package choose

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/heads"
)

// Rows of a causal check are those of exact attention.
func TestAnswerCausal(t *testing.T) {
	const length = 1300
	q, k, v := heads.Generate[float32](6, length, 16, 1)
	k, v = headRange(k, 0, 2), headRange(v, 0, 2)
	vis := attention.Visibility{Causal: true}
	want := attention.NewSeq[float32](1, 6, length, 16)
	for _, scale := range []float64{0, 0.7} {
		_, err := (&attention.Exact[float32]{Visibility: vis, Scale: scale}).Forward(want, q, k, v)
		must(t, err)
		c := &Check{vis: vis, q: q, k: k, v: v, rows: []int{0, 1, 63, 511, 512, 513, 1024, 1299}}
		must(t, c.answer(scale))
		for h := range 6 {
			for i, l := range c.rows {
				for j, x := range c.exact.Head(0, h).Row(i) {
					if w := want.Head(0, h).Row(l)[j]; !(math.Abs(float64(x-w)) <= 1e-5) {
						t.Fatalf("scale %v, head %d, row %d, column %d: %v, want %v", scale, h, l, j, x, w)
					}
				}
			}
		}
	}
}
