package decoder

import "github.com/randfeat/randfeat/models/internal/nn"

// ExactState is the state of float32 models.
func ExactState(heads, kvHeads, dim, window int) State { return newExact(heads, kvHeads, dim, window) }

// HalfState is the state of quantised models.
func HalfState(heads, kvHeads, dim, window int) State {
	k, err := nn.Chosen()
	if err != nil {
		panic(err)
	}
	return newHalf(newHalfWork(k), heads, kvHeads, dim, window)
}
