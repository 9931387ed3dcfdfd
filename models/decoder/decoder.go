// Package decoder runs decoders of the Llama type (Touvron et al. 2023, arXiv:2302.13971), such as Llama, SmolLM2,
// Qwen2 and Qwen3: RMS norms, rotary positions, grouped queries, gated units. It works on token ids; package models
// adds text.
//
// Load the weights, start a session, append tokens:
//
//	m, err := decoder.New(file, decoder.Options{})
//	s, err := m.NewSession(nil)            // nil: exact attention
//	logits, err := s.Append(ids...)        // the prompt, then one token at a time
//
// Choose the next token from the logits and append it. To change how the heads remember, pass NewSession a function
// that makes a [State] per layer. To shrink a context that was read, call [Session.KeepQueries] before reading and
// [Session.Compact] after it. [Model.Curves] measures what each head loses with few slots, and [Curves.Compacted]
// divides slots among the heads.
//
// A [Model] is immutable and shared by all sessions. A [Session] must not be used by concurrent calls; Fork copies
// it.
//
// Files: session.go has the forward pass; exact.go and half.go the states of exact attention in float32 and in half
// precision; compact.go compaction, and parts.go compacted layers; curves.go measures the
// losses of heads, with divergence.go, and budgets.go divides slots by them.
package decoder

import (
	"fmt"
	"strings"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/models/internal/nn"
	"github.com/randfeat/randfeat/models/weights"
)

// Options say how a model is loaded. The zero value computes in float32.
type Options struct {
	// Quantised keeps weights in 8 or 4 bits, rounds activations to 8 bits, and keeps keys and values in half
	// precision.
	Quantised bool
}

// Model is a loaded decoder. It is immutable, and its sessions may run concurrently.
type Model struct {
	config    weights.Config
	kernels   nn.Kernels
	quantised bool

	words  weights.Tensor // token embeddings, still in the file
	blocks []block
	norm   []float32
	output *nn.Linear
}

// block is one layer. Projections of the same input are stacked into one matrix: queries, keys and values in qkv,
// gate and up in gateUp. So a layer needs four products.
type block struct {
	attnNorm, ffnNorm      []float32
	qNorm, kNorm           []float32 // of the queries and keys of a head; nil: none
	qkv, out, gateUp, down *nn.Linear
}

// State is the memory of the heads of one layer, see [centroid.State]: exact, a centroid cache or slots.
type State = centroid.State

// New loads the weights of a decoder. Token embeddings are read from the file on demand, so the file must stay open
// as long as the model is used.
func New(f weights.File, opt Options) (*Model, error) {
	c := f.Config()
	if !c.IsDecoder() {
		return nil, fmt.Errorf("%s: %s is an encoder, want a decoder: %w", f.Path(), c.Architecture, weights.ErrFormat)
	}
	if err := c.Validate(f.Path()); err != nil {
		return nil, err
	}
	k, err := nn.Chosen()
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, kernels: k, quantised: opt.Quantised}
	precision := nn.Float32
	if opt.Quantised {
		precision = nn.Quantised
	}
	l := nn.Loader{File: f}
	type part struct {
		name string
		rows int
	}
	// Biases are used if the file has them.
	linear := func(prefix string, cols int, parts ...part) *nn.Linear {
		var bias []float32
		var list []weights.Tensor
		rows := 0
		for _, p := range parts {
			list = append(list, l.Tensor(prefix+p.name+".weight", p.rows, cols))
			if name := prefix + p.name + ".bias"; l.Has(name) {
				bias = append(append(bias, make([]float32, rows-len(bias))...), l.Vector(name, p.rows)...)
			}
			rows += p.rows
		}
		if l.Err != nil {
			return nil
		}
		if bias != nil {
			bias = append(bias, make([]float32, rows-len(bias))...)
		}
		return nn.NewLinear(k, precision, bias, list...)
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for i := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		b := block{
			attnNorm: l.Vector(p+"input_layernorm.weight", c.Hidden),
			ffnNorm:  l.Vector(p+"post_attention_layernorm.weight", c.Hidden),
			qkv:      linear(p+"self_attn.", c.Hidden, part{"q_proj", q}, part{"k_proj", kv}, part{"v_proj", kv}),
			out:      linear(p+"self_attn.", q, part{"o_proj", c.Hidden}),
			gateUp:   linear(p+"mlp.", c.Hidden, part{"gate_proj", c.FFN}, part{"up_proj", c.FFN}),
			down:     linear(p+"mlp.", c.FFN, part{"down_proj", c.Hidden}),
		}
		if c.Architecture == "qwen3" {
			b.qNorm = l.Vector(p+"self_attn.q_norm.weight", c.HeadDim)
			b.kNorm = l.Vector(p+"self_attn.k_norm.weight", c.HeadDim)
		}
		if l.Err != nil {
			return nil, l.Err
		}
		m.blocks = append(m.blocks, b)
		l.Packed()
	}
	m.norm = l.Vector("model.norm.weight", c.Hidden)
	m.words = l.Tensor("model.embed_tokens.weight", c.Vocab, c.Hidden)
	tied := "lm_head.weight"
	if c.TiedEmbeddings {
		m.output = linear("model.", c.Hidden, part{"embed_tokens", c.Vocab})
	} else {
		m.output, tied = linear("", c.Hidden, part{"lm_head", c.Vocab}), ""
	}
	l.Rest(func(name string) bool { // rotary frequencies are part of the configuration
		return name == tied || name == "rope_freqs.weight" || strings.HasSuffix(name, ".rotary_emb.inv_freq")
	})
	return m, l.Err
}

// Config is the shape of the model.
func (m *Model) Config() weights.Config { return m.config }

// Bytes returns the bytes of weights that are read for one token.
func (m *Model) Bytes() int {
	n := m.output.Bytes()
	for i := range m.blocks {
		b := &m.blocks[i]
		n += b.qkv.Bytes() + b.out.Bytes() + b.gateUp.Bytes() + b.down.Bytes()
	}
	return n
}
