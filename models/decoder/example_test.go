package decoder_test

import (
	"fmt"

	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/safetensors"
)

// Greedy decoding by hand: append the prompt, then the best token again and again.
func Example() {
	folder, remove := tiny.Temporary("llama") // a random model
	defer remove()
	file, err := safetensors.Open(folder) // or gguf.Open
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	m, err := decoder.New(file, decoder.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := m.NewSession(nil) // exact attention
	if err != nil {
		fmt.Println(err)
		return
	}
	logits, err := s.Append(1, 5, 9) // the prompt, as ids of package token
	for range 4 {
		if err != nil {
			fmt.Println(err)
			return
		}
		best := 0
		for i, v := range logits {
			if v > logits[best] {
				best = i
			}
		}
		logits, err = s.Append(int32(best))
	}
	fmt.Println(s.Len(), err)
	// Output: 7 <nil>
}
