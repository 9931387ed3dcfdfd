package lab

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/randfeat/randfeat/gomlx/corpus"
	"github.com/randfeat/randfeat/gomlx/models"
	"github.com/randfeat/randfeat/gomlx/train"
)

// shared are the methods that share a graph, the first of which builds it.
type shared []method

// encoderMethods are those of Chefs' Figure 4 and Table 2 and of SimRF's Figure 9, with ours.
func encoderMethods(m int) []shared {
	f := func(name, family, coupling string, fit bool) method {
		return method{name: name, attention: fmt.Sprintf("%s:%s:%d", family, coupling, m), fit: fit}
	}
	return []shared{
		{{name: "softmax", attention: "exact"}},
		{f("favor++", "oprf", "orthogonal", true), f("favor+", `{"name":"oprf"}`, "orthogonal", false),
			f("simplex", "oprf", "simplex", true)},
		{f("adaptive", "adaptive", "orthogonal", true)},
		{f("relu", "relu", "orthogonal", false)},
		{f("elu", "elu", "iid", false)},
	}
}

// ViT trains vision Transformers on a set of images from nothing and from one trained with exact attention.
func (l *Lab) ViT(set string) error {
	source, err := corpus.NewImages(filepath.Join(l.Data, set), 28, l.pick(128, 8), l.pick(0, 64), l.pick(2560, 16))
	if err != nil {
		return err
	}
	m := models.Config{Kind: models.ViT, Side: 28, Patch: l.pick(2, 7), Classes: 10, Layers: l.pick(2, 1),
		Width: l.pick(64, 16), Heads: l.pick(4, 2), Hidden: l.pick(128, 16)}
	name := "vit " + set
	c := train.Config{Steps: l.pick(300, 2), Warmup: l.pick(30, 1), Rate: 2e-3, Floor: 0.05, Decay: 0.01, Clip: 1}
	tune := c
	tune.Steps, tune.Warmup, tune.Rate = l.pick(40, 2), l.pick(5, 1), 3e-4
	base := newPromise()
	var all []func() error
	for _, group := range encoderMethods(l.pick(32, 4)) {
		all = append(all, func() error {
			if group[0].attention == "exact" {
				defer base.give(nil) // unless there are some
			}
			m := m
			m.Attention = group[0].attention
			s, err := l.open(m, c, source)
			if err != nil {
				return err
			}
			defer s.t.Close()
			for _, how := range group {
				if err := l.scratchAndTune(s, how, name, c, tune, base); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return l.together(all...)
}

func (l *Lab) scratchAndTune(s *session, how method, name string, c, tune train.Config, base *promise) error {
	for seed := range l.seeds() {
		row := Row{Experiment: name, Part: "scratch", Seed: uint64(seed + 1)}
		if err := s.run(how, row, c, nil, nil); err != nil {
			return err
		}
		if how.attention == "exact" {
			p, err := s.t.Get()
			if err != nil {
				return err
			}
			base.give(p) // the first seed's
		}
	}
	from, err := base.wait()
	if err != nil {
		return err
	}
	for seed := range l.seeds() {
		row := Row{Experiment: name, Part: "fine-tuned", Seed: uint64(seed + 1)}
		if err := s.run(how, row, tune, from, nil); err != nil {
			return err
		}
	}
	return nil
}

// Speed is training steps per second of a vision Transformer over the number of patches.
func (l *Lab) Speed(set string) error {
	type size struct{ side, patch int }
	sizes := []size{{28, 2}, {28, 1}, {56, 1}}
	if l.Quick {
		sizes = []size{{28, 4}}
	}
	all := encoderMethods(l.pick(32, 4))
	var compile []func() error
	var measure []func() error
	for _, z := range sizes {
		for _, how := range []method{all[0][0], all[1][0]} {
			m := models.Config{Kind: models.ViT, Side: z.side, Patch: z.patch, Classes: 10, Layers: l.pick(2, 1),
				Width: 64, Heads: 4, Hidden: 128, Attention: how.attention}
			row := Row{Experiment: "vit " + set, Part: "speed", Method: how.name,
				Patches: z.side * z.side / z.patch / z.patch}
			var s *session
			var failed error
			compile = append(compile, func() error {
				source, err := corpus.NewImages(filepath.Join(l.Data, set), z.side, l.pick(16, 2), 64, 16)
				if err != nil {
					return err
				}
				s, failed = l.open(m, train.Config{Steps: 100, Rate: 1e-4}, source)
				return nil
			})
			measure = append(measure, func() error { // alone
				if failed != nil {
					row.Error = failed.Error()
					return l.write(row)
				}
				defer s.t.Close()
				from, n := time.Now(), 0
				for n < l.pick(50, 2) && time.Since(from) < 2*time.Second {
					if _, err := s.t.Step(); err != nil {
						return err
					}
					n++
				}
				row.PerSecond = float64(n) / time.Since(from).Seconds()
				return l.write(row)
			})
		}
	}
	if err := l.together(compile...); err != nil {
		return err
	}
	for _, f := range measure {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
