package gguf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/models/weights"
)

// Names of tensors in llama.cpp (gguf-py/gguf/constants.py) and in Hugging Face. %s stands for the number of the
// layer. The ending .weight or .bias stays.
var llamaNames = map[string]string{
	"token_embd":  "model.embed_tokens",
	"output_norm": "model.norm",
	"output":      "lm_head",
	"rope_freqs":  "rope_freqs",
	"attn_norm":   "model.layers.%s.input_layernorm",
	"ffn_norm":    "model.layers.%s.post_attention_layernorm",
	"attn_q":      "model.layers.%s.self_attn.q_proj",
	"attn_k":      "model.layers.%s.self_attn.k_proj",
	"attn_v":      "model.layers.%s.self_attn.v_proj",
	"attn_output": "model.layers.%s.self_attn.o_proj",
	"ffn_gate":    "model.layers.%s.mlp.gate_proj",
	"ffn_up":      "model.layers.%s.mlp.up_proj",
	"ffn_down":    "model.layers.%s.mlp.down_proj",
}

var bertNames = map[string]string{
	"token_embd":        "embeddings.word_embeddings",
	"position_embd":     "embeddings.position_embeddings",
	"token_types":       "embeddings.token_type_embeddings",
	"token_embd_norm":   "embeddings.LayerNorm",
	"attn_q":            "encoder.layer.%s.attention.self.query",
	"attn_k":            "encoder.layer.%s.attention.self.key",
	"attn_v":            "encoder.layer.%s.attention.self.value",
	"attn_output":       "encoder.layer.%s.attention.output.dense",
	"attn_output_norm":  "encoder.layer.%s.attention.output.LayerNorm",
	"ffn_up":            "encoder.layer.%s.intermediate.dense",
	"ffn_down":          "encoder.layer.%s.output.dense",
	"layer_output_norm": "encoder.layer.%s.output.LayerNorm",
}

var storedName = regexp.MustCompile(`^(?:blk\.(\d+)\.)?([a-z_]+)\.(weight|bias)$`)

// name renames the tensors to those of Hugging Face and reads the configuration. Tensors with unknown names keep
// them.
func (f *File) name(stored []tensor) error {
	arch := f.String("general.architecture")
	names := map[string]map[string]string{"llama": llamaNames, "qwen2": llamaNames, "bert": bertNames}[arch]
	if names == nil {
		return fmt.Errorf("architecture %q is not supported (bert, llama and qwen2 are): %w", arch, weights.ErrFormat)
	}
	for _, t := range stored {
		if m := storedName.FindStringSubmatch(t.Name); m != nil {
			if to, ok := names[m[2]]; ok && strings.Contains(to, "%s") == (m[1] != "") {
				t.Name = strings.Replace(to, "%s", m[1], 1) + "." + m[3]
			}
		}
		if _, twice := f.tensors[t.Name]; twice {
			return fmt.Errorf("two tensors %s: %w", t.Name, weights.ErrFormat)
		}
		f.tensors[t.Name] = t
		f.names = append(f.names, t.Name)
	}
	slices.Sort(f.names)
	if err := f.configure(arch); err != nil {
		return err
	}
	if arch == "llama" {
		return f.permute()
	}
	return nil
}

// permute marks the tensors whose rows converters have permuted, see unpermute.
func (f *File) permute() error {
	c := &f.config
	for l := range c.Layers {
		for proj, heads := range map[string]int{"q": c.Heads, "k": c.KVHeads} {
			for _, end := range []string{"weight", "bias"} {
				name := fmt.Sprintf("model.layers.%d.self_attn.%s_proj.%s", l, proj, end)
				t, ok := f.tensors[name]
				if !ok {
					continue
				}
				if t.Shape[0] != heads*c.HeadDim {
					return fmt.Errorf("tensor %s has %d rows, want %d heads of %d: %w", name, t.Shape[0], heads,
						c.HeadDim, weights.ErrFormat)
				}
				t.permute = heads
				f.tensors[name] = t
			}
		}
	}
	return nil
}

// configure reads the configuration. It checks only the values that it uses; Parse validates the rest.
func (f *File) configure(arch string) error {
	c := &f.config
	c.Architecture = arch
	var missing string
	number := func(name string) int {
		v, ok := f.Int(arch + "." + name)
		if !ok || v < 0 || v > 1<<30 {
			missing = name
		}
		return v
	}
	c.Layers, c.Hidden, c.Heads = number("block_count"), number("embedding_length"), number("attention.head_count")
	c.FFN, c.MaxPositions = number("feed_forward_length"), number("context_length")
	if missing != "" {
		return fmt.Errorf("metadata has no number %s.%s: %w", arch, missing, weights.ErrFormat)
	}
	if c.Layers > len(f.tensors) || c.Heads < 1 {
		return fmt.Errorf("%d layers of %d heads, but %d tensors: %w", c.Layers, c.Heads, len(f.tensors),
			weights.ErrFormat)
	}
	c.KVHeads = c.Heads
	if n, ok := f.Int(arch + ".attention.head_count_kv"); ok {
		c.KVHeads = n
	}
	c.HeadDim = c.Hidden / c.Heads
	if n, ok := f.Int(arch + ".attention.key_length"); ok {
		c.HeadDim = n
	}
	if c.KVHeads < 1 || c.HeadDim < 1 || c.Heads%c.KVHeads != 0 || c.HeadDim > 1<<20 || c.Heads > 1<<20 {
		return fmt.Errorf("%d heads and %d key/value heads of dimension %d: %w", c.Heads, c.KVHeads, c.HeadDim,
			weights.ErrFormat)
	}
	if arch == "bert" {
		f.configureBERT()
	} else if err := f.configureLlama(arch); err != nil {
		return err
	}
	return nil
}

func (f *File) configureBERT() {
	c := &f.config
	c.NormEps, _ = f.Float("bert.attention.layer_norm_epsilon")
	c.Vocab = f.rows("embeddings.word_embeddings.weight")
	c.TypeVocab = f.rows("embeddings.token_type_embeddings.weight")
	c.Activation, c.Normalize, c.Pooling, c.Passage = "gelu", true, "mean", c.MaxPositions
	if p, ok := f.Int("bert.pooling_type"); ok {
		c.Pooling = map[int]string{0: "mean", 1: "mean", 2: "cls", 3: "last"}[p]
	}
}

func (f *File) configureLlama(arch string) error {
	c := &f.config
	c.NormEps, _ = f.Float(arch + ".attention.layer_norm_rms_epsilon")
	c.Vocab = f.rows("model.embed_tokens.weight")
	c.Activation = "silu"
	_, head := f.tensors["lm_head.weight"]
	c.TiedEmbeddings = !head
	_, c.QKVBias = f.tensors["model.layers.0.self_attn.q_proj.bias"]
	c.SlidingWindow, _ = f.Int(arch + ".attention.sliding_window")
	if d, ok := f.Int(arch + ".rope.dimension_count"); ok && d != c.HeadDim {
		return fmt.Errorf("rotary positions turn %d of %d numbers of a head, which is not supported: %w", d, c.HeadDim,
			weights.ErrFormat)
	}
	theta, ok := f.Float(arch + ".rope.freq_base")
	if !ok {
		theta = 10000
	}
	scaling := weights.RopeScaling{Kind: f.String(arch + ".rope.scaling.type")}
	scaling.Factor, _ = f.Float(arch + ".rope.scaling.factor")
	freqs, err := weights.Rope(theta, c.HeadDim, scaling)
	if err != nil {
		return err
	}
	c.RopeFreqs = freqs
	// Converters store the frequency scaling of Llama 3 as one divisor per pair.
	if t, ok := f.tensors["rope_freqs.weight"]; ok {
		if !t.known || t.Rows()*t.Cols() != len(freqs) {
			return fmt.Errorf("tensor rope_freqs.weight has shape %v, want %d: %w", t.Shape, len(freqs),
				weights.ErrFormat)
		}
		for j, v := range t.Floats(nil) {
			freqs[j] /= float64(v)
		}
	}
	return nil
}

// rows returns the number of rows of a tensor, or 0 if there is no such tensor.
func (f *File) rows(name string) int {
	t, ok := f.tensors[name]
	if !ok {
		return 0
	}
	return t.Rows()
}
