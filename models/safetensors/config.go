package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/models/weights"
)

// settings are the fields of config.json that are used.
type settings struct {
	ModelType     string  `json:"model_type"`
	Layers        int     `json:"num_hidden_layers"`
	Hidden        int     `json:"hidden_size"`
	Heads         int     `json:"num_attention_heads"`
	KVHeads       *int    `json:"num_key_value_heads"`
	HeadDim       *int    `json:"head_dim"`
	FFN           int     `json:"intermediate_size"`
	Vocab         int     `json:"vocab_size"`
	MaxPositions  int     `json:"max_position_embeddings"`
	LayerNormEps  float64 `json:"layer_norm_eps"`
	RMSNormEps    float64 `json:"rms_norm_eps"`
	TypeVocab     int     `json:"type_vocab_size"`
	Buckets       *int    `json:"relative_attention_num_buckets"`
	Activation    string  `json:"hidden_act"`
	PositionType  string  `json:"position_embedding_type"`
	Theta         float64 `json:"rope_theta"`
	Rope          *rope   `json:"rope_scaling"`
	RopeNew       *rope   `json:"rope_parameters"` // the name since transformers 5
	Tied          *bool   `json:"tie_word_embeddings"`
	MLPBias       bool    `json:"mlp_bias"`
	Window        *int    `json:"sliding_window"`
	UseWindow     *bool   `json:"use_sliding_window"`
	PartialRotary float64 `json:"partial_rotary_factor"`
}

type rope struct {
	Type     string  `json:"type"`
	RopeType string  `json:"rope_type"`
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Original float64 `json:"original_max_position_embeddings"`
	Theta    float64 `json:"rope_theta"`
}

// configure reads config.json and, for encoders, the pooling of sentence-transformers.
func (f *File) configure(folder string) error {
	path := filepath.Join(folder, configName)
	var s settings
	if err := readJSON(path, &s); err != nil {
		return err
	}
	c := weights.Config{Architecture: s.ModelType, Layers: s.Layers, Hidden: s.Hidden, Heads: s.Heads, KVHeads: s.Heads,
		FFN: s.FFN, Vocab: s.Vocab, MaxPositions: s.MaxPositions}
	if s.KVHeads != nil {
		c.KVHeads = *s.KVHeads
	}
	if s.Heads > 0 {
		c.HeadDim = s.Hidden / s.Heads
	}
	if s.HeadDim != nil {
		c.HeadDim = *s.HeadDim
	}
	var err error
	switch s.ModelType {
	case "bert", "mpnet":
		err = f.encoder(&c, s, folder)
	case "llama", "mistral", "qwen2":
		err = f.decoder(&c, s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f.config = c
	return c.Validate(path)
}

var activations = map[string]string{"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
	"relu": "relu", "silu": "silu", "swish": "silu"}

func (f *File) encoder(c *weights.Config, s settings, folder string) error {
	c.NormEps, c.TypeVocab, c.Activation = s.LayerNormEps, s.TypeVocab, activations[s.Activation]
	if c.Activation == "" {
		return fmt.Errorf("hidden_act %q is not supported: %w", s.Activation, weights.ErrFormat)
	}
	if s.PositionType != "" && s.PositionType != "absolute" {
		return fmt.Errorf("position_embedding_type %q is not supported: %w", s.PositionType, weights.ErrFormat)
	}
	if s.ModelType == "mpnet" {
		// Rows 0 and 1 of the position table are for padding.
		c.TypeVocab, c.FirstPosition, c.MaxPositions, c.RelativeBucket = 0, 2, s.MaxPositions-2, 32
		if s.Buckets != nil {
			c.RelativeBucket = *s.Buckets
		}
	}
	c.Pooling, c.Normalize, c.Passage = "mean", true, c.MaxPositions
	return f.pooling(c, folder)
}

// pooling reads the files of sentence-transformers, if there are any: modules.json says whether embeddings are
// normalised and where the pooling mode is, sentence_bert_config.json the length of a passage.
func (f *File) pooling(c *weights.Config, folder string) error {
	var modules []struct{ Type, Path string }
	err := readJSON(filepath.Join(folder, "modules.json"), &modules)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.Normalize = false
	for _, m := range modules {
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; kind {
		case "Transformer":
		case "Normalize":
			c.Normalize = true
		case "Pooling":
			if m.Path != filepath.Base(m.Path) || strings.ContainsAny(m.Path, `/\`) {
				return fmt.Errorf("modules.json: path %q, want a folder beside it: %w", m.Path, weights.ErrFormat)
			}
			var modes map[string]any
			if err := readJSON(filepath.Join(folder, m.Path, configName), &modes); err != nil {
				return err
			}
			c.Pooling = poolingMode(modes)
		default:
			return fmt.Errorf("modules.json: module %s is not supported (Transformer, Pooling and Normalize are): %w",
				m.Type, weights.ErrFormat)
		}
	}
	var sizes struct {
		Length *int `json:"max_seq_length"`
	}
	err = readJSON(filepath.Join(folder, "sentence_bert_config.json"), &sizes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if sizes.Length != nil {
		c.Passage = min(*sizes.Length, c.MaxPositions)
	}
	return nil
}

// poolingMode returns the mode that is switched on. Several modes are joined by +, which Validate rejects.
func poolingMode(modes map[string]any) string {
	if s, ok := modes["pooling_mode"].(string); ok {
		return s
	}
	var on []string
	for key, name := range map[string]string{"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
		"pooling_mode_lasttoken": "last", "pooling_mode_max_tokens": "max",
		"pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len", "pooling_mode_weightedmean_tokens": "weightedmean"} {
		if v, _ := modes[key].(bool); v {
			on = append(on, name)
		}
	}
	return strings.Join(on, "+")
}

func (f *File) decoder(c *weights.Config, s settings) error {
	if s.ModelType == "mistral" { // the same architecture; its window is handled below
		c.Architecture = "llama"
	}
	c.NormEps, c.Activation = s.RMSNormEps, activations[s.Activation]
	if s.MLPBias || s.PartialRotary != 0 && s.PartialRotary != 1 {
		return fmt.Errorf("mlp_bias and partial_rotary_factor are not supported: %w", weights.ErrFormat)
	}
	if s.Window != nil && (s.UseWindow == nil && s.ModelType == "mistral" || s.UseWindow != nil && *s.UseWindow) {
		c.SlidingWindow = *s.Window
	}
	_, head := f.tensors["lm_head.weight"]
	c.TiedEmbeddings = !head
	if !head && s.Tied != nil && !*s.Tied {
		return weights.Missing(f.path, "lm_head.weight")
	}
	_, c.QKVBias = f.tensors["model.layers.0.self_attn.q_proj.bias"]
	theta, scaling := s.Theta, weights.RopeScaling{}
	for _, r := range []*rope{s.Rope, s.RopeNew} {
		if r == nil {
			continue
		}
		kind := r.RopeType
		if kind == "" {
			kind = r.Type
		}
		scaling = weights.RopeScaling{Kind: kind, Factor: r.Factor, LowFreq: r.Low, HighFreq: r.High,
			OriginalPosition: r.Original}
		if r.Theta > 0 {
			theta = r.Theta
		}
	}
	if theta == 0 {
		theta = 10000
	}
	freqs, err := weights.Rope(theta, c.HeadDim, scaling)
	c.RopeFreqs = freqs
	return err
}
