package models

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
)

// Generate continues a prompt by n tokens, which choose picks from the logits. Attention by features reads every
// token once and keeps a state of constant size. Other attention reads the whole text again for every token.
func (c Config) Generate(b compute.Backend, store *model.Store, prompt []int32, n int,
	choose func(logits []float32) int32) ([]int32, error) {
	if c.Kind != Decoder {
		return nil, fmt.Errorf("%w: a %s does not generate text", ErrConfig, c.Kind)
	}
	if len(prompt) == 0 {
		return nil, fmt.Errorf("a prompt without tokens")
	}
	for _, t := range prompt {
		if t < 0 || int(t) >= c.Vocab {
			return nil, fmt.Errorf("token %d of the prompt is none of the %d that the model has", t, c.Vocab)
		}
	}
	if m := len(prompt) + n - 1; m > c.Length && !(c.Rotary && c.Stateful()) {
		return nil, fmt.Errorf("%d tokens of prompt and %d more: the model has %d positions", len(prompt), n, c.Length)
	}
	if c.Stateful() {
		return c.continued(b, store, prompt, n, choose)
	}
	text := append([]int32{}, prompt...)
	read, free, err := c.recompute(b, store)
	if err != nil {
		return nil, err
	}
	defer free()
	for range n {
		logits, err := read(text)
		if err != nil {
			return nil, err
		}
		text = append(text, choose(logits))
	}
	return text[len(prompt):], nil
}

// reader returns the logits after a text that grows from call to call.
type reader func(text []int32) ([]float32, error)

// continued reads every token once.
func (c Config) continued(b compute.Backend, store *model.Store, prompt []int32, n int,
	choose func(logits []float32) int32) ([]int32, error) {
	c.Half = false // half precision does not speed up single tokens
	if c.Rotary {
		c.Length = math.MaxInt32 // rotary positions have no limit; Generate has checked the rest
	}
	r, err := layer.Decoder{
		Empty: func(scope *model.Scope, g *Graph) []*Node { return c.Empty(scope, g, 1) }, Extend: c.Extend,
	}.Open(b, store)
	if err != nil {
		return nil, err
	}
	text, err := r.Write(prompt, n, choose, nil)
	return text, errors.Join(err, r.Close())
}

// recompute reads the whole text again for every token, padded to one length: later tokens do not change the logits.
func (c Config) recompute(b compute.Backend, store *model.Store) (reader, func(), error) {
	exec, err := model.NewExec(b, store, func(scope *model.Scope, in []*Node) []*Node {
		return []*Node{c.Next(scope, in[0])}
	})
	if err != nil {
		return nil, nil, err
	}
	return func(text []int32) ([]float32, error) {
		filled := make([]int32, c.Length)
		copy(filled, text)
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(filled, 1, c.Length))
		if err != nil {
			return nil, err
		}
		all, err := tensors.CopyFlatData[float32](out[0])
		if err != nil {
			return nil, err
		}
		return all[(len(text)-1)*c.Vocab:][:c.Vocab], nil
	}, exec.Finalize, nil
}
