package layer

import (
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Decoder is a model that reads every token once and remembers the text in states of constant size.
type Decoder struct {
	// Empty returns the states before the first token.
	Empty func(scope *model.Scope, g *Graph) []*Node
	// Extend reads tokens [1, n], the first of which stands at position from, an int32 scalar. It returns the logits
	// [1, vocabulary] after the last token, and the new states.
	Extend func(scope *model.Scope, tokens, from *Node, states []*Node) (*Node, []*Node)
}

// readAtOnce is the number of tokens of a prompt per call. Windows compute the scores of all pairs of them.
const readAtOnce = 64

// Reader is a compiled decoder in the middle of a text.
type Reader struct {
	exec   *model.Exec
	states []*tensors.Tensor
	at     int32
}

// Open compiles the decoder with the variables of a store, at the beginning of a text.
func (d Decoder) Open(b compute.Backend, store *model.Store) (*Reader, error) {
	exec, err := model.NewExec(b, store, func(scope *model.Scope, in []*Node) []*Node {
		logits, states := d.Extend(scope, in[0], in[1], in[2:])
		return append([]*Node{logits}, states...)
	})
	if err != nil {
		return nil, err
	}
	states, err := model.CallOnceN(b, store, func(scope *model.Scope, x *Node) []*Node {
		return d.Empty(scope, x.Graph())
	}, int32(0))
	if err != nil {
		exec.Finalize()
		return nil, err
	}
	return &Reader{exec: exec, states: states}, nil
}

// Read reads more tokens and returns the logits of the next one.
func (r *Reader) Read(tokens []int32) ([]float32, error) {
	var logits []float32
	for part := range slices.Chunk(tokens, readAtOnce) {
		args := []any{tensors.FromFlatDataAndDimensions(slices.Clone(part), 1, len(part)), r.at}
		for _, s := range r.states {
			args = append(args, s)
		}
		out, err := r.exec.Call(args...)
		if err != nil {
			return nil, err
		}
		if err := r.drop(); err != nil {
			return nil, err
		}
		r.states, r.at = out[1:], r.at+int32(len(part))
		if logits, err = tensors.CopyFlatData[float32](out[0]); err != nil {
			return nil, err
		}
		if err := out[0].FinalizeAll(); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// Write reads a prompt and continues it by at most n tokens, which choose picks from the logits. A token of end
// stops it and is not returned.
func (r *Reader) Write(prompt []int32, n int, choose func(logits []float32) int32, end []int32) ([]int32, error) {
	var text []int32
	fresh := prompt
	for range n {
		logits, err := r.Read(fresh)
		if err != nil {
			return nil, err
		}
		next := choose(logits)
		if slices.Contains(end, next) {
			break
		}
		text = append(text, next)
		fresh = text[len(text)-1:]
	}
	return text, nil
}

// Bytes returns the size of the states in bytes.
func (r *Reader) Bytes() (n int) {
	for _, s := range r.states {
		n += int(s.Shape().ByteSize())
	}
	return n
}

// drop frees the states on the device.
func (r *Reader) drop() error {
	for _, s := range r.states {
		if err := s.FinalizeAll(); err != nil {
			return err
		}
	}
	r.states = nil
	return nil
}

// Close frees the memory of the decoder on its device.
func (r *Reader) Close() error {
	r.exec.Finalize()
	return r.drop()
}
