package encoder_test

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/safetensors"
)

func Example() {
	folder, remove := tiny.Temporary("bert") // a random model
	defer remove()
	file, err := safetensors.Open(folder) // or gguf.Open
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	m, err := encoder.New(file, encoder.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := [][]int32{{1, 5, 9, 2}, {1, 7, 2}} // ids of package token
	dst := dense.New[float32](len(batch), m.Dim())
	err = m.Embed(dst, batch)
	fmt.Println(dst.Rows, dst.Cols, err)
	// Output: 2 32 <nil>
}
