package choose

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// Choice is a plan for every key/value head of a model, or of a part of it: layers are just more heads. It is one JSON
// document, read strictly.
type Choice struct {
	// Causal and Scale are as in the attention that the choice is for; Scale 0: 1/√d.
	Causal bool    `json:"causal,omitempty"`
	Scale  float64 `json:"scale,omitempty"`
	// Length is the number of keys of the sequences that the choice was made for. It holds for others, but costs and
	// errors are those at this length.
	Length   int `json:"length"`
	Dim      int `json:"dim"`
	ValueDim int `json:"value_dim"`
	// Tol or Budget is what was asked for.
	Tol    float64 `json:"tol,omitempty"`
	Budget float64 `json:"budget,omitempty"`
	// Rates are those that plans were ranked by; nil: by cost.
	Rates *Rates `json:"rates,omitempty"`
	Heads []Head `json:"heads"`
}

// Head is the plan of one key/value head and what to expect of it.
type Head struct {
	Plan
	Cost     float64  `json:"cost"`     // of a token, in features
	Expected Estimate `json:"expected"` // error on another text of the same kind
	// Seconds of a token, predicted by the rates of the choice; 0 without.
	Seconds float64 `json:"seconds,omitempty"`
}

// Cost is the mean cost of a token and head.
func (c *Choice) Cost() float64 {
	var sum float64
	for i := range c.Heads {
		sum += c.Heads[i].Cost
	}
	return sum / float64(max(1, len(c.Heads)))
}

// Seconds is the mean of the predicted seconds of a token and head; 0 if the choice was made by cost.
func (c *Choice) Seconds() float64 {
	var sum float64
	for i := range c.Heads {
		sum += c.Heads[i].Seconds
	}
	return sum / float64(max(1, len(c.Heads)))
}

// Range is the choice of heads lo to hi−1, such as those of one layer.
func (c *Choice) Range(lo, hi int) *Choice {
	part := *c
	part.Heads = slices.Clip(c.Heads[lo:hi])
	return &part
}

// check reports a choice that cannot be run.
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
		if err := c.Heads[h].check(c.Dim); err != nil {
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

const (
	format  = "randfeat attention choice"
	version = 1
)

// choiceFields is a Choice without methods.
type choiceFields Choice

// choiceWire is the JSON form of a Choice.
type choiceWire struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	choiceFields
}

// MarshalJSON writes the choice with its format and version.
func (c *Choice) MarshalJSON() ([]byte, error) {
	return json.Marshal(choiceWire{format, version, choiceFields(*c)})
}

// UnmarshalJSON reads what MarshalJSON writes; unknown and repeated fields, other versions and plans that cannot be run
// are errors.
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
