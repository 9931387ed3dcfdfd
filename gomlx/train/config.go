// Package train trains models made of GoMLX variables. A run can be killed at any moment: files are written
// atomically, and a resumed run ends in the same bits as one that was never stopped. It uses AdamW with warm-up and
// cosine decay, clipping by the global norm and accumulated gradients.
//
//	t, err := train.New(backend, task, train.Config{Steps: 1000}, source)
//	defer t.Close()
//	err = train.Run{Dir: "run"}.Do(ctx, t)      // or t.Step and t.Evaluate one by one
//
// Everything that changes from step to step enters the compiled graph as numbers: learning rates, seeds, which parts
// are trained, and the projections of random features. So one compilation serves all of them, and [Trainer.Reset]
// starts another run without compiling.
//
// Files: trainer.go has the loop, step.go the graphs of a step, parallel.go several devices, checkpoint.go the file
// format, run.go a run with metrics and checkpoints.
package train

import (
	"errors"
	"fmt"
	"math"
)

// ErrConfig means that the settings do not describe a training run.
var ErrConfig = errors.New("not a training run")

// Regime says which parts of a model are trained (the regimes of the DARKFormer paper, §6).
type Regime string

// Regimes.
const (
	Full      Regime = "full"
	Attention Regime = "attention" // projections of queries, keys and values, and M if there is one
	Dark      Regime = "dark"      // only M
)

// Config says how to train a model. Zero fields mean the default in their comment.
type Config struct {
	Steps      int     `json:"steps"`
	Warmup     int     `json:"warmup"`     // steps with a linearly growing rate
	Rate       float64 `json:"rate"`       // the largest learning rate; 0: 1e-3
	Floor      float64 `json:"floor"`      // last learning rate, as a share of Rate
	Decay      float64 `json:"decay"`      // weight decay of matrices (AdamW)
	Clip       float64 `json:"clip"`       // bound on the global norm of the gradient; 0: none
	Beta1      float64 `json:"beta1"`      // 0: 0.9
	Beta2      float64 `json:"beta2"`      // 0: 0.99
	Accumulate int     `json:"accumulate"` // batches per step; 0: 1
	Regime     Regime  `json:"regime"`     // "": Full
	// Still are groups that are frozen although the regime trains them.
	Still []Group `json:"still,omitempty"`
	// OneGraph evaluates with the graph of the training step, without applying the step. Evaluations take twice the
	// work, and one compilation less is needed.
	OneGraph bool `json:"one_graph,omitempty"`

	Seed   uint64 `json:"seed"`             // of parameters, batches and redraws
	Redraw int    `json:"redraw,omitempty"` // steps between new projections; 0: never
	Fit    int    `json:"fit,omitempty"`    // fit heads after so many steps, and at every redraw; 0: never
}

// normal fills in the defaults.
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

// Validate returns an error if the settings cannot be used.
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

// rate returns the learning rate of a step, counted from 0.
func (c Config) rate(step int) float64 {
	if step < c.Warmup {
		return c.Rate * float64(step+1) / float64(c.Warmup)
	}
	t := float64(step-c.Warmup) / float64(max(1, c.Steps-c.Warmup))
	return c.Rate * (c.Floor + (1-c.Floor)*(1+math.Cos(math.Pi*t))/2)
}
