package pretrained_test

import (
	"fmt"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/pretrained"
)

// A published decoder is converted to positive random features next to a window of exact keys. It then writes with a
// state of constant size. The folder holds a tiny random Llama; use the folder of your own model.
func Example() {
	backend, err := compute.NewWithConfig("go:parallelism=-1")
	if err != nil {
		panic(err)
	}
	m, err := pretrained.Load("testdata/llama")
	if err != nil {
		panic(err)
	}
	plan := pretrained.Plan{
		Spec:   randfeat.Spec{Family: family.OPRF{}, Coupling: coupling.Orthogonal{}, M: 8, Seed: 3},
		Window: 3,
		Sinks:  2,
	}
	passages := [][]int32{{3, 1, 4, 1, 5, 9, 2, 6}, {2, 7, 1, 8, 2, 8, 1, 8}}
	a, err := m.Calibrate(backend, plan, passages)
	if err != nil {
		panic(err)
	}
	if err := m.SetAttention(a); err != nil {
		panic(err)
	}
	largest := func(logits []float32) (at int32) {
		for i, x := range logits {
			if x > logits[at] {
				at = int32(i)
			}
		}
		return at
	}
	for _, n := range []int{2, 5} {
		text, err := m.Generate(backend, passages[0], n, largest)
		if err != nil {
			panic(err)
		}
		fmt.Println(len(text.Tokens), "tokens,", text.StateBytes, "bytes of state")
	}
	// Output:
	// Go backend: parallelism set to -1
	// 2 tokens, 832 bytes of state
	// 5 tokens, 832 bytes of state
}
