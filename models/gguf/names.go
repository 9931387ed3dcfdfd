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
	"attn_q_norm": "model.layers.%s.self_attn.q_norm",
	"attn_k_norm": "model.layers.%s.self_attn.k_norm",
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

// name finds the names of Hugging Face for the tensors and reads the configuration. Tensors with unknown names keep
// them: forward passes refuse them.
func (f *File) name(stored []tensor) error {
	arch := f.String("general.architecture")
	names := map[string]map[string]string{"llama": llamaNames, "qwen2": llamaNames, "qwen3": llamaNames,
		"bert": bertNames}[arch]
	if names == nil {
		return fmt.Errorf("general.architecture %q is not supported (bert, llama, qwen2 and qwen3 are): %w", arch,
			weights.ErrFormat)
	}
	if err := f.refuse(arch); err != nil {
		return err
	}
	own := map[string]string{}
	for from, to := range names {
		own[to] = from
	}
	f.stored = func(name string) string { return storedAs(own, name) }
	for _, t := range stored {
		name := t.Name
		if m := storedName.FindStringSubmatch(t.Name); m != nil {
			if to, ok := names[m[2]]; ok && strings.Contains(to, "%s") == (m[1] != "") {
				name = strings.Replace(to, "%s", m[1], 1) + "." + m[3]
			}
		}
		if _, twice := f.tensors[name]; twice {
			return fmt.Errorf("two tensors %s: %w", t.Name, weights.ErrFormat)
		}
		f.tensors[name] = t
		f.names = append(f.names, name)
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

var layerNumber = regexp.MustCompile(`\.(\d+)\.`)

// storedAs is the inverse of name, for messages about tensors that a file does not have.
func storedAs(own map[string]string, name string) string {
	base, layer := name, ""
	if m := layerNumber.FindStringSubmatchIndex(name); m != nil {
		base, layer = name[:m[2]]+"%s"+name[m[3]:], "blk."+name[m[2]:m[3]]+"."
	}
	end := strings.LastIndexByte(base, '.')
	if end < 0 || own[base[:end]] == "" {
		return name
	}
	return layer + own[base[:end]] + base[end:]
}

// Keys of an architecture that are used, or that change no result. All others are refused unless they are zero, false
// or empty: they describe models that are not run here, such as experts or scaled logits.
var usedKeys = []string{"block_count", "embedding_length", "feed_forward_length", "context_length", "vocab_size",
	"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
	"attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon", "attention.sliding_window",
	"rope.dimension_count", "rope.freq_base", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor",
	"rope.scaling.original_context_length", "rope.scaling.attn_factor", "rope.scaling.finetuned", "pooling_type",
	"tensor_data_layout"}

// refuse returns an error for the first key of the metadata that would change results and is not used.
func (f *File) refuse(arch string) error {
	if n, _ := f.Int("split.count"); n > 1 {
		return fmt.Errorf("split.count is %d: join the parts of the model first (llama-gguf-split --merge): %w", n,
			weights.ErrFormat)
	}
	if kind := f.String("general.type"); kind != "" && kind != "model" {
		return fmt.Errorf("general.type is %q, want a model: %w", kind, weights.ErrFormat)
	}
	for _, name := range f.Unknown(arch+".", usedKeys) {
		v := f.values[arch+"."+name]
		if name == "attention.causal" && arch != "bert" || name == "logit_scale" && v == 1.0 {
			continue
		}
		return fmt.Errorf("%s.%s is %v, which is not supported: %w", arch, name, v, weights.ErrFormat)
	}
	if causal, ok := f.Bool(arch + ".attention.causal"); ok && causal == (arch == "bert") {
		return fmt.Errorf("%s.attention.causal is %v, which is not supported: %w", arch, causal, weights.ErrFormat)
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
					return fmt.Errorf("tensor %s has %d rows, want %d heads of %d: %w", t.Name, t.Shape[0], heads,
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
	if n, ok := f.Int(arch + ".attention.value_length"); ok && n != c.HeadDim {
		return fmt.Errorf("%s.attention.value_length is %d and the keys of a head have %d numbers: %w", arch, n, c.HeadDim,
			weights.ErrFormat)
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
		c.Pooling = map[int]string{0: "mean", 1: "mean", 2: "cls", 3: "last", 4: "rank"}[p]
	}
}

func (f *File) configureLlama(arch string) error {
	c := &f.config
	c.NormEps, _ = f.Float(arch + ".attention.layer_norm_rms_epsilon")
	c.Vocab = f.rows("model.embed_tokens.weight")
	c.Activation = "silu"
	_, head := f.tensors["lm_head.weight"]
	c.TiedEmbeddings = !head
	c.SlidingWindow, _ = f.Int(arch + ".attention.sliding_window")
	if p, _ := f.Int(arch + ".pooling_type"); p != 0 {
		return fmt.Errorf("%s.pooling_type is %d: decoders that embed are not supported: %w", arch, p, weights.ErrFormat)
	}
	if d, ok := f.Int(arch + ".rope.dimension_count"); ok && d != c.HeadDim {
		return fmt.Errorf("%s.rope.dimension_count is %d, but heads have %d numbers, which is not supported: %w", arch, d,
			c.HeadDim, weights.ErrFormat)
	}
	theta, ok := f.Float(arch + ".rope.freq_base")
	if !ok {
		theta = 10000
	}
	scaling := weights.RopeScaling{Kind: f.String(arch + ".rope.scaling.type")}
	scaling.Factor, _ = f.Float(arch + ".rope.scaling.factor")
	if v, ok := f.Float(arch + ".rope.scale_linear"); ok && scaling.Kind == "" && v > 0 { // of old files
		scaling.Kind, scaling.Factor = "linear", v
	}
	scaling.OriginalPosition, _ = f.Float(arch + ".rope.scaling.original_context_length")
	freqs, length, err := weights.Rope(theta, c.HeadDim, scaling)
	if err != nil {
		return err
	}
	if v, ok := f.Float(arch + ".rope.scaling.attn_factor"); ok {
		length *= v
	}
	c.RopeFreqs, c.RopeLength = freqs, length
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
