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

// ViT trains vision Transformers on MNIST from nothing and from one trained with exact attention, and measures steps
// per second over the number of patches.
func (l *Lab) ViT(set string) error {
	images := func(side, batch, limit, test int) (*corpus.Images, error) {
		return corpus.NewImages(filepath.Join(l.Data, set), side, batch, limit, test)
	}
	source, err := images(28, l.pick(128, 8), l.pick(0, 64), l.pick(2560, 16))
	if err != nil {
		return err
	}
	m := models.Config{Kind: models.ViT, Side: 28, Patch: l.pick(2, 7), Classes: 10, Layers: l.pick(2, 1),
		Width: l.pick(64, 16), Heads: l.pick(4, 2), Hidden: l.pick(128, 16)}
	name := "vit " + set
	c := train.Config{Steps: l.pick(300, 2), Warmup: l.pick(30, 1), Rate: 2e-3, Floor: 0.05, Decay: 0.01, Clip: 1}
	tune := c
	tune.Steps, tune.Warmup, tune.Rate = l.pick(40, 2), l.pick(5, 1), 3e-4
	var base map[string][]float32
	for _, group := range encoderMethods(l.pick(32, 4)) {
		if l.late() {
			return ErrTime
		}
		m.Attention = group[0].attention
		s, err := l.open(m, c, source)
		if err != nil {
			return err
		}
		for _, how := range group {
			for seed := range l.seeds() {
				row := Row{Experiment: name, Part: "scratch", Seed: uint64(seed + 1)}
				if err := s.run(how, row, c, nil, nil); err != nil {
					return err
				}
				if base == nil {
					if base, err = s.t.Get(); err != nil {
						return err
					}
				}
			}
			for seed := range l.seeds() {
				row := Row{Experiment: name, Part: "fine-tuned", Seed: uint64(seed + 1)}
				if err := s.run(how, row, tune, base, nil); err != nil {
					return err
				}
			}
		}
		s.t.Close()
	}
	return l.speed(name, m, images)
}

// speed is training steps per second over the number of patches.
func (l *Lab) speed(name string, m models.Config,
	images func(side, batch, limit, test int) (*corpus.Images, error)) error {
	type size struct{ side, patch int }
	sizes := []size{{28, 1}, {56, 1}, {28, 2}}
	if l.Quick {
		sizes = sizes[:1]
	}
	all := encoderMethods(l.pick(32, 4))
	for _, z := range sizes {
		m.Side, m.Patch = z.side, z.patch
		source, err := images(z.side, l.pick(16, 2), 64, 16)
		if err != nil {
			return err
		}
		for _, how := range []method{all[0][0], all[1][0]} {
			if l.late() {
				return ErrTime
			}
			m.Attention = how.attention
			s, err := l.open(m, train.Config{Steps: 100, Rate: 1e-4}, source)
			row := Row{Experiment: name, Part: "speed", Method: how.name, Patches: z.side * z.side / z.patch / z.patch}
			if err != nil {
				row.Error = err.Error()
			} else {
				from, n := time.Now(), 0
				for n < l.pick(30, 2) && time.Since(from) < 3*time.Second {
					if _, err := s.t.Step(); err != nil {
						return err
					}
					n++
				}
				row.PerSecond = float64(n) / time.Since(from).Seconds()
				s.t.Close()
			}
			if err := l.write(row); err != nil {
				return err
			}
		}
	}
	return nil
}
