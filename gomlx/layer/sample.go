package layer

import (
	"math"

	"github.com/randfeat/randfeat/internal/rng"
)

// Greedy chooses the likeliest token.
func Greedy(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Sample draws tokens from softmax(logits/temperature), with the random stream of a seed.
func Sample(temperature float64, seed uint64) func(logits []float32) int32 {
	src := rng.Stream(seed, 'g')
	return func(logits []float32) int32 {
		top := float64(logits[Greedy(logits)])
		w := make([]float64, len(logits))
		var sum float64
		for i, x := range logits {
			w[i] = math.Exp((float64(x) - top) / temperature)
			sum += w[i]
		}
		u := rng.Uniform(src) * sum
		for i, x := range w {
			if u -= x; u < 0 {
				return int32(i)
			}
		}
		return Greedy(logits)
	}
}
