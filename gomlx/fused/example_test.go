package fused_test

import (
	"fmt"

	"github.com/randfeat/randfeat/gomlx/fused"
	"github.com/randfeat/randfeat/gomlx/triton"
)

// Causal attention on the CPU. Queries and keys of zeros weigh all earlier keys alike, so the outputs are means.
func ExampleProgram_Run() {
	s := fused.Shape{Batch: 1, Heads: 1, KVHeads: 1, Queries: 4, Keys: 4, Dim: 2, Value: 1, Features: 16, Maps: 1,
		Causal: true, Products: triton.Full}
	if err := s.Check(); err != nil {
		fmt.Println(err)
	}
	all := map[string]*triton.Buffer{}
	for _, in := range s.Inputs() {
		n := 1
		for _, d := range in.Dims {
			n *= d
		}
		all[in.Name] = triton.NewBuffer(in.Elem, n)
	}
	all["v"].Fill([]float64{2, 4, 6, 8})
	if err := s.Forward(s.Sizes()).Run(all); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.3f\n", all["o"].Data)
	// Output: [2.000 3.000 4.000 5.000]
}
