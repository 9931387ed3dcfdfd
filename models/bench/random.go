package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
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

// ggufNames has the names of the tensors of a layer, in GGUF files and in Hugging Face.
var ggufNames = []struct{ gguf, name string }{{"attn_norm", "input_layernorm"},
	{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"}, {"attn_v", "self_attn.v_proj"},
	{"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"}, {"ffn_gate", "mlp.gate_proj"},
	{"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}}

// writeGGUF writes the model for llama.cpp: header, metadata, tensor infos with offsets, then the tensors, each
// padded to 32 bytes. It has no tokenizer.
func (f *randomFile) writeGGUF(path string) error {
	c, le := &f.config, binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	var fields, infos []byte
	nFields, nInfos, size := 0, 0, 0
	number := func(key string, v int) {
		nFields++
		fields = le.AppendUint32(le.AppendUint32(text(fields, key), 4), uint32(v))
	}
	float := func(key string, v float32) {
		nFields++
		fields = le.AppendUint32(le.AppendUint32(text(fields, key), 6), math.Float32bits(v))
	}
	word := func(key, v string) {
		nFields++
		fields = text(le.AppendUint32(text(fields, key), 8), v)
	}
	a := c.Architecture + "."
	word("general.architecture", c.Architecture)
	word("tokenizer.ggml.model", "no_vocab")
	for key, v := range map[string]int{"context_length": c.MaxPositions, "embedding_length": c.Hidden,
		"block_count": c.Layers, "feed_forward_length": c.FFN, "attention.head_count": c.Heads,
		"attention.head_count_kv": c.KVHeads, "rope.dimension_count": c.HeadDim, "vocab_size": c.Vocab} {
		number(a+key, v)
	}
	float(a+"attention.layer_norm_rms_epsilon", float32(c.NormEps))
	float(a+"rope.freq_base", 1e5)
	var order []string // of Hugging Face's names
	kinds := map[weights.Type]uint32{
		weights.F32: 0, weights.Q4_0: 2, weights.Q4_1: 3, weights.Q8_0: 8, weights.Q4_K: 12,
	}
	add := func(gguf, name string) error {
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		nInfos++
		infos = le.AppendUint32(text(infos, gguf), uint32(len(t.Shape)))
		for i := range t.Shape {
			infos = le.AppendUint64(infos, uint64(t.Shape[len(t.Shape)-1-i]))
		}
		infos = le.AppendUint64(le.AppendUint32(infos, kinds[t.Type]), uint64(size))
		size += (len(t.Data) + 31) / 32 * 32
		order = append(order, name)
		return nil
	}
	err := errors.Join(add("token_embd.weight", "model.embed_tokens.weight"),
		add("output_norm.weight", "model.norm.weight"))
	for l := range c.Layers {
		for _, n := range ggufNames {
			p, to := fmt.Sprintf("model.layers.%d.%s", l, n.name), fmt.Sprintf("blk.%d.%s", l, n.gguf)
			err = errors.Join(err, add(to+".weight", p+".weight"))
			if c.Architecture == "qwen2" && strings.Contains("attn_q attn_k attn_v", n.gguf) {
				err = errors.Join(err, add(to+".bias", p+".bias"))
			}
		}
	}
	if err != nil {
		return err
	}
	head := le.AppendUint32([]byte("GGUF"), 3)
	head = le.AppendUint64(le.AppendUint64(head, uint64(nInfos)), uint64(nFields))
	head = slices.Concat(head, fields, infos)
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write(append(head, make([]byte, (32-len(head)%32)%32)...)); err != nil {
		return err
	}
	for _, name := range order {
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(t.Data, make([]byte, (32-len(t.Data)%32)%32)...)); err != nil {
			return err
		}
	}
	return w.Close()
}
