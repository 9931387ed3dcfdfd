package lab

import (
	"errors"
	"fmt"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/pretrained"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
)

// Language fine-tunes a published decoder, the folder dir, with exact attention, with Performer's positive features
// and with DARK (the same features at Mx, where M is trained and starts as the identity): DARKFormer's Figures 2 to
// 4 with a small model, in the paper's regimes. All heads change at once, without near keys or sinks. A seed draws
// the projections and the order of the passages; the methods of a seed share both.
func (l *Lab) Language(dir string) error {
	base, err := pretrained.Load(dir)
	if err != nil {
		return err
	}
	learn, _, err := corpus.Texts(l.Data, "wikitext2")
	if err != nil {
		return err
	}
	length, batch := l.pick(256, 64, 16), l.pick(8, 2, 2)
	passages, err := base.Tokens(learn[:min(len(learn), l.pick(1<<20, 1<<16, 1<<12))], length)
	if err != nil {
		return err
	}
	passages = passages[:min(len(passages), l.pick(640, 40, 8))]
	source, err := pretrained.NewPassages(passages, batch)
	if err != nil {
		return err
	}
	var seeds []uint64
	for i := range l.seeds() {
		seeds = append(seeds, l.seed(i))
	}
	if exact := (method{name: "exact"}); l.wants(exact) {
		if err := l.regimes(base, source, seeds, exact); err != nil {
			return err
		}
	}
	performer, dark := method{name: "performer", still: []train.Group{train.Kernel}}, method{name: "dark"}
	if !l.wants(performer) && !l.wants(dark) {
		return nil
	}
	for i, seed := range seeds { // projections are constants of the graph, so every seed compiles its own
		features := *base
		spec := randfeat.Spec{Family: family.DARK{}, Coupling: coupling.Orthogonal{}, M: l.pick(128, 32, 8), Seed: seed}
		a, err := base.Calibrate(l.Backend, pretrained.Plan{Spec: spec}, nil) // without passages nothing is fitted
		if err != nil {
			return err
		}
		if err := features.SetAttention(a); err != nil {
			return err
		}
		if err := l.regimes(&features, source, seeds[i:i+1], performer, dark); err != nil {
			return err
		}
	}
	return nil
}

// regimes fine-tunes one compiled decoder with every seed and method in every regime.
func (l *Lab) regimes(m *pretrained.Model, source train.Source, seeds []uint64, methods ...method) error {
	if l.late() {
		return ErrTime
	}
	from := time.Now()
	t, err := train.New(l.Backend, pretrained.Tuning{Model: m, Goal: pretrained.Next},
		train.Config{Steps: 1, OneGraph: true}, source)
	if err != nil {
		return err
	}
	defer t.Close()
	l.says("%s: compiled in %.1f s", methods[0].name, time.Since(from).Seconds())
	type part struct {
		name   string
		regime train.Regime
		rate   float64
	}
	one := func(p part, how method, seed uint64) error {
		if !l.wants(how) || !l.part(p.name) || p.regime == train.Dark && how.name != "dark" {
			return nil
		}
		steps := l.steps(200, 20, 2)
		c := train.Config{Steps: steps, Warmup: max(1, steps/10), Rate: p.rate, Floor: 0.1, Clip: 1, Beta1: 0.9,
			Beta2: 0.99, Accumulate: 1, Regime: p.regime, Still: how.still, OneGraph: true}
		row := Row{Experiment: "language", Part: p.name, Method: how.name, Seed: seed, Rate: c.Rate}
		return l.tune(t, c, row, map[int]bool{steps / 4: true, steps / 2: true, steps: true})
	}
	for _, seed := range seeds {
		for _, p := range []part{{"full", train.Full, 3e-4}, {"partial", train.Attention, 1e-3},
			{"M only", train.Dark, 3e-3}} {
			for _, how := range methods {
				if err := one(p, how, seed); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tune trains a compiled model again with a configuration and writes a row at the steps in at.
func (l *Lab) tune(t *train.Trainer, c train.Config, row Row, at map[int]bool) error {
	if l.late() {
		return ErrTime
	}
	from := time.Now()
	t.Config = c
	if err := t.Reset(row.Seed); err != nil {
		return err
	}
	for range c.Steps {
		_, err := t.Step()
		if errors.Is(err, train.ErrDiverged) {
			row.Error, row.Step = err.Error(), t.Done()
			return l.write(row)
		}
		if err != nil {
			return err
		}
		if !at[t.Done()] {
			continue
		}
		e, err := t.Evaluate()
		if err != nil {
			return fmt.Errorf("%s: %w", row.Method, err)
		}
		row.Step, row.Loss, row.Accuracy = t.Done(), e.Loss, e.Accuracy
		if err := l.write(row); err != nil {
			return err
		}
	}
	l.says("%s %s seed %d: loss %.4f accuracy %.4f, %.1f s", row.Part, row.Method, row.Seed, row.Loss, row.Accuracy,
		time.Since(from).Seconds())
	return nil
}
