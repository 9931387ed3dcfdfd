package gguf_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/weights"
)

func Example() {
	folder, err := os.MkdirTemp("", "gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")
	if err := gguf.WriteTiny(path); err != nil { // yours is a file of llama.cpp
		fmt.Println(err)
		return
	}
	f, err := gguf.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	c := f.Config()
	t, err := weights.Get(f, "model.embed_tokens.weight", c.Vocab, c.Hidden) // by the names of Hugging Face
	if err != nil {
		fmt.Println(err)
		return
	}
	row := make([]float32, t.Cols())
	t.Row(row, 0) // in float32
	fmt.Println(c.Architecture, c.Layers, t.Shape, t.Type)
	// Output: llama 1 [2 8] F32
}
