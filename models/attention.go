package models

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/models/decoder"
)

// ErrAttention means that a file or setting does not describe attention that this model can use.
var ErrAttention = errors.New("not a usable choice of attention")

const (
	attentionFormat  = "randfeat model attention"
	attentionVersion = 1
	maxAttention     = 1 << 26 // the largest file that is read, in bytes
)

// Attention says how every key/value head of one decoder attends, and which error to expect. [Decoder.Calibrate]
// makes it and [Decoder.With] uses it.
type Attention struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Model is the fingerprint of the model and its precision, see [Model.Fingerprint].
	Model string `json:"model"`
	// Tokens is the number of tokens of the calibration text that were read.
	Tokens int `json:"tokens"`
	// Rates are the speeds of the machine on which the choice was made.
	Rates DecodeRates `json:"rates"`
	// Choice has the plans of the heads, layer by layer: exact, or centroids by chunks of keys.
	Choice *choose.Choice `json:"choice"`
	// From[i] is the shortest first text, in tokens, for which head i uses centroids. Sessions that begin with a
	// shorter text attend exactly in this head. Nil means the length of the calibration, for all heads.
	From []int `json:"from,omitempty"`
	// Budgets are the measured losses of heads with few slots. Session.Compact and Decoder.Constant divide their
	// slots by them. Nil gives every head the same number.
	Budgets *decoder.Curves `json:"budgets,omitempty"`
}

// DecodeRates are the seconds that one token takes in one key/value head with its query heads. Exact counts per key
// of the context, Centroid per key or centroid that the token reads; both are for tokens generated one by one.
// ReadExact and ReadCentroid are the same for tokens of a text that is read; 0 means not measured.
type DecodeRates struct {
	Exact        float64 `json:"exact"`
	Centroid     float64 `json:"centroid"`
	ReadExact    float64 `json:"read_exact,omitempty"`
	ReadCentroid float64 `json:"read_centroid,omitempty"`
}

// AttentionPath returns the conventional place of a model's attention: a file beside the model.
func AttentionPath(model string) string { return filepath.Clean(model) + ".attention.json" }

// Save writes a to a file atomically: readers see the old file or the complete new one.
func (a *Attention) Save(path string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Commit()
}

// ReadAttention reads a file written by [Attention.Save].
func ReadAttention(path string) (*Attention, error) {
	b, err := localfile.Read(path, localfile.JSON("a file of calibrated attention", maxAttention))
	if err != nil {
		return nil, err
	}
	a, err := parseAttention(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrAttention, err)
	}
	return a, nil
}

func parseAttention(b []byte) (*Attention, error) {
	a := new(Attention)
	if err := namedjson.Decode(b, a); err != nil {
		return nil, err
	}
	if a.Format != attentionFormat || a.Version != attentionVersion {
		return nil, fmt.Errorf("format %q, version %d, want %q, version %d", a.Format, a.Version, attentionFormat,
			attentionVersion)
	}
	if a.Choice == nil {
		return nil, errors.New("no choice")
	}
	for i := range a.Choice.Heads {
		h := &a.Choice.Heads[i]
		if _, ok := h.Centroid.(centroid.Sketch); !ok && h.Method != choose.Exact {
			return nil, fmt.Errorf("head %d has no plan for decoding but %v", i, h.Plan)
		}
	}
	if a.From != nil && len(a.From) != len(a.Choice.Heads) {
		return nil, fmt.Errorf("lengths of %d heads, want %d", len(a.From), len(a.Choice.Heads))
	}
	return a, nil
}

// Exact counts the heads that attend exactly at every length.
func (a *Attention) Exact() (n int) {
	for i := range a.Choice.Heads {
		if a.Choice.Heads[i].Method == choose.Exact {
			n++
		}
	}
	return n
}

// Centroids counts the heads that use centroids in a session whose first text has n tokens.
func (a *Attention) Centroids(n int) (count int) {
	for _, h := range a.at(n).Heads {
		if h.Method != choose.Exact {
			count++
		}
	}
	return count
}

// from is the shortest first text for which head i uses centroids.
func (a *Attention) from(i int) int {
	if a.From == nil {
		return a.Choice.Length
	}
	return a.From[i]
}

// lengths lists, in ascending order and once each, the lengths of a first text at which some head changes from exact
// attention to centroids. Between two of them all sessions attend in the same way.
func (a *Attention) lengths() []int {
	var list []int
	for i := range a.Choice.Heads {
		if a.Choice.Heads[i].Method != choose.Exact {
			list = append(list, a.from(i))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// at is the choice for first texts of n tokens: heads whose centroids pay only for longer texts are exact.
func (a *Attention) at(n int) *choose.Choice {
	c := *a.Choice
	c.Heads = slices.Clone(c.Heads)
	for i := range c.Heads {
		if h := &c.Heads[i]; h.Method != choose.Exact && a.from(i) > n {
			*h = exactHead(h, n, a.Rates.Exact*float64(n))
		}
	}
	return &c
}

// exactHead replaces the plan of h by exact attention. A causal token sees n/2 keys on average, hence the cost.
func exactHead(h *choose.Head, n int, seconds float64) choose.Head {
	return choose.Head{Plan: choose.Plan{Method: choose.Exact}, Cost: float64(n) / 2, Seconds: seconds,
		Expected: choose.Estimate{Rows: h.Expected.Rows}}
}

// sketch is the plan of a head that decodes with centroids.
func sketch(h *choose.Head) centroid.Sketch { return h.Centroid.(centroid.Sketch) }

// Shares compares a token that is generated after n others with exact attention: reads is its share of keys and
// centroids read, seconds the predicted share of the time in attention. seconds is 1 if no rates were measured.
func (a *Attention) Shares(n int) (reads, seconds float64) {
	heads := a.at(n).Heads
	count := float64(len(heads))
	for i := range heads {
		h := &heads[i]
		if h.Method == choose.Exact {
			reads, seconds = reads+1/count, seconds+1/count
			continue
		}
		r := sketch(h).StepCost(n) / float64(n)
		reads, seconds = reads+r/count, seconds+r*a.Rates.Centroid/a.Rates.Exact/count
	}
	return reads, seconds
}

// variant is one way in which the heads of a decoder attend.
type variant struct {
	from     int                                           // it is used for first texts of at least so many tokens
	settings string                                        // of attention; empty: exact
	memory   func() func(layer int) (decoder.State, error) // makes the states of one session; nil: exact
	empty    int64                                         // bytes of a session without tokens
}

// fingerprint identifies the model and the way in which v attends.
func (d *Decoder) fingerprint(v variant) [sha256.Size]byte {
	base := d.base()
	if v.settings == "" {
		return base
	}
	return sha256.Sum256(append(base[:], v.settings...))
}

// variant returns the way in which sessions with a first text of n tokens attend. d.variants ascend in from, so the
// last one that fits wins.
func (d *Decoder) variant(n int) variant {
	var v variant
	for _, x := range d.variants {
		if x.from <= n {
			v = x
		}
	}
	return v
}

// add makes sessions whose first text has at least from tokens attend in another way. Calls must ascend in from. The
// fingerprint covers the settings, so Resume refuses sessions that were saved under other ones.
func (d *Decoder) add(from int, settings []byte, memory func() func(int) (decoder.State, error)) (*variant, error) {
	v := variant{from: from, settings: string(settings), memory: memory}
	s, err := d.model.NewSession(memory()) // fails here, not in the first session, if a plan cannot run
	if err != nil {
		return nil, err
	}
	v.empty = s.Bytes()
	d.variants = append(d.variants, v)
	return &d.variants[len(d.variants)-1], nil
}

// With returns a decoder whose sessions attend as a says. The number of tokens that a session reads first decides
// between exact attention and centroids, and stays decisive afterwards. Sessions that were saved with other
// attention cannot be resumed by the new decoder.
func (d *Decoder) With(a *Attention) (*Decoder, error) {
	if base := d.base(); a.Model != hex.EncodeToString(base[:]) {
		return nil, fmt.Errorf("the attention was calibrated for another model, or another precision of it: calibrate again, "+
			"or use exact attention: %w", ErrAttention)
	}
	c := d.model.Config()
	if n := len(a.Choice.Heads); n != c.Layers*c.KVHeads || a.Choice.Dim != c.HeadDim ||
		a.Choice.ValueDim != c.HeadDim || c.SlidingWindow > 0 {
		return nil, fmt.Errorf("%d heads of dimension %d, the model has %d of %d: %w", n, a.Choice.Dim,
			c.Layers*c.KVHeads, c.HeadDim, ErrAttention)
	}
	w := d.exact()
	if a.Budgets != nil {
		if err := a.Budgets.Check(c.Layers, c.KVHeads); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAttention, err)
		}
		w.curves = a.Budgets
	}
	for _, n := range a.lengths() {
		choice := a.at(n)
		b, err := json.Marshal(choice)
		if err != nil {
			return nil, err
		}
		v, err := w.add(n, b, func() func(int) (decoder.State, error) {
			return d.model.Parts(func(layer int) []decoder.Part {
				return layerParts(choice.Range(layer*c.KVHeads, (layer+1)*c.KVHeads))
			})
		})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAttention, err)
		}
		for i := range choice.Heads {
			// chunks keep the queries until they are clustered
			if p, ok := choice.Heads[i].Centroid.(centroid.Sketch); ok {
				near := int64(p.Sinks + p.Window + p.Chunk + 1)
				v.empty += 2 * 4 * near * int64(c.Heads/c.KVHeads) * int64(c.HeadDim)
			}
		}
	}
	return w, nil
}

// layerParts splits the heads of a layer into runs of neighbours with the same method. Each run has one state.
func layerParts(c *choose.Choice) []decoder.Part {
	var out []decoder.Part
	for lo := 0; lo < len(c.Heads); {
		hi := lo + 1
		for hi < len(c.Heads) && c.Heads[hi].Method == c.Heads[lo].Method {
			hi++
		}
		p := decoder.Part{KVHeads: hi - lo}
		if c.Heads[lo].Method != choose.Exact {
			part := c.Range(lo, hi)
			p.New = func(heads, kvHeads int) (decoder.State, error) {
				return choose.NewChunks(part, attention.Shape{Batch: 1, Heads: heads, Dim: part.Dim},
					attention.Shape{Batch: 1, Heads: kvHeads, Dim: part.ValueDim})
			}
		}
		out, lo = append(out, p), hi
	}
	return out
}

// Constant returns a decoder whose sessions keep so many keys per head on average, however long the text gets; see
// [decoder.ConstantSpec]. If d has measured budgets (see With), heads that lose more with few keys get more of them.
func (d *Decoder) Constant(keys int) (*Decoder, error) {
	if keys < decoder.LeastConstant {
		return nil, fmt.Errorf("%d keys per head, want at least %d", keys, decoder.LeastConstant)
	}
	budgets := decoder.Budgets{}
	if d.curves != nil {
		budgets = d.curves.ConstantFor(d.Context(), float64(keys))
	}
	budget := func(layer, head int) int {
		if budgets.Slots == nil {
			return keys
		}
		return budgets.At(layer, head)
	}
	w := d.exact()
	settings := fmt.Appendf(nil, "slots:%d", keys)
	if budgets.Slots != nil {
		settings = fmt.Appendf(settings, " %v", budgets.Slots)
	}
	if _, err := w.add(0, settings, func() func(int) (decoder.State, error) {
		return d.model.Constant(budget)
	}); err != nil {
		return nil, err
	}
	w.keys = keys
	return w, nil
}

// exact returns d with exact attention. It keeps the budgets.
func (d *Decoder) exact() *Decoder {
	w := *d
	w.variants, w.keys = nil, 0
	return &w
}
