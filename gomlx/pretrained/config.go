package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrModel means that a folder holds no model that this package can run.
var ErrModel = errors.New("not a model that can be run")

// Config is the architecture: the contents of config.json, with the names of all families unified.
type Config struct {
	Type                    string // bert, gpt2, llama, gemma, gemma3_text
	Layers, Width, Hidden   int
	Heads, KVHeads, HeadDim int
	Vocabulary, Positions   int // Positions is the longest sequence
	Eps                     float64
	Scale                   float64 // of scores q·k
	Theta, LocalTheta       float64 // bases of rotary positions; LocalTheta for layers with a window
	Window, GlobalEvery     int     // Gemma 3: every GlobalEvery-th layer sees all keys, the others Window keys
	Tied                    bool    // the output layer shares the embedding
	QKNorm                  bool
	End                     []int32 // tokens that end a text
}

// Causal reports whether the model is a decoder.
func (c Config) Causal() bool { return c.Type != "bert" }

// Local reports whether a layer has a window of its own. Its cost is already linear, so it is never converted.
func (c Config) Local(layer int) bool { return c.Window > 0 && (layer+1)%c.GlobalEvery != 0 }

func (c Config) gemma() bool { return strings.HasPrefix(c.Type, "gemma") }

// published has the fields of config.json. Names differ between families.
type published struct {
	Type            string          `json:"model_type"`
	Width           int             `json:"hidden_size"`
	Layers          int             `json:"num_hidden_layers"`
	Heads           int             `json:"num_attention_heads"`
	KVHeads         int             `json:"num_key_value_heads"`
	HeadDim         int             `json:"head_dim"`
	Hidden          int             `json:"intermediate_size"`
	Vocabulary      int             `json:"vocab_size"`
	Positions       int             `json:"max_position_embeddings"`
	LayerEps        float64         `json:"layer_norm_eps"`
	RMSEps          float64         `json:"rms_norm_eps"`
	Theta           float64         `json:"rope_theta"`
	LocalTheta      float64         `json:"rope_local_base_freq"`
	Scaling         json.RawMessage `json:"rope_scaling"`
	Rope            json.RawMessage `json:"rope_parameters"`
	Window          int             `json:"sliding_window"`
	Pattern         int             `json:"sliding_window_pattern"`
	Kinds           []string        `json:"layer_types"`
	QueryScalar     float64         `json:"query_pre_attn_scalar"`
	Tied            *bool           `json:"tie_word_embeddings"`
	Activation      string          `json:"hidden_act"`
	GemmaActivation string          `json:"hidden_activation"`
	Place           string          `json:"position_embedding_type"`
	AttentionBias   bool            `json:"attention_bias"`
	MLPBias         bool            `json:"mlp_bias"`
	Softcap         *float64        `json:"attn_logit_softcapping"`
	FinalSoftcap    *float64        `json:"final_logit_softcapping"`
	End             json.RawMessage `json:"eos_token_id"`

	Embd        int     `json:"n_embd"` // GPT-2
	Layer       int     `json:"n_layer"`
	Head        int     `json:"n_head"`
	Inner       int     `json:"n_inner"`
	Places      int     `json:"n_positions"`
	Norm        float64 `json:"layer_norm_epsilon"`
	GPTActivate string  `json:"activation_function"`
	Inverse     bool    `json:"scale_attn_by_inverse_layer_idx"`
}

func readConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	c, err := parseConfig(b)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func parseConfig(b []byte) (Config, error) {
	var p published
	if err := json.Unmarshal(b, &p); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	c := Config{Type: p.Type, Layers: p.Layers, Width: p.Width, Hidden: p.Hidden, Heads: p.Heads, KVHeads: p.KVHeads,
		HeadDim: p.HeadDim, Vocabulary: p.Vocabulary, Positions: p.Positions, Eps: p.RMSEps, Theta: p.Theta, Tied: true}
	activation := p.Activation
	var known []string
	switch c.Type {
	case "bert":
		c.Eps, known = p.LayerEps, []string{"gelu"}
		if p.Place != "" && p.Place != "absolute" {
			return c, fmt.Errorf("%w: positions %q, want absolute", ErrModel, p.Place)
		}
	case "gpt2":
		c.Layers, c.Width, c.Heads, c.Hidden, c.Positions = p.Layer, p.Embd, p.Head, p.Inner, p.Places
		c.Eps, activation, known = p.Norm, p.GPTActivate, []string{"gelu_new", "gelu_pytorch_tanh"}
		if c.Hidden == 0 {
			c.Hidden = 4 * c.Width
		}
		if p.Inverse {
			return c, fmt.Errorf("%w: scores scaled by the number of the layer", ErrModel)
		}
	case "llama":
		known = []string{"silu"}
		if c.Tied = p.Tied != nil && *p.Tied; c.Theta == 0 {
			c.Theta = 10000
		}
	case "gemma", "gemma3_text":
		known = []string{"gelu", "gelu_pytorch_tanh"} // Gemma uses the tanh form under either name
		if p.GemmaActivation != "" {
			activation = p.GemmaActivation
		}
		if c.Theta == 0 {
			c.Theta = 10000
		}
		if c.Type == "gemma3_text" {
			c.QKNorm, c.Window, c.GlobalEvery, c.LocalTheta = true, p.Window, p.Pattern, p.LocalTheta
		}
	default:
		return c, fmt.Errorf("%w: model_type %q, want bert, gpt2, llama, gemma or gemma3_text", ErrModel, p.Type)
	}
	if activation != "" && !slices.Contains(known, activation) {
		return c, fmt.Errorf("%w: activation %q, want %s", ErrModel, activation, strings.Join(known, " or "))
	}
	if p.Softcap != nil || p.FinalSoftcap != nil {
		return c, fmt.Errorf("%w: capped scores are no softmax kernel", ErrModel)
	}
	if p.AttentionBias || p.MLPBias {
		return c, fmt.Errorf("%w: biases in a %s", ErrModel, c.Type)
	}
	if err := c.rope(p); err != nil {
		return c, err
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Width / c.Heads
	}
	if c.Window > 0 && c.GlobalEvery == 0 {
		c.GlobalEvery = 6
		if i := slices.Index(p.Kinds, "full_attention"); i >= 0 {
			c.GlobalEvery = i + 1
		}
	}
	if err := c.ends(p.End); err != nil {
		return c, err
	}
	c.Scale = 1 / math.Sqrt(float64(c.HeadDim))
	if p.QueryScalar > 0 && c.Type == "gemma3_text" {
		c.Scale = 1 / math.Sqrt(p.QueryScalar)
	}
	return c, c.check()
}

// rope reads the bases of rotary positions from the places where newer files have them. It refuses scaled positions.
func (c *Config) rope(p published) error {
	for _, raw := range []json.RawMessage{p.Scaling, p.Rope} {
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		type rope struct {
			Type  string  `json:"rope_type"`
			Old   string  `json:"type"`
			Theta float64 `json:"rope_theta"`
		}
		var one struct {
			rope
			Full  *rope `json:"full_attention"`
			Local *rope `json:"sliding_attention"`
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			return fmt.Errorf("%w: rotary positions: %w", ErrModel, err)
		}
		read := func(r *rope, theta *float64) error {
			if kind := r.Type + r.Old; kind != "" && kind != "default" {
				return fmt.Errorf("%w: rotary positions stretched by %q", ErrModel, kind)
			}
			if r.Theta > 0 {
				*theta = r.Theta
			}
			return nil
		}
		err := read(&one.rope, &c.Theta)
		if one.Full != nil {
			err = errors.Join(err, read(one.Full, &c.Theta))
		}
		if one.Local != nil {
			err = errors.Join(err, read(one.Local, &c.LocalTheta))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ends reads the tokens that end a text, one or a list.
func (c *Config) ends(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '[' {
		raw = append(append(json.RawMessage{'['}, raw...), ']')
	}
	if err := json.Unmarshal(raw, &c.End); err != nil {
		return fmt.Errorf("%w: eos_token_id: %w", ErrModel, err)
	}
	return nil
}

// check refuses sizes that no published model has, before memory is allocated for them.
func (c Config) check() error {
	for _, s := range []struct {
		name     string
		n, limit int
	}{{"layers", c.Layers, 1000}, {"width", c.Width, 1 << 16}, {"hidden units", c.Hidden, 1 << 20},
		{"heads", c.Heads, 1 << 10}, {"key/value heads", c.KVHeads, 1 << 10}, {"head dimension", c.HeadDim, 1 << 12},
		{"vocabulary", c.Vocabulary, 1 << 22}, {"positions", c.Positions, 1 << 24}} {
		if s.n < 1 || s.n > s.limit {
			return fmt.Errorf("%w: %d %s", ErrModel, s.n, s.name)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%w: %d heads are not a multiple of %d key/value heads", ErrModel, c.Heads, c.KVHeads)
	case (c.Type == "bert" || c.Type == "gpt2") && c.Heads*c.HeadDim != c.Width:
		return fmt.Errorf("%w: %d heads of %d do not make a width of %d", ErrModel, c.Heads, c.HeadDim, c.Width)
	case c.Theta > 0 && c.HeadDim%2 != 0:
		return fmt.Errorf("%w: rotary positions of %d columns", ErrModel, c.HeadDim)
	case c.Window < 0 || c.Window > 0 && (c.GlobalEvery < 1 || c.LocalTheta <= 0):
		return fmt.Errorf("%w: window %d, every %d, base %g", ErrModel, c.Window, c.GlobalEvery, c.LocalTheta)
	case !(c.Eps > 0):
		return fmt.Errorf("%w: no epsilon of norms", ErrModel)
	}
	return nil
}
