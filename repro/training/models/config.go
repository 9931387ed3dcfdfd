// Package models has small models made of GoMLX layers, to be trained from scratch: Transformers (a text decoder, an
// encoder for classification or masked tokens, a vision Transformer), a Conformer that transcribes speech, and an
// LSTM. All but the LSTM attend as one line of their [Config] says.
//
// A Config is a train.Task: package train builds its graph by Outcome, initialises its parameters by Initial and
// refreshes its projections by Refresh. Generate and Transcribe use a trained model.
package models

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/layer"
)

// ErrConfig means that a Config does not describe a model.
var ErrConfig = errors.New("not a model")

// Kind is the kind of a model.
type Kind string

// Kinds of models.
const (
	Decoder    Kind = "decoder"    // predicts the next token
	Masked     Kind = "masked"     // predicts hidden tokens
	Classifier Kind = "classifier" // one class of a text
	ViT        Kind = "vit"        // one class of an image
	LSTM       Kind = "lstm"       // predicts the next token without attention
	Conformer  Kind = "conformer"  // transcribes speech
)

// Config describes a model. It is saved with the parameters.
type Config struct {
	Kind    Kind `json:"kind"`
	Vocab   int  `json:"vocab,omitempty"`  // tokens
	Length  int  `json:"length,omitempty"` // largest number of positions
	Layers  int  `json:"layers"`
	Width   int  `json:"width"`
	Heads   int  `json:"heads"`
	KVHeads int  `json:"kv_heads,omitempty"` // 0: Heads
	Hidden  int  `json:"hidden,omitempty"`   // of the feed-forward layers; 0: 4·Width
	Classes int  `json:"classes,omitempty"`
	Side    int  `json:"side,omitempty"`  // side of the square images in pixels
	Patch   int  `json:"patch,omitempty"` // side of a patch in pixels
	Frame   int  `json:"frame,omitempty"` // features of a frame of sound
	// Pool is the number of consecutive frames of a Conformer that are averaged before it spells. A letter lasts
	// many frames, and the recursion of CTC takes one step per row. 0 means 1.
	Pool   int  `json:"pool,omitempty"`
	Rotary bool `json:"rotary,omitempty"` // rotary instead of learned positions

	Attention string `json:"attention,omitempty"` // layer.ParamAttention; "" is exact
	Dark      bool   `json:"dark,omitempty"`      // a learned matrix M per head (DARK 4.1)
	Learned   bool   `json:"learned,omitempty"`   // layer.ParamLearned
	Window    int    `json:"window,omitempty"`
	Sinks     int    `json:"sinks,omitempty"`
	Block     int    `json:"block,omitempty"` // layer.ParamBlock
	Seed      int    `json:"seed,omitempty"`  // of the projections

	Gain float64 `json:"gain,omitempty"` // LSTM: factor of the logits, an inverse temperature; 0: 1
	Unit float64 `json:"unit,omitempty"` // LSTM: weight of (|q|−1)² and (|k|−1)² in the training loss

	Half bool `json:"half,omitempty"` // bfloat16 inside blocks; parameters and sums stay float32
}

// Validate returns an error if the sizes do not fit together.
func (c Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	switch c.Kind {
	case Decoder, Masked, Classifier, LSTM:
		if c.Vocab < 1 || c.Length < 1 {
			return bad("a %s needs a vocabulary and a length, not %d and %d", c.Kind, c.Vocab, c.Length)
		}
	case Conformer:
		if c.Frame < 1 || c.Length < 1 {
			return bad("a %s needs frames of features, not %d of %d", c.Kind, c.Length, c.Frame)
		}
		if c.Length%c.pool() != 0 {
			return bad("%d frames are not a multiple of the %d that are averaged", c.Length, c.Pool)
		}
	case ViT:
		if c.Side < 1 || c.Patch < 1 || c.Side%c.Patch != 0 {
			return bad("images of %d×%d pixels are not cut into patches of %d×%d", c.Side, c.Side, c.Patch, c.Patch)
		}
	default:
		return bad("kind %q: take %s, %s, %s, %s, %s or %s", c.Kind, Decoder, Masked, Classifier, ViT, LSTM, Conformer)
	}
	if c.Layers < 1 || c.Width < 1 || c.Heads < 1 || c.Hidden < 0 || c.KVHeads < 0 {
		return bad("%d layers of width %d with %d heads", c.Layers, c.Width, c.Heads)
	}
	if !(c.Gain >= 0) || !(c.Unit >= 0) || (c.Gain > 0 || c.Unit > 0) && c.Kind != LSTM {
		return bad("gain %g and unit %g are positive, and of an %s", c.Gain, c.Unit, LSTM)
	}
	if c.Pool < 0 || c.Pool > 0 && c.Kind != Conformer {
		return bad("pool %d: frames are averaged by a %s alone", c.Pool, Conformer)
	}
	if c.Width%c.Heads != 0 {
		return bad("width %d is not a multiple of %d heads", c.Width, c.Heads)
	}
	if c.KVHeads > 0 && c.Heads%c.KVHeads != 0 {
		return bad("%d heads are not a multiple of %d key/value heads", c.Heads, c.KVHeads)
	}
	if c.Rotary && c.Width/c.Heads%2 != 0 {
		return bad("rotary positions need heads of an even dimension, not %d", c.Width/c.Heads)
	}
	if c.scores() > maxScores {
		return bad("%s attention over %d tokens has %d GiB of scores per layer and sequence: choose a family of features",
			c.Attention, c.Length, c.scores()>>30)
	}
	if (c.Kind == Classifier || c.Kind == ViT || c.Kind == Conformer) && c.Classes < 2 {
		return bad("%d classes", c.Classes)
	}
	return nil
}

// maxScores is the largest size of the scores of one layer in bytes. No device holds more.
const maxScores = 64 << 30

// scores returns the bytes of the scores of all pairs of positions, or 0 for attention by features.
func (c Config) scores() int64 {
	n := int64(c.Length)
	if c.Kind == LSTM {
		return 0
	}
	if c.Kind == ViT {
		n = int64(c.Side/c.Patch) * int64(c.Side/c.Patch)
	}
	switch c.Attention {
	case "", "exact", "mean", "random":
		return 4 * int64(c.Heads) * n * n
	}
	return 0
}

// Set writes the attention parameters into the scope in which the model is built.
func (c Config) Set(scope *model.Scope) {
	kind := c.Attention
	if kind == "" {
		kind = "exact"
	}
	dark := 0
	if c.Dark {
		dark = c.Width / c.Heads
	}
	scope.SetParams(map[string]any{
		layer.ParamAttention: kind, layer.ParamDark: dark, layer.ParamWindow: c.Window, layer.ParamSinks: c.Sinks,
		layer.ParamBlock: c.Block, layer.ParamSeed: c.Seed + 1, layer.ParamVariable: true,
		layer.ParamLearned: c.Learned,
	})
}

func (c Config) attention() layer.SelfAttention {
	l := layer.SelfAttention{Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.Width / c.Heads, Causal: c.Kind == Decoder}
	if c.Rotary {
		l.Position = pos.NewRoPE(10000)
	}
	return l
}

func (c Config) dtype() dtypes.DType {
	if c.Half {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// Stateful reports whether generation has a state of constant size.
func (c Config) Stateful() bool {
	kind, _, _ := strings.Cut(c.Attention, ":")
	switch kind {
	case "", "exact", "mean", "random", "self":
		return false
	}
	return c.Kind == Decoder
}

// Report describes a loss and an accuracy, the means of an Outcome.
func (c Config) Report(loss, accuracy float64) string {
	switch c.Kind {
	case Classifier, ViT:
		return fmt.Sprintf("loss %.4f, accuracy %.4f", loss, accuracy)
	case Conformer:
		return fmt.Sprintf("loss %.4f per token, token error rate %.4f", loss, 1-accuracy)
	}
	return fmt.Sprintf("loss %.4f, perplexity %.2f, accuracy %.4f", loss, math.Exp(loss), accuracy)
}
