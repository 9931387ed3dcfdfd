package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/models/weights"
)

// settings are the fields of config.json that are used.
type settings struct {
	ModelType     string          `json:"model_type"`
	Architectures []string        `json:"architectures"`
	Layers        int             `json:"num_hidden_layers"`
	Hidden        int             `json:"hidden_size"`
	Heads         int             `json:"num_attention_heads"`
	KVHeads       *int            `json:"num_key_value_heads"`
	HeadDim       *int            `json:"head_dim"`
	FFN           int             `json:"intermediate_size"`
	Vocab         int             `json:"vocab_size"`
	MaxPositions  int             `json:"max_position_embeddings"`
	LayerNormEps  float64         `json:"layer_norm_eps"`
	RMSNormEps    float64         `json:"rms_norm_eps"`
	NormEps       float64         `json:"norm_eps"`
	TypeVocab     int             `json:"type_vocab_size"`
	Padding       *int            `json:"pad_token_id"`
	Buckets       *int            `json:"relative_attention_num_buckets"`
	Activation    string          `json:"hidden_act"`
	Activation2   string          `json:"hidden_activation"`
	Theta         float64         `json:"rope_theta"`
	Rope          json.RawMessage `json:"rope_scaling"`
	RopeNew       json.RawMessage `json:"rope_parameters"` // the name since transformers 5
	Tied          *bool           `json:"tie_word_embeddings"`
	Bias          bool            `json:"attention_bias"`
	Window        *int            `json:"sliding_window"`
	UseWindow     *bool           `json:"use_sliding_window"`
	FullLayers    int             `json:"max_window_layers"`
	LayerTypes    []string        `json:"layer_types"`
	Labels        map[string]any  `json:"id2label"`
	ClassPooling  string          `json:"classifier_pooling"`
	// ModernBERT.
	LocalAttention int     `json:"local_attention"`
	GlobalEvery    int     `json:"global_attn_every_n_layers"`
	GlobalTheta    float64 `json:"global_rope_theta"`
	LocalTheta     float64 `json:"local_rope_theta"`
}

// neutral has the fields of config.json that would change results but are not used, with the values that change
// nothing. Tensors that the forward pass does not use are refused when the model is loaded.
var neutral = map[string][]string{
	"quantization_config": {"null"}, "is_decoder": {"false"}, "add_cross_attention": {"false"},
	"pruned_heads": {"{}", "null"}, "auto_map": {"null"}, "position_embedding_type": {`"absolute"`, "null"},
	"partial_rotary_factor": {"1", "1.0", "null"}, "norm_bias": {"false"}, "embedding_size": {},
	"attn_logit_softcapping": {"null"}, "final_logit_softcapping": {"null"}, "logit_scale": {"1", "1.0", "null"},
	"problem_type": {"null", `"single_label_classification"`}, "alibi": {"false"}, "num_experts": {"0", "null"},
	"num_local_experts": {"0", "null"}, "use_parallel_residual": {"false"},
}

type rope struct {
	Type     string  `json:"type"`
	RopeType string  `json:"rope_type"`
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Slow     float64 `json:"beta_slow"`
	Fast     float64 `json:"beta_fast"`
	Length   float64 `json:"attention_factor"`
	Original float64 `json:"original_max_position_embeddings"`
	Theta    float64 `json:"rope_theta"`
	Partial  float64 `json:"partial_rotary_factor"`
	Truncate *bool   `json:"truncate"`
}

// frequencies returns the rotary frequencies that a field of config.json describes, theta being its default.
func (r rope) frequencies(theta float64, c *weights.Config) (freqs []float64, length float64, err error) {
	kind := r.RopeType
	if kind == "" {
		kind = r.Type
	}
	if r.Partial != 0 && r.Partial != 1 || r.Truncate != nil && !*r.Truncate {
		return nil, 0, fmt.Errorf("partial_rotary_factor and truncate: false are not supported: %w", weights.ErrFormat)
	}
	if r.Theta > 0 {
		theta = r.Theta
	}
	if theta == 0 {
		theta = 10000
	}
	s := weights.RopeScaling{Kind: kind, Factor: r.Factor, LowFreq: r.Low, HighFreq: r.High,
		OriginalPosition: r.Original, Length: r.Length}
	if kind == "yarn" {
		s.LowFreq, s.HighFreq = r.Slow, r.Fast
		if s.OriginalPosition == 0 {
			s.OriginalPosition = float64(c.MaxPositions)
		}
	}
	return weights.Rope(theta, c.HeadDim, s)
}

// strict decodes an object and refuses fields that are not known. Null gives the zero value.
func strict(name string, b json.RawMessage, v any) error {
	if len(b) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w: %w", name, err, weights.ErrFormat)
	}
	return nil
}

// configure reads config.json and, for encoders, the files of sentence-transformers.
func (f *File) configure() error {
	path := f.source.Path(configName)
	var s settings
	var all map[string]json.RawMessage
	if err := f.source.ReadJSON(configName, maxJSON, &all); err != nil {
		return err
	}
	if err := f.source.ReadJSON(configName, maxJSON, &s); err != nil {
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
	case "bert", "mpnet", "roberta", "xlm-roberta", "modernbert":
		err = f.encoder(&c, s)
	case "llama", "mistral", "qwen2", "qwen3":
		err = f.decoder(&c, s)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if list, ok := neutral[name]; ok && err == nil && !slices.Contains(list, string(all[name])) {
			err = fmt.Errorf("%s is %s, which is not supported: %w", name, all[name], weights.ErrFormat)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f.config = c
	return c.Validate(path)
}

var activations = map[string]string{"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
	"relu": "relu", "silu": "silu", "swish": "silu"}

func (f *File) encoder(c *weights.Config, s settings) error {
	c.NormEps, c.TypeVocab, c.Activation = s.LayerNormEps, s.TypeVocab, activations[s.Activation+s.Activation2]
	if c.Activation == "" {
		return fmt.Errorf("hidden_act %q is not supported: %w", s.Activation+s.Activation2, weights.ErrFormat)
	}
	switch s.ModelType {
	case "mpnet", "roberta", "xlm-roberta":
		// Positions begin behind that of padding; the rows before it are not used.
		if c.FirstPosition = 2; s.Padding != nil {
			c.FirstPosition = *s.Padding + 1
		}
		c.MaxPositions -= c.FirstPosition
		if s.ModelType != "mpnet" {
			c.Architecture = "roberta"
			break
		}
		if c.TypeVocab, c.RelativeBucket = 0, 32; s.Buckets != nil {
			c.RelativeBucket = *s.Buckets
		}
	case "modernbert":
		if err := modern(c, s); err != nil {
			return err
		}
	}
	if len(s.Architectures) > 0 && strings.HasSuffix(s.Architectures[0], "ForSequenceClassification") {
		if s.ModelType == "mpnet" {
			return fmt.Errorf("architectures: %s is not supported: %w", s.Architectures[0], weights.ErrFormat)
		}
		if c.Labels = len(s.Labels); s.Labels == nil {
			c.Labels = 2 // the default of transformers
		}
	}
	c.Pooling, c.Normalize, c.Passage = "mean", true, c.MaxPositions
	err := f.pooling(c)
	if c.Labels > 0 {
		if c.Pooling = "cls"; s.ModelType == "modernbert" {
			c.Pooling = s.ClassPooling
		}
	}
	return err
}

// modern reads what only ModernBERT has: windows of attention and two kinds of rotary positions. Since transformers 5
// layer_types and rope_parameters say so, before that four other fields did.
func modern(c *weights.Config, s settings) error {
	c.NormEps = s.NormEps
	var full, local rope
	var kinds struct {
		Full  json.RawMessage `json:"full_attention"`
		Local json.RawMessage `json:"sliding_attention"`
	}
	if err := errors.Join(strict("rope_parameters", s.RopeNew, &kinds), strict("rope_parameters", kinds.Full, &full),
		strict("rope_parameters", kinds.Local, &local)); err != nil {
		return err
	}
	if s.GlobalEvery < 1 {
		s.GlobalEvery = 3
	}
	for l := range min(max(c.Layers, 0), 1<<10) {
		window := s.LocalAttention / 2
		if s.LayerTypes == nil && l%s.GlobalEvery == 0 || l < len(s.LayerTypes) && s.LayerTypes[l] == "full_attention" {
			window = 0
		}
		c.Windows = append(c.Windows, window)
	}
	for _, kind := range s.LayerTypes {
		if kind != "full_attention" && kind != "sliding_attention" {
			return fmt.Errorf("layer_types has %q, which is not supported: %w", kind, weights.ErrFormat)
		}
	}
	var err error
	if c.RopeFreqs, c.RopeLength, err = full.frequencies(s.GlobalTheta, c); err != nil {
		return err
	}
	length := 1.0
	if s.LocalTheta == 0 {
		s.LocalTheta = s.GlobalTheta
	}
	c.RopeLocal, length, err = local.frequencies(s.LocalTheta, c)
	if err == nil && (length != 1 || c.RopeLength != 1 || s.LocalAttention < 2) {
		err = fmt.Errorf("rotary scaling or local_attention %d: %w", s.LocalAttention, weights.ErrFormat)
	}
	return err
}

// pooling reads the files of sentence-transformers, if there are any: modules.json says whether embeddings are
// normalised and where the pooling mode is, sentence_bert_config.json the length of a passage, and
// config_sentence_transformers.json the prompts.
func (f *File) pooling(c *weights.Config) error {
	var prompts struct {
		Prompts map[string]string `json:"prompts"`
		Default *string           `json:"default_prompt_name"`
	}
	err := f.optional("config_sentence_transformers.json", &prompts)
	if c.Prompts = prompts.Prompts; prompts.Default != nil {
		c.DefaultPrompt = *prompts.Default
	}
	var modules []struct{ Type, Path string }
	if err := errors.Join(err, f.optional("modules.json", &modules)); err != nil || modules == nil {
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
			if err := f.source.ReadJSON(m.Path+"/"+configName, maxJSON, &modes); err != nil {
				return err
			}
			if include, ok := modes["include_prompt"].(bool); ok && !include {
				return fmt.Errorf("%s/config.json: include_prompt: false is not supported: %w", m.Path,
					weights.ErrFormat)
			}
			c.Pooling = poolingMode(modes)
		default:
			return fmt.Errorf("modules.json: module %s is not supported (Transformer, Pooling and Normalize are): %w",
				m.Type, weights.ErrFormat)
		}
	}
	var sizes struct {
		Length *int  `json:"max_seq_length"`
		Lower  *bool `json:"do_lower_case"`
	}
	if err := f.optional("sentence_bert_config.json", &sizes); err != nil {
		return err
	}
	if sizes.Lower != nil && *sizes.Lower {
		return fmt.Errorf("sentence_bert_config.json: do_lower_case is not supported: %w", weights.ErrFormat)
	}
	if sizes.Length != nil {
		c.Passage = min(*sizes.Length, c.MaxPositions)
	}
	return nil
}

// optional reads a JSON file that need not be there.
func (f *File) optional(name string, v any) error {
	if err := f.source.ReadJSON(name, maxJSON, v); !errors.Is(err, fs.ErrNotExist) {
		return err
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
	slices.Sort(on)
	return strings.Join(on, "+")
}

func (f *File) decoder(c *weights.Config, s settings) error {
	if s.ModelType == "mistral" { // the same architecture; its window is handled below
		c.Architecture = "llama"
	}
	c.NormEps, c.Activation = s.RMSNormEps, activations[s.Activation]
	if s.Window != nil && (s.UseWindow == nil && s.ModelType == "mistral" || s.UseWindow != nil && *s.UseWindow) {
		if c.SlidingWindow = *s.Window; s.ModelType != "mistral" && s.FullLayers > 0 {
			return fmt.Errorf("max_window_layers is %d: layers with and without a window are not supported: %w",
				s.FullLayers, weights.ErrFormat)
		}
	}
	for _, kind := range s.LayerTypes {
		want := "full_attention"
		if c.SlidingWindow > 0 {
			want = "sliding_attention"
		}
		if kind != want {
			return fmt.Errorf("layer_types has %q, and other fields say %q: %w", kind, want, weights.ErrFormat)
		}
	}
	if err := f.tied(c, s); err != nil {
		return err
	}
	if q := "model.layers.0.self_attn.q_proj.bias"; s.Bias || s.ModelType == "qwen2" {
		if _, ok := f.tensors[q]; !ok {
			return weights.Missing(f.path, q)
		}
	}
	var r rope
	if err := strict("rope_scaling", s.Rope, &r); err != nil {
		return err
	}
	if err := strict("rope_parameters", s.RopeNew, &r); err != nil {
		return err
	}
	var err error
	c.RopeFreqs, c.RopeLength, err = r.frequencies(s.Theta, c)
	return err
}

// tied decides whether the output layer is the table of embeddings.
func (f *File) tied(c *weights.Config, s settings) error {
	const name, table = "lm_head.weight", "model.embed_tokens.weight"
	head, ok := f.tensors[name]
	c.TiedEmbeddings = !ok
	switch {
	case !ok && s.Tied != nil && !*s.Tied:
		return weights.Missing(f.path, name)
	case ok && s.Tied != nil && *s.Tied && !bytes.Equal(head.Data, f.tensors[table].Data):
		return fmt.Errorf("tie_word_embeddings is true, and %s differs from %s: %w", name, table, weights.ErrFormat)
	}
	return nil
}
