package models

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/models/decoder"
)

// ErrAttention marks files and settings of attention that this model cannot use.
var ErrAttention = errors.New("not a usable choice of attention")

const (
	attentionFormat  = "randfeat model attention"
	attentionVersion = 1
	maxAttention     = 1 << 26 // bytes of a file
)

// Attention says how every key/value head of one decoder attends, and what to expect of it. Calibrate makes it, and
// [Decoder.With] uses it.
type Attention struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Model is the fingerprint of the model and its precision: a hash of its configuration, of the names, types and
	// shapes of all tensors, and of the first 1024 bytes of each.
	Model string `json:"model"`
	// Tokens is the number of tokens of the calibration text that were read.
	Tokens int `json:"tokens"`
	// Rates are those of the machine that the choice was made on.
	Rates DecodeRates `json:"rates"`
	// Choice has the plans of the heads, layer by layer: exact, or centroids by chunks of keys.
	Choice *choose.Choice `json:"choice"`
}

// DecodeRates are the seconds of one generated token in one key/value head with its query heads: Exact per key of the
// context, Centroid per key or centroid that the token reads.
type DecodeRates struct {
	Exact    float64 `json:"exact"`
	Centroid float64 `json:"centroid"`
}

// AttentionPath is the place of a model's attention: a file beside it.
func AttentionPath(model string) string { return filepath.Clean(model) + ".attention.json" }

// Save writes a into a file, which appears complete or not at all.
func (a *Attention) Save(path string) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := data.CreateAtomic(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Commit()
}

// ReadAttention reads what Save wrote.
func ReadAttention(path string) (*Attention, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAttention+1))
	if err == nil && len(b) > maxAttention {
		err = fmt.Errorf("more than %d bytes", maxAttention)
	}
	var a *Attention
	if err == nil {
		a, err = parseAttention(b)
	}
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
	return a, nil
}

// Exact counts the heads that attend exactly.
func (a *Attention) Exact() (n int) {
	for i := range a.Choice.Heads {
		if a.Choice.Heads[i].Method == choose.Exact {
			n++
		}
	}
	return n
}

// Shares are the keys and centroids that a generated token reads at the length of the calibration, and its predicted
// seconds in attention, as shares of those of exact attention. seconds is 1 if no rates were measured.
func (a *Attention) Shares() (reads, seconds float64) {
	n, count := a.Choice.Length, float64(len(a.Choice.Heads))
	for i := range a.Choice.Heads {
		h := &a.Choice.Heads[i]
		if h.Method == choose.Exact {
			reads, seconds = reads+1/count, seconds+1/count
			continue
		}
		r := decodeReads(h.Centroid, n) / float64(n)
		reads, seconds = reads+r/count, seconds+r*a.Rates.Centroid/a.Rates.Exact/count
	}
	return reads, seconds
}

// With is the decoder whose sessions attend as a says. Sessions that were saved with other attention do not fit.
func (d *Decoder) With(a *Attention) (*Decoder, error) {
	if a.Model != hex.EncodeToString(d.base[:]) {
		return nil, fmt.Errorf("the attention was calibrated for another model, or another precision of it: calibrate again, "+
			"or use exact attention: %w", ErrAttention)
	}
	c := d.model.Config()
	if n := len(a.Choice.Heads); n != c.Layers*c.KVHeads || a.Choice.Dim != c.HeadDim ||
		a.Choice.ValueDim != c.HeadDim || c.SlidingWindow > 0 {
		return nil, fmt.Errorf("%d heads of dimension %d, the model has %d of %d: %w", n, a.Choice.Dim,
			c.Layers*c.KVHeads, c.HeadDim, ErrAttention)
	}
	b, err := json.Marshal(a.Choice)
	if err != nil {
		return nil, err
	}
	w := d.other(b)
	w.memory = func() func(int) (decoder.State, error) {
		return d.model.Parts(func(layer int) []decoder.Part {
			return layerParts(a.Choice.Range(layer*c.KVHeads, (layer+1)*c.KVHeads))
		})
	}
	s, err := w.Session() // plans that cannot run are found here
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAttention, err)
	}
	w.empty = s.state.Bytes()
	for i := range a.Choice.Heads {
		if p := a.Choice.Heads[i].Centroid; p != nil { // queries are kept until their chunk is clustered
			near := int64(p.Sinks + p.Window + p.Chunk + p.Together)
			w.empty += 2 * 4 * near * int64(c.Heads/c.KVHeads) * int64(c.HeadDim)
		}
	}
	return w, nil
}

// layerParts are the runs of heads with one method in a layer.
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
			p.New = func(heads, _ int) (decoder.State, error) { return choose.NewChunks[float32](part, 1, heads) }
		}
		out, lo = append(out, p), hi
	}
	return out
}

// Constant is the decoder whose sessions keep so many keys per head, however long the text is: the first four, the
// latest, and of the others those that have received the most attention, with decay (as SnapKV: Li et al. 2024,
// arXiv:2404.14469).
func (d *Decoder) Constant(keys int) (*Decoder, error) {
	c := d.model.Config()
	w := d.other(fmt.Appendf(nil, "slots:%d", keys))
	w.memory = func() func(int) (decoder.State, error) {
		return func(int) (decoder.State, error) {
			spec := centroid.SlotSpec{Budget: keys, Evict: true, Decay: 0.9, Window: 64}
			return centroid.NewSlots[float32](spec, 0, nil, 1, c.Heads, c.KVHeads, c.HeadDim, c.HeadDim)
		}
	}
	s, err := w.Session()
	if err != nil {
		return nil, err
	}
	w.keys, w.empty = keys, s.state.Bytes()
	return w, nil
}

// other is a decoder of other settings, whose saved sessions are told from those of d by its fingerprint.
func (d *Decoder) other(settings []byte) *Decoder {
	w := *d
	w.fingerprint = sha256.Sum256(append(d.base[:], settings...))
	return &w
}

// exact is the decoder with exact attention.
func (d *Decoder) exact() *Decoder {
	w := *d
	w.fingerprint, w.memory, w.keys, w.empty = d.base, nil, 0, 0
	return &w
}
