package choose

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// Choice holds a plan for every key/value head of a model or of a part of it. The heads of several layers are simply
// concatenated; see [Choice.Range]. Its file form is one JSON document, read strictly.
type Choice struct {
	// Causal and Scale belong to the attention that the choice is for. Scale 0 means 1/√d.
	Causal bool    `json:"causal,omitempty"`
	Scale  float64 `json:"scale,omitempty"`
	// Length is the number of keys in the sample. The choice also runs at other lengths, but Cost, Seconds and Expected
	// refer to this one.
	Length   int `json:"length"`
	Dim      int `json:"dim"`
	ValueDim int `json:"value_dim"`
	// Tol or Budget is the goal of the choice.
	Tol    float64 `json:"tol,omitempty"`
	Budget float64 `json:"budget,omitempty"`
	// Rates ranked the plans; nil means they were ranked by cost.
	Rates *Rates `json:"rates,omitempty"`
	Heads []Head `json:"heads"`
}

// Head is the plan of one key/value head with its cost and expected error.
type Head struct {
	Plan
	Cost     float64  `json:"cost"`     // per token, in features
	Expected Estimate `json:"expected"` // error on another text of the same kind
	// Seconds is the predicted time of a token by the rates of the choice; 0 without rates.
	Seconds float64 `json:"seconds,omitempty"`
	// Reason says why the head stays exact, or reads all keys when it decodes. Otherwise, and in choices of [Use], it
	// is empty.
	Reason string `json:"reason,omitempty"`
}

// Cost returns the mean cost per token and head.
func (c *Choice) Cost() float64 {
	var sum float64
	for i := range c.Heads {
		sum += c.Heads[i].Cost
	}
	return sum / float64(max(1, len(c.Heads)))
}

// Seconds returns the mean predicted seconds per token and head, or 0 if the choice was made by cost.
func (c *Choice) Seconds() float64 {
	var sum float64
	for i := range c.Heads {
		sum += c.Heads[i].Seconds
	}
	return sum / float64(max(1, len(c.Heads)))
}

// Range returns the choice of the heads lo to hi−1, for example the heads of one layer.
func (c *Choice) Range(lo, hi int) *Choice {
	part := *c
	part.Heads = slices.Clip(c.Heads[lo:hi])
	return &part
}

// check returns an error that wraps [ErrChoice] unless the choice can be run.
func (c *Choice) check() error {
	if len(c.Heads) == 0 {
		return fmt.Errorf("no heads: %w", ErrChoice)
	}
	if c.Dim < 1 || c.ValueDim < 1 || c.Length < 0 {
		return fmt.Errorf("dimension %d, value dimension %d, length %d: %w", c.Dim, c.ValueDim, c.Length, ErrChoice)
	}
	for _, x := range []float64{c.Scale, c.Tol, c.Budget} {
		if !dense.IsFinite(x) || x < 0 {
			return fmt.Errorf("scale %v, tol %v, budget %v, want finite numbers of at least 0: %w", c.Scale, c.Tol,
				c.Budget, ErrChoice)
		}
	}
	if c.Rates != nil && !c.Rates.valid() {
		return fmt.Errorf("rates %+v, want finite numbers of at least 0, a positive one of exact attention: %w", *c.Rates,
			ErrChoice)
	}
	for h := range c.Heads {
		if err := c.Heads[h].check(c.Causal, c.Dim); err != nil {
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

const (
	format  = "randfeat attention choice"
	version = 1
)

// choiceFields is Choice without its methods, which choiceWire would inherit otherwise.
type choiceFields Choice

// choiceWire is the JSON form of a Choice.
type choiceWire struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	choiceFields
}

// headWire is the JSON form of a Head that is read: which type a centroid spec has follows from its fields. Earlier
// versions wrote centres.
type headWire struct {
	Method   Method          `json:"method"`
	Centroid json.RawMessage `json:"centroid"`
	Centres  json.RawMessage `json:"centres"`
	Features *FeatureSpec    `json:"features"`
	Cost     float64         `json:"cost"`
	Expected Estimate        `json:"expected"`
	Seconds  float64         `json:"seconds"`
	Reason   string          `json:"reason"`
}

// UnmarshalJSON reads the form that the encoding of a Head has.
func (h *Head) UnmarshalJSON(b []byte) error {
	var w headWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("%w: %w", err, ErrChoice)
	}
	out := Head{Plan: Plan{Method: w.Method, Features: w.Features}, Cost: w.Cost, Expected: w.Expected,
		Seconds: w.Seconds, Reason: w.Reason}
	if w.Centres != nil {
		return fmt.Errorf("%w: %w", centroid.ErrRemoved, ErrChoice)
	}
	if w.Centroid != nil {
		var err error
		if out.Centroid, err = centroid.UnmarshalSpec(w.Centroid); err != nil {
			return fmt.Errorf("%w: %w", err, ErrChoice)
		}
	}
	*h = out
	return nil
}

// MarshalJSON writes the choice with its format and version.
func (c *Choice) MarshalJSON() ([]byte, error) {
	return json.Marshal(choiceWire{format, version, choiceFields(*c)})
}

// UnmarshalJSON reads the form that MarshalJSON writes. Unknown and repeated fields, other versions and plans that
// cannot run are errors.
func (c *Choice) UnmarshalJSON(b []byte) error {
	var w choiceWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("%w: %w", err, ErrChoice)
	}
	if w.Format != format || w.Version != version {
		return fmt.Errorf("format %q, version %d, want %q, version %d: %w", w.Format, w.Version, format, version,
			ErrChoice)
	}
	out := Choice(w.choiceFields)
	if err := out.check(); err != nil {
		return err
	}
	*c = out
	return nil
}
