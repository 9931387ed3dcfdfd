package weights

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Config is the shape of a model, read from the metadata of a GGUF file or from config.json of a Hugging Face
// folder.
type Config struct {
	Architecture string // bert, roberta, mpnet, modernbert; llama, qwen2, qwen3
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
	FirstPosition  int    // row of the first token's position: 0, for MPNet and RoBERTa 2
	RelativeBucket int    // MPNet: buckets of relative_attention_bias; 0: none
	Activation     string // gelu (exact), gelu_tanh, relu, silu
	Pooling        string // mean, cls or last
	Normalize      bool   // embeddings have length 1
	Passage        int    // tokens that an embedding was tuned for, markers included; at most MaxPositions
	Labels         int    // outputs of a classifier: the model scores pairs of texts; 0: it embeds
	// Prompts are put before texts, by their purpose (query, document, …). The one named DefaultPrompt is put before
	// texts without a purpose.
	Prompts       map[string]string
	DefaultPrompt string
	// ModernBERT: Windows[l] is the number of neighbours on each side that layer l sees, 0 for all. Layers with a
	// window rotate positions by RopeLocal, the others by RopeFreqs.
	Windows   []int
	RopeLocal []float64

	// Decoders. Rotary positions turn the pairs (j, j+HeadDim/2) of a head, whatever file the weights come from.
	RopeFreqs      []float64 // angle of pair j per position, scaling included; HeadDim/2 of them
	RopeLength     float64   // factor of the length of rotated queries and keys: 1 without yarn
	TiedEmbeddings bool      // lm_head.weight is model.embed_tokens.weight
	SlidingWindow  int       // keys that a query sees; 0: all before it
}

// IsDecoder tells whether the model generates text; otherwise it is an encoder.
func (c Config) IsDecoder() bool { return slices.Contains(decoderNames, c.Architecture) }

var (
	encoderNames = []string{"bert", "roberta", "mpnet", "modernbert"}
	decoderNames = []string{"llama", "qwen2", "qwen3"}
)

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
	switch {
	case c.Architecture == "":
		return bad("no architecture is named")
	case !c.IsDecoder() && !slices.Contains(encoderNames, c.Architecture):
		return bad("architecture %q is not supported (%s are)", c.Architecture,
			strings.Join(slices.Concat(encoderNames, decoderNames), ", "))
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
		if c.Labels < 0 || c.Labels > maxWidth {
			return bad("%d labels", c.Labels)
		}
		if c.Architecture != "modernbert" {
			return nil
		}
		if len(c.Windows) != c.Layers || len(c.RopeLocal) != c.HeadDim/2 {
			return bad("attention of %d layers, want %d", len(c.Windows), c.Layers)
		}
		return c.rotary(bad)
	}
	if c.Activation != "silu" {
		return bad("activation %q is not supported in a decoder (silu is)", c.Activation)
	}
	return c.rotary(bad)
}

func (c Config) rotary(bad func(format string, args ...any) error) error {
	if c.HeadDim%2 != 0 || len(c.RopeFreqs) != c.HeadDim/2 {
		return bad("%d rotary frequencies for heads of %d", len(c.RopeFreqs), c.HeadDim)
	}
	for _, f := range slices.Concat(c.RopeFreqs, c.RopeLocal, []float64{c.RopeLength}) {
		if !(f > 0) || math.IsInf(f, 0) {
			return bad("rotary frequency or length %v", f)
		}
	}
	return nil
}

// RopeScaling says how a model stretches rotary positions beyond the length it was trained on. The zero value means
// none.
type RopeScaling struct {
	Kind             string // "", linear, llama3 or yarn
	Factor           float64
	LowFreq          float64 // llama3; yarn calls it beta_slow, 0 means 1
	HighFreq         float64 // llama3; yarn calls it beta_fast, 0 means 32
	OriginalPosition float64
	Length           float64 // yarn: attention_factor; 0 means 1 + ln(Factor)/10
}

// Rope returns the angle per position of every pair of a head, θ^(−2j/dim), scaled, and the factor of the length of
// rotated vectors. Llama 3 divides slow frequencies by the factor, keeps fast ones and interpolates in between by the
// frequency (Grattafiori et al. 2024, arXiv:2407.21783); yarn interpolates by the number of the pair and makes vectors
// longer (Peng et al. 2023, arXiv:2309.00071; both as in transformers, modeling_rope_utils.py).
func Rope(theta float64, dim int, s RopeScaling) (freqs []float64, length float64, err error) {
	if !(theta > 0) || math.IsInf(theta, 0) || dim < 2 || dim > maxWidth || dim%2 != 0 {
		return nil, 0, fmt.Errorf("rotary base %v for heads of %d: %w", theta, dim, ErrFormat)
	}
	freqs = make([]float64, dim/2)
	for j := range freqs {
		freqs[j] = math.Pow(theta, -float64(2*j)/float64(dim))
	}
	switch s.Kind {
	case "", "none", "default":
		return freqs, 1, nil
	case "linear", "llama3", "yarn":
		if !(s.Factor > 0) || math.IsInf(s.Factor, 0) {
			return nil, 0, fmt.Errorf("rotary scaling by %v: %w", s.Factor, ErrFormat)
		}
	default:
		return nil, 0, fmt.Errorf("rotary scaling %q is not supported (linear, llama3 and yarn are): %w", s.Kind, ErrFormat)
	}
	keep := func(int, float64) float64 { return 0 } // share of an unscaled frequency
	length = 1
	if s.Kind == "yarn" {
		slow, fast := s.LowFreq, s.HighFreq
		if slow == 0 {
			slow = 1
		}
		if fast == 0 {
			fast = 32
		}
		if length = s.Length; length == 0 {
			length = 1 + 0.1*math.Log(max(s.Factor, 1))
		}
		pair := func(turns float64) float64 { // that turns so often within the trained length
			return float64(dim) * math.Log(s.OriginalPosition/(turns*2*math.Pi)) / (2 * math.Log(theta))
		}
		low, high := max(math.Floor(pair(fast)), 0), min(math.Ceil(pair(slow)), float64(dim-1))
		if !(s.OriginalPosition > 0 && fast > slow && slow > 0 && theta > 1 && length > 0) {
			return nil, 0, fmt.Errorf("rotary scaling yarn from %v to %v at %v positions: %w", slow, fast,
				s.OriginalPosition, ErrFormat)
		}
		if low == high {
			high += 0.001
		}
		keep = func(j int, _ float64) float64 { return 1 - min(1, max(0, (float64(j)-low)/(high-low))) }
	} else if s.Kind == "llama3" {
		if !(s.HighFreq > s.LowFreq && s.LowFreq > 0 && s.OriginalPosition > 0) {
			return nil, 0, fmt.Errorf("rotary scaling llama3 from %v to %v at %v positions: %w", s.LowFreq, s.HighFreq,
				s.OriginalPosition, ErrFormat)
		}
		keep = func(_ int, f float64) float64 {
			turns := s.OriginalPosition * f / (2 * math.Pi) // rotations within the trained length
			return min(1, max(0, (turns-s.LowFreq)/(s.HighFreq-s.LowFreq)))
		}
	}
	for j, f := range freqs {
		k := keep(j, f)
		freqs[j] = (1-k)*f/s.Factor + k*f
	}
	return freqs, length, nil
}
