package rfx_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/kernel"
)

// Causal linear attention as a GoMLX graph: the first query sees the first key only, so its output is the first value.
func ExampleAttention_Forward() {
	b, _, err := backend.Open("go") // or "xla:cuda" for a GPU
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Finalize()
	m, err := rfx.NewMap(randfeat.Spec{Kernel: kernel.Attention(2), Family: family.OPRF{}, Coupling: coupling.IID{},
		Dim: 2, M: 64, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensors.FromFlatDataAndDimensions([]float64{1, 0, 0, 1, 1, 1}, 1, 1, 3, 2) // [batch, heads, length, dim]
	out, err := graph.CallOnce(b, func(x *graph.Node) *graph.Node {
		return rfx.Attention{Map: m, Causal: true}.Forward(x, x, x, rfx.Visible{})
	}, x)
	if err != nil {
		fmt.Println(err)
		return
	}
	first := tensors.MustCopyFlatData[float64](out)[:2]
	fmt.Println(out.Shape(), first)
	// Output: (Float64)[1, 1, 3, 2] [1 0]
}
