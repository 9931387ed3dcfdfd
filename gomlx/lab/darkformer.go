package lab

import (
	"errors"
	"fmt"

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
	m := models.Config{Kind: models.Decoder, Vocab: v.Size(), Length: l.pick(256, 32), Layers: l.pick(4, 1),
		Width: l.pick(128, 16), Heads: l.pick(4, 2)}
	source, err := corpus.NewStream(v.Encode(learn), v.Encode(held), l.pick(32, 4), m.Length, l.pick(12, 2))
	if err != nil {
		return err
	}
	c := train.Config{Steps: l.pick(2500, 4), Warmup: l.pick(100, 1), Rate: 2e-3, Floor: 0.05, Decay: 0.01, Clip: 1,
		Seed: 1}
	base, err := l.pretrain("darkformer", m, c, source)
	if err != nil {
		return err
	}

	n := l.pick(32, 8)
	features := func(name, family, coupling string) method {
		return method{name: name, attention: fmt.Sprintf("%s:%s:%d", family, coupling, n)}
	}
	dark := features("dark", "positive", "orthogonal")
	dark.dark = true
	performer := features("performer", "positive", "orthogonal")
	oprf := features("oprf-simplex", "oprf", "simplex")
	oprf.fit = true
	adaptive := features("adaptive", "adaptive", "orthogonal")
	adaptive.fit = true
	all := []method{performer, dark, {name: "exact", attention: "exact"}, oprf, adaptive,
		features("lfk", "lfk", "orthogonal"), {name: "constant", attention: "mean"},
		{name: "random", attention: "random"}}

	steps := l.pick(600, 3)
	at := map[int]bool{steps / 12: true, steps / 6: true, steps / 3: true, 2 * steps / 3: true}
	tune := train.Config{Steps: steps, Warmup: l.pick(20, 1), Rate: 5e-4, Floor: 0.1, Clip: 1}
	for _, how := range all {
		s, err := l.open(m, how, tune, source)
		if err != nil {
			return err
		}
		err = s.darkformer(base, tune, at)
		s.t.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// pretrain is the parameters of a model trained with exact attention.
func (l *Lab) pretrain(name string, m models.Config, c train.Config, source train.Source) (
	map[string][]float32, error) {
	s, err := l.open(m, method{name: "exact", attention: "exact"}, c, source)
	if err != nil {
		return nil, err
	}
	defer s.t.Close()
	if err := s.run(Row{Experiment: name, Part: "pretraining", Seed: 1}, c, nil, nil); err != nil {
		return nil, err
	}
	return s.t.Get()
}

// darkformer is all runs of one method.
func (s *session) darkformer(base map[string][]float32, c train.Config, at map[int]bool) error {
	row := Row{Experiment: "darkformer"}
	each := func(part string, regime train.Regime, rate float64, seeds, steps int) error {
		c := c
		c.Regime, c.Rate, c.Steps = regime, rate, steps
		for seed := range seeds {
			row.Part, row.Seed = part, uint64(seed+1)
			if err := s.run(row, c, base, at); err != nil {
				return err
			}
		}
		return nil
	}
	err := each("full", train.Full, c.Rate, s.seeds(), c.Steps)
	if name := s.method.name; name == "dark" || name == "performer" || name == "exact" {
		err = errors.Join(err, each("partial", train.Attention, c.Rate, s.seeds(), c.Steps))
	}
	if s.method.dark {
		err = errors.Join(err, each("M only", train.Dark, 4*c.Rate, s.seeds(), c.Steps))
	}
	if name := s.method.name; name == "dark" || name == "performer" {
		rates := []float64{1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2}
		if s.Quick {
			rates = rates[:1]
		}
		for _, rate := range rates {
			err = errors.Join(err, each("sweep", train.Full, rate, s.seeds(), (c.Steps+1)/2))
		}
	}
	return err
}
