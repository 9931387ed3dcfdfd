// Package train takes models of GoMLX variables through training that can be killed at any moment: AdamW with warm-up
// and cosine, clipping by the global norm, accumulated gradients, files that are written whole or not at all, and a
// resumed run that ends in the same bits as one that was never stopped. All that changes from step to step enters the
// compiled graph as numbers: learning rates, seeds, what is trained and the projections of random features share one
// compilation.
package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/gomlx/internal/models"
)

// ErrConfig marks settings that make no training run.
var ErrConfig = errors.New("not a training run")

// Regime is what of a model is trained, by the regimes of the DARKFormer paper (§6).
type Regime string

// The regimes.
const (
	Full      Regime = "full"
	Attention Regime = "attention" // projections of queries, keys and values, and M where there is one
	Dark      Regime = "dark"      // M alone
)

// Config is how a model is trained. Zeros are useful where a default is named.
type Config struct {
	Steps      int     `json:"steps"`
	Warmup     int     `json:"warmup"`     // steps of a rate that grows linearly
	Rate       float64 `json:"rate"`       // the largest learning rate; 0: 1e-3
	Floor      float64 `json:"floor"`      // the last, as a part of Rate
	Decay      float64 `json:"decay"`      // of matrices (AdamW)
	Clip       float64 `json:"clip"`       // of the gradient's global norm; 0: none
	Beta1      float64 `json:"beta1"`      // 0: 0.9
	Beta2      float64 `json:"beta2"`      // 0: 0.99
	Accumulate int     `json:"accumulate"` // batches per step; 0: 1
	Regime     Regime  `json:"regime"`     // "": Full
	// Still are parts that are not trained though the regime has them.
	Still []models.Group `json:"still,omitempty"`
	// OneGraph evaluates with the graph of the training step, without a step: twice the work of an evaluation, and one
	// compilation less.
	OneGraph bool `json:"one_graph,omitempty"`

	Seed   uint64 `json:"seed"`             // of parameters, batches and redraws
	Redraw int    `json:"redraw,omitempty"` // steps between new projections; 0: never
	Fit    int    `json:"fit,omitempty"`    // steps after which heads are fitted, and at every redraw; 0: never
}

func (c Config) normal() Config {
	set := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	set(&c.Rate, 1e-3)
	set(&c.Beta1, 0.9)
	set(&c.Beta2, 0.99)
	if c.Accumulate == 0 {
		c.Accumulate = 1
	}
	if c.Regime == "" {
		c.Regime = Full
	}
	return c
}

// Validate says what is wrong.
func (c Config) Validate() error {
	c = c.normal()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	part := func(x float64) bool { return x >= 0 && x < 1 }
	switch {
	case c.Steps < 1:
		return bad("%d steps", c.Steps)
	case c.Warmup < 0 || c.Warmup > c.Steps:
		return bad("%d of %d steps to warm up", c.Warmup, c.Steps)
	case !(c.Rate > 0) || math.IsInf(c.Rate, 0):
		return bad("learning rate %g", c.Rate)
	case !(c.Floor >= 0 && c.Floor <= 1):
		return bad("the last rate is %g of the largest", c.Floor)
	case !(c.Decay >= 0) || !(c.Clip >= 0) || !part(c.Beta1) || !part(c.Beta2):
		return bad("decay %g, clip %g, betas %g and %g", c.Decay, c.Clip, c.Beta1, c.Beta2)
	case c.Accumulate < 1 || c.Redraw < 0 || c.Fit < 0:
		return bad("%d batches per step, redraw every %d, fit after %d", c.Accumulate, c.Redraw, c.Fit)
	}
	switch c.Regime {
	case Full, Attention, Dark:
		return nil
	}
	return bad("regime %q: take %s, %s or %s", c.Regime, Full, Attention, Dark)
}

// rate is the learning rate of a step, the first being 0.
func (c Config) rate(step int) float64 {
	if step < c.Warmup {
		return c.Rate * float64(step+1) / float64(c.Warmup)
	}
	t := float64(step-c.Warmup) / float64(max(1, c.Steps-c.Warmup))
	return c.Rate * (c.Floor + (1-c.Floor)*(1+math.Cos(math.Pi*t))/2)
}
