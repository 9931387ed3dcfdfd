package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

// DarkFormer trains a character decoder with exact attention and then fine-tunes it with other attention at equal
// steps: all parameters (Figures 2 and 3), only queries, keys, values and M (Figure 4), only M, and a sweep of
// learning rates (Figure 5).
func (l *Lab) DarkFormer() error {
	known := []string{"full", "partial", "M only", "sweep"}
	for _, p := range l.Parts {
		if !slices.Contains(known, p) {
			return fmt.Errorf("part %q: the parts of darkformer are %s", p, strings.Join(known, ", "))
		}
	}
	m, source, err := l.characters()
	if err != nil {
		return err
	}
	d := &darkformer{Lab: l, m: m, source: source, base: newPromise()}
	c := train.Config{Steps: l.pick(2500, 800, 4), Warmup: l.pick(100, 50, 1), Rate: 2e-3, Floor: 0.05,
		Decay: 0.01, Clip: 1, Seed: 1}
	// One graph serves all features: M and the projections are trained or frozen, and the numbers are those of any
	// draw and any A.
	n := l.pick(32, 16, 8)
	oprf, simplex := fmt.Sprintf("oprf:orthogonal:%d", n), fmt.Sprintf("oprf:simplex:%d", n)
	plain := fmt.Sprintf(`{"name":"oprf"}:orthogonal:%d`, n) // A = 0: positive features
	still := func(g ...train.Group) []train.Group { return g }
	features := func(methods ...method) func() error {
		m := m
		m.Attention, m.Dark, m.Learned = oprf, true, true
		return func() error { return d.group(m, methods...) }
	}
	other := func(how method) func() error {
		m := m
		m.Attention = how.attention
		return func() error { return d.group(m, how) }
	}
	return l.together(
		func() error { return d.exact(c) },
		features(method{name: "performer", attention: plain, still: still(train.Kernel, train.Features)}),
		features(method{name: "dark", attention: plain, still: still(train.Features)}),
		features(
			method{name: "oprf-simplex", attention: simplex, fit: true, still: still(train.Kernel, train.Features)},
			method{name: "constant", attention: plain, still: still(train.Kernel, train.Features), constant: true},
			method{name: "lfk", attention: plain, still: still(train.Kernel)}),
		other(method{name: "adaptive", attention: fmt.Sprintf("adaptive:orthogonal:%d", n), fit: true}),
		other(method{name: "random", attention: "random"}))
}

// characters returns a decoder of the characters of the Penn Treebank, and its batches.
func (l *Lab) characters() (m models.Config, source train.Source, err error) {
	learn, held, err := corpus.Texts(l.Data, "ptb")
	if err != nil {
		return m, nil, err
	}
	if l.Size == Quick {
		learn, held = learn[:20000], held[:4000]
	}
	v, err := text.Learn(text.Chars, learn, 0)
	if err != nil {
		return m, nil, err
	}
	m = models.Config{Kind: models.Decoder, Vocab: v.Size(), Length: l.pick(128, 64, 32), Layers: l.pick(2, 1, 1),
		Width: l.pick(128, 64, 16), Heads: l.pick(4, 4, 2)}
	source, err = corpus.NewStream(v.Encode(learn), v.Encode(held), l.pick(64, 16, 4), m.Length, l.pick(8, 16, 2))
	return m, source, err
}

// exact pretrains, and fine-tunes with exact attention.
func (d *darkformer) exact(c train.Config) error {
	defer d.base.give(nil) // if it fails, those who wait get an error
	m := d.m
	m.Attention = "exact"
	s, err := d.open(m, c, d.source)
	if err != nil {
		return err
	}
	defer s.t.Close()
	how := method{name: "exact", attention: "exact"}
	from := time.Now()
	if err := s.run(how, Row{Experiment: "darkformer", Part: "pretraining", Seed: 1}, c, nil, nil); err != nil {
		return err
	}
	steps := d.affordable(time.Since(from) / time.Duration(c.Steps))
	d.at = map[int]bool{steps / 6: true, steps / 3: true, 2 * steps / 3: true}
	d.tune = train.Config{Steps: steps, Warmup: d.pick(20, 10, 1), Rate: 5e-4, Floor: 0.1, Clip: 1}
	base, err := s.t.Get()
	if err != nil {
		return err
	}
	d.base.give(base)
	if !d.wants(how) {
		return nil
	}
	return d.all(s, how)
}

// group compiles one graph and, as soon as the pretrained parameters are there, runs its methods.
func (d *darkformer) group(m models.Config, methods ...method) error {
	methods = slices.DeleteFunc(methods, func(m method) bool { return !d.wants(m) })
	if len(methods) == 0 {
		return nil
	}
	if d.late() {
		return ErrTime
	}
	s, err := d.open(m, train.Config{Steps: 1}, d.source)
	if err != nil {
		return err
	}
	defer s.t.Close()
	if _, err := d.base.wait(); err != nil {
		return err
	}
	for _, how := range methods {
		if err := d.all(s, how); err != nil {
			return err
		}
		if d.part("sweep") && (how.name == "performer" || how.name == "dark") {
			if err := d.sweep(s, how); err != nil {
				return err
			}
		}
	}
	return nil
}

// darkformer is the state of one call of DarkFormer.
type darkformer struct {
	*Lab
	m      models.Config
	source train.Source
	tune   train.Config
	base   *promise
	at     map[int]bool
}

// affordable returns the number of steps of every fine-tuning, fewer if the remaining time demands it.
func (d *darkformer) affordable(step time.Duration) int {
	if d.Steps > 0 {
		return d.Steps
	}
	steps := d.pick(600, 120, 6)
	if d.Until.IsZero() {
		return steps
	}
	const runs = 36 + 48/2 // runs of the sweep have half the steps
	fit := int(time.Until(d.Until) / (step * runs))
	steps = max(60, min(steps, fit/30*30))
	d.says("%v per step: %d steps of fine-tuning", step.Round(10*time.Microsecond), steps)
	return steps
}

// all runs every regime of a method, over seeds.
func (d *darkformer) all(s *session, how method) error {
	parts := []struct {
		name   string
		regime train.Regime
		rate   float64
	}{{"full", train.Full, d.tune.Rate}}
	switch how.name {
	case "dark":
		parts = append(parts, parts[0], parts[0])
		parts[1].name, parts[1].regime = "partial", train.Attention
		parts[2].name, parts[2].regime, parts[2].rate = "M only", train.Dark, 4*d.tune.Rate
	case "performer", "exact":
		parts = append(parts, parts[0])
		parts[1].name, parts[1].regime = "partial", train.Attention
	}
	for _, p := range parts {
		if !d.part(p.name) {
			continue
		}
		c := d.tune
		c.Regime, c.Rate = p.regime, p.rate
		for seed := range d.seeds() {
			row := Row{Experiment: "darkformer", Part: p.name, Seed: d.seed(seed)}
			if err := s.run(how, row, c, d.base.base, d.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep is Figure 5: learning rates up to those at which training breaks.
func (d *darkformer) sweep(s *session, how method) error {
	rates := []float64{1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 0.128}
	if d.Size == Quick {
		rates = rates[:1]
	}
	c := d.tune
	c.Steps = (c.Steps + 1) / 2
	for _, rate := range rates {
		c.Rate = rate
		for seed := range d.seeds() {
			row := Row{Experiment: "darkformer", Part: "sweep", Seed: d.seed(seed)}
			if err := s.run(how, row, c, d.base.base, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
