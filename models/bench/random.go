package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/randfeat/randfeat/models/weights"
)

// randomFile is a decoder with the sizes of a published model and random weights. It computes nonsense at the speed
// of that model, for machines that have no weights.
type randomFile struct {
	name   string
	config weights.Config
	kind   weights.Type
}

// newRandom makes the model with a name, optionally followed by a colon and a type of weights.
func newRandom(name string) (*randomFile, error) {
	f := &randomFile{name: "random:" + name}
	name, kind, typed := strings.Cut(name, ":")
	c := weights.Config{Activation: "silu", NormEps: 1e-5, TiedEmbeddings: true, MaxPositions: 32768}
	switch name {
	case "smollm2":
		c.Architecture, c.Layers, c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.FFN = "llama", 30, 576, 9, 3, 64, 1536
		c.Vocab, f.kind = 49152, weights.Q4_1
	case "qwen2.5-1.5b":
		c.Architecture, c.Layers, c.Hidden, c.Heads, c.KVHeads, c.HeadDim, c.FFN = "qwen2", 28, 1536, 12, 2, 128, 8960
		c.Vocab, f.kind = 151936, weights.Q4_K
	default:
		return nil, fmt.Errorf("no random model %q: smollm2 or qwen2.5-1.5b", name)
	}
	if typed {
		kinds := map[string]weights.Type{"q4_0": weights.Q4_0, "q4_1": weights.Q4_1, "q8_0": weights.Q8_0,
			"q4_k": weights.Q4_K}
		if _, ok := kinds[kind]; !ok {
			return nil, fmt.Errorf("no random weights of type %q: q4_0, q4_1, q8_0 or q4_k", kind)
		}
		f.kind = kinds[kind]
	}
	var err error
	c.RopeFreqs, c.RopeLength, err = weights.Rope(1e5, c.HeadDim, weights.RopeScaling{})
	f.config = c
	return f, err
}

func (f *randomFile) Path() string           { return f.name }
func (f *randomFile) Config() weights.Config { return f.config }
func (f *randomFile) Names() []string        { return nil }
func (f *randomFile) Close() error           { return nil }

// Tensor makes weights of the order of 1/√columns, so that activations stay finite. Norms are ones and biases zeros.
func (f *randomFile) Tensor(name string) (weights.Tensor, error) {
	c := &f.config
	part := strings.Split(strings.TrimSuffix(name, ".weight"), ".")
	last := part[len(part)-1]
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	if last == "bias" {
		n := map[string]int{"q_proj": q, "k_proj": kv, "v_proj": kv}[part[len(part)-2]]
		return weights.Tensor{Name: name, Shape: []int{n}, Data: make([]byte, 4*n)}, nil
	}
	shape := map[string][]int{"q_proj": {q, c.Hidden}, "k_proj": {kv, c.Hidden}, "v_proj": {kv, c.Hidden},
		"o_proj": {c.Hidden, q}, "gate_proj": {c.FFN, c.Hidden}, "up_proj": {c.FFN, c.Hidden},
		"down_proj": {c.Hidden, c.FFN}, "embed_tokens": {c.Vocab, c.Hidden}}[last]
	if shape == nil { // a norm
		t := weights.Tensor{Name: name, Shape: []int{c.Hidden}}
		for range c.Hidden {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, 0x3f800000)
		}
		return t, nil
	}
	numbers, bytes := f.kind.Block()
	t := weights.Tensor{Name: name, Type: f.kind, Shape: shape, Data: make([]byte, shape[0]*shape[1]/numbers*bytes)}
	r := rand.NewPCG(1, uint64(len(name)))
	for i := 0; i+8 <= len(t.Data); i += 8 {
		binary.LittleEndian.PutUint64(t.Data[i:], r.Uint64())
	}
	// Scales in half precision: 2⁻⁹ for 4 bits, 2⁻¹² for Q8_0 and 2⁻¹⁴ for Q4_K, which multiplies it by up to 63.
	// Minima: −2⁻⁴, and 2⁻¹¹ for Q4_K.
	scale, least := uint16(0x1800), uint16(0xac00)
	switch f.kind {
	case weights.Q8_0:
		scale = 0x0c00
	case weights.Q4_K:
		scale, least = 0x0400, 0x1000
	}
	for i := 0; i < len(t.Data); i += bytes {
		binary.LittleEndian.PutUint16(t.Data[i:], scale)
		if f.kind == weights.Q4_1 || f.kind == weights.Q4_K {
			binary.LittleEndian.PutUint16(t.Data[i+2:], least)
		}
	}
	return t, nil
}
