package safetensors_test

import (
	"fmt"

	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/safetensors"
)

func Example() {
	folder, remove := tiny.Temporary("llama") // as Hugging Face publishes models
	defer remove()
	f, err := safetensors.Open(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	t, err := f.Tensor("model.layers.0.self_attn.q_proj.weight")
	fmt.Println(f.Config().Architecture, t.Shape, err)
	// Output: llama [32 32] <nil>
}
