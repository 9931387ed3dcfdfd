package weights

import (
	"fmt"
	"slices"
)

// File is an open model: its configuration, and its tensors under the names of Hugging Face without the prefix
// "bert." or "mpnet.":
//
//	embeddings.word_embeddings.weight, encoder.layer.0.attention.self.query.weight, …   (bert)
//	model.embed_tokens.weight, model.layers.0.self_attn.q_proj.weight, …, lm_head.weight   (llama, qwen2)
//
// The rows of query and key projections are in the order of Hugging Face too, where rotary positions pair the two
// halves of a head. Readers of files that pair neighbours undo the permutation.
type File interface {
	Path() string
	Config() Config
	Names() []string                    // of all tensors, sorted
	Tensor(name string) (Tensor, error) // Tensor.Name and errors have the file's own name of it
	Close() error                       // ends the life of all Tensor.Data
}

// Get returns the tensor with a name and shape. The error names file, tensor and both shapes.
func Get(f File, name string, shape ...int) (Tensor, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return t, err
	}
	if !slices.Equal(t.Shape, shape) {
		return t, fmt.Errorf("%s: tensor %s has shape %v, want %v: %w", f.Path(), t.Name, t.Shape, shape, ErrFormat)
	}
	return t, nil
}

// Missing returns the error for a tensor that a file does not have.
func Missing(path, name string) error {
	return fmt.Errorf("%s: no tensor %s: %w", path, name, ErrFormat)
}
