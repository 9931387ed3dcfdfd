package lab

import (
	"fmt"
	"time"

	"github.com/randfeat/randfeat/gomlx/corpus"
	"github.com/randfeat/randfeat/gomlx/models"
	"github.com/randfeat/randfeat/gomlx/text"
	"github.com/randfeat/randfeat/gomlx/train"
)

// DarkFormer trains a decoder of characters with exact attention, then fine-tunes it with other attention at equal
// steps: all parameters (Figures 2 and 3), queries, keys, values and M (Figure 4), M alone, and a sweep of learning
// rates (Figure 5).
func (l *Lab) DarkFormer() error {
	learn, held, err := corpus.Texts(l.Data, "ptb")
	if err != nil {
		return err
	}
	if l.Quick {
		learn, held = learn[:20000], held[:4000]
	}
	v, err := text.Learn(text.Chars, learn, 0)
	if err != nil {
		return err
	}
	m := models.Config{Kind: models.Decoder, Vocab: v.Size(), Length: l.pick(128, 32), Layers: l.pick(2, 1),
		Width: l.pick(128, 16), Heads: l.pick(4, 2)}
	source, err := corpus.NewStream(v.Encode(learn), v.Encode(held), l.pick(64, 4), m.Length, l.pick(8, 2))
	if err != nil {
		return err
	}
	d := darkformer{Lab: l, m: m, source: source}
	c := train.Config{Steps: l.pick(2500, 4), Warmup: l.pick(100, 1), Rate: 2e-3, Floor: 0.05, Decay: 0.01, Clip: 1,
		Seed: 1}
	exact, err := d.open("exact", c)
	if err != nil {
		return err
	}
	defer exact.t.Close()
	row := Row{Experiment: "darkformer", Part: "pretraining", Seed: 1}
	from := time.Now()
	if err := exact.run(method{name: "exact", attention: "exact"}, row, c, nil, nil); err != nil {
		return err
	}
	steps := d.affordable(time.Since(from) / time.Duration(c.Steps))
	d.at = map[int]bool{steps / 6: true, steps / 3: true, 2 * steps / 3: true}
	d.tune = train.Config{Steps: steps, Warmup: l.pick(20, 1), Rate: 5e-4, Floor: 0.1, Clip: 1}
	if d.base, err = exact.t.Get(); err != nil {
		return err
	}
	if err := d.all(exact, method{name: "exact", attention: "exact"}); err != nil {
		return err
	}

	// One graph of features: M and the projections are trained or not, the numbers are those of any draw and of any A.
	n := l.pick(32, 8)
	d.m.Dark, d.m.Learned = true, true
	shared, err := d.open(fmt.Sprintf("oprf:orthogonal:%d", n), c)
	if err != nil {
		return err
	}
	defer shared.t.Close()
	plain := fmt.Sprintf(`{"name":"oprf"}:orthogonal:%d`, n) // A = 0: positive features
	neither := []models.Group{models.Kernel, models.Features}
	performer := method{name: "performer", attention: plain, still: neither}
	dark := method{name: "dark", attention: plain, still: []models.Group{models.Features}}
	for _, how := range []method{performer, dark,
		{name: "oprf-simplex", attention: fmt.Sprintf("oprf:simplex:%d", n), fit: true, still: neither},
		{name: "lfk", attention: plain, still: []models.Group{models.Kernel}},
		{name: "constant", attention: plain, still: neither, constant: true},
	} {
		if err := d.all(shared, how); err != nil {
			return err
		}
	}
	d.m.Dark, d.m.Learned = false, false
	for _, how := range []method{
		{name: "adaptive", attention: fmt.Sprintf("adaptive:orthogonal:%d", n), fit: true},
		{name: "random", attention: "random"},
	} {
		if l.late() {
			return ErrTime
		}
		s, err := d.open(how.attention, c)
		if err != nil {
			return err
		}
		if err := d.all(s, how); err != nil {
			return err
		}
		s.t.Close()
	}
	return d.sweep(shared, performer, dark)
}

type darkformer struct {
	*Lab
	m      models.Config
	source train.Source
	tune   train.Config
	base   map[string][]float32
	at     map[int]bool
}

// affordable is the number of steps of every fine-tuning, fewer where the time that is left asks for it.
func (d *darkformer) affordable(step time.Duration) int {
	steps := d.pick(300, 6)
	if d.Until.IsZero() {
		return steps
	}
	const runs, compiling = 36 + 36/2, 50 * time.Second // the sweep's are of half the length
	left := time.Until(d.Until) - compiling
	fit := int(left / (step * runs * 5 / 4)) // features take longer than exact attention at this length
	steps = max(60, min(steps, fit/30*30))
	d.says("%v per step: %d steps of fine-tuning", step.Round(10*time.Microsecond), steps)
	return steps
}

func (d *darkformer) open(attention string, c train.Config) (*session, error) {
	m := d.m
	m.Attention = attention
	return d.Lab.open(m, c, d.source)
}

// all is every regime of a method, over seeds.
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
		c := d.tune
		c.Regime, c.Rate = p.regime, p.rate
		for seed := range d.seeds() {
			row := Row{Experiment: "darkformer", Part: p.name, Seed: uint64(seed + 1)}
			if err := s.run(how, row, c, d.base, d.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep is Figure 5: learning rates up to those where training breaks.
func (d *darkformer) sweep(s *session, methods ...method) error {
	rates := []float64{1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2}
	if d.Quick {
		rates = rates[:1]
	}
	c := d.tune
	c.Steps = (c.Steps + 1) / 2
	for _, rate := range rates {
		c.Rate = rate
		for seed := range d.seeds() {
			for _, how := range methods {
				row := Row{Experiment: "darkformer", Part: "sweep", Seed: uint64(seed + 1)}
				if err := s.run(how, row, c, d.base, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
