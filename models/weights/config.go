package weights

import (
	"fmt"
	"math"
)

// Config is the shape of a model, read from the metadata of a GGUF file or from config.json of a Hugging Face
// folder.
type Config struct {
	Architecture string // bert, mpnet, llama or qwen2
	Layers       int
	Hidden       int // width of the residual stream
	Heads        int
	KVHeads      int // equal to Heads without grouped queries
	HeadDim      int
	FFN          int // width inside of the feed-forward layers
	Vocab        int
	MaxPositions int // longest input in tokens; for encoders, the usable rows of the position table
	NormEps      float64

	// Encoders.
	TypeVocab      int    // rows of token_type_embeddings; 0: none
	FirstPosition  int    // row of the first token's position: 0, for MPNet 2
	RelativeBucket int    // MPNet: buckets of relative_attention_bias; 0: none
	Activation     string // gelu (exact), gelu_tanh, relu, silu
	Pooling        string // mean, cls or last
	Normalize      bool   // embeddings have length 1
	Passage        int    // tokens that an embedding was tuned for, markers included; at most MaxPositions

	// Decoders. Rotary positions turn the pairs (j, j+HeadDim/2) of a head, whatever file the weights come from.
	RopeFreqs      []float64 // angle of pair j per position, scaling included; HeadDim/2 of them
	QKVBias        bool      // biases of the query, key and value projections
	TiedEmbeddings bool      // lm_head.weight is model.embed_tokens.weight
	SlidingWindow  int       // keys that a query sees; 0: all before it
}

// IsDecoder tells whether the model generates text; otherwise it is an encoder.
func (c Config) IsDecoder() bool { return c.Architecture == "llama" || c.Architecture == "qwen2" }

// Limits on what a file may claim, far above every published model of these architectures.
const (
	maxLayers = 1 << 10
	maxWidth  = 1 << 20
	maxVocab  = 1 << 24
)

// Validate returns an error if the sizes do not describe a supported model. path names the file in the message.
func (c Config) Validate(path string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", path, fmt.Sprintf(format, args...), ErrFormat)
	}
	switch c.Architecture {
	case "bert", "mpnet", "llama", "qwen2":
	case "":
		return bad("no architecture is named")
	default:
		return bad("architecture %q is not supported (bert, mpnet, llama and qwen2 are)", c.Architecture)
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{{"layers", c.Layers, maxLayers}, {"hidden size", c.Hidden, maxWidth}, {"heads", c.Heads, maxWidth},
		{"key/value heads", c.KVHeads, maxWidth}, {"head size", c.HeadDim, maxWidth},
		{"feed-forward size", c.FFN, maxWidth}, {"vocabulary", c.Vocab, maxVocab},
		{"positions", c.MaxPositions, maxVocab}} {
		if n.value < 1 || n.value > n.max {
			return bad("%s is %d, want 1 to %d", n.name, n.value, n.max)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return bad("%d heads are not a multiple of %d key/value heads", c.Heads, c.KVHeads)
	}
	if c.Heads > maxWidth/c.HeadDim {
		return bad("%d heads of %d", c.Heads, c.HeadDim)
	}
	if !(c.NormEps > 0 && c.NormEps < 1) {
		return bad("norm epsilon is %v", c.NormEps)
	}
	if c.TypeVocab < 0 || c.TypeVocab > maxWidth || c.FirstPosition < 0 || c.FirstPosition > 16 ||
		c.RelativeBucket < 0 || c.RelativeBucket > maxWidth || c.SlidingWindow < 0 {
		return bad("token types, positions or window out of range")
	}
	if !c.IsDecoder() {
		switch c.Pooling {
		case "mean", "cls", "last":
		default:
			return bad("pooling %q is not supported (mean, cls and last are)", c.Pooling)
		}
		if c.Passage < 3 || c.Passage > c.MaxPositions {
			return bad("passages of %d tokens, want 3 to %d", c.Passage, c.MaxPositions)
		}
		if c.Heads*c.HeadDim != c.Hidden {
			return bad("%d heads of %d do not make %d columns", c.Heads, c.HeadDim, c.Hidden)
		}
		switch c.Activation {
		case "gelu", "gelu_tanh", "relu", "silu":
		default:
			return bad("activation %q is not supported", c.Activation)
		}
		return nil
	}
	if c.Activation != "silu" {
		return bad("activation %q is not supported in a decoder (silu is)", c.Activation)
	}
	if c.HeadDim%2 != 0 || len(c.RopeFreqs) != c.HeadDim/2 {
		return bad("%d rotary frequencies for heads of %d", len(c.RopeFreqs), c.HeadDim)
	}
	for _, f := range c.RopeFreqs {
		if !(f > 0) || math.IsInf(f, 0) {
			return bad("rotary frequency %v", f)
		}
	}
	return nil
}

// RopeScaling says how a model stretches rotary positions beyond the length it was trained on. The zero value means
// none.
type RopeScaling struct {
	Kind             string // "", linear or llama3
	Factor           float64
	LowFreq          float64 // llama3
	HighFreq         float64
	OriginalPosition float64
}

// Rope returns the angle per position of every pair of a head: θ^(−2j/dim), scaled. Llama 3 divides slow frequencies
// by the factor, keeps fast ones and interpolates in between (Grattafiori et al. 2024, arXiv:2407.21783;
// transformers, modeling_rope_utils.py).
func Rope(theta float64, dim int, s RopeScaling) ([]float64, error) {
	if !(theta > 0) || math.IsInf(theta, 0) || dim < 2 || dim > maxWidth || dim%2 != 0 {
		return nil, fmt.Errorf("rotary base %v for heads of %d: %w", theta, dim, ErrFormat)
	}
	freqs := make([]float64, dim/2)
	for j := range freqs {
		freqs[j] = math.Pow(theta, -float64(2*j)/float64(dim))
	}
	switch s.Kind {
	case "", "none", "default":
		return freqs, nil
	case "linear", "llama3":
		if !(s.Factor > 0) {
			return nil, fmt.Errorf("rotary scaling by %v: %w", s.Factor, ErrFormat)
		}
	default:
		return nil, fmt.Errorf("rotary scaling %q is not supported (linear and llama3 are): %w", s.Kind, ErrFormat)
	}
	for j, f := range freqs {
		if s.Kind == "linear" {
			freqs[j] = f / s.Factor
			continue
		}
		if !(s.HighFreq > s.LowFreq && s.LowFreq > 0 && s.OriginalPosition > 0) {
			return nil, fmt.Errorf("rotary scaling llama3 from %v to %v at %v positions: %w", s.LowFreq, s.HighFreq,
				s.OriginalPosition, ErrFormat)
		}
		turns := s.OriginalPosition * f / (2 * math.Pi) // rotations within the trained length
		smooth := min(1, max(0, (turns-s.LowFreq)/(s.HighFreq-s.LowFreq)))
		freqs[j] = (1-smooth)*f/s.Factor + smooth*f
	}
	return freqs, nil
}
