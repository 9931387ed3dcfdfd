package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/randfeat/randfeat/gomlx/corpus"
	"github.com/randfeat/randfeat/gomlx/models"
	"github.com/randfeat/randfeat/gomlx/train"
)

// shared are the methods that share a graph, the first of which builds it.
type shared []method

// encoderMethods are those of Chefs' Figure 4 and Table 2 and of SimRF's Figure 9, with ours.
func (l *Lab) encoderMethods(m int) []shared {
	f := func(name, family, coupling string, fit bool) method {
		return method{name: name, attention: fmt.Sprintf("%s:%s:%d", family, coupling, m), fit: fit}
	}
	all := []shared{
		{{name: "softmax", attention: "exact"}},
		{f("favor++", "oprf", "orthogonal", true), f("simplex", "oprf", "simplex", true),
			f("favor+", `{"name":"oprf"}`, "orthogonal", false)},
		{f("adaptive", "adaptive", "orthogonal", true)},
		{f("relu", "relu", "orthogonal", false)},
		{f("elu", "elu", "iid", false)},
	}
	for i := range all {
		all[i] = slices.DeleteFunc(all[i], func(m method) bool { return !l.wants(m) && m.attention != "exact" })
	}
	return slices.DeleteFunc(all, func(s shared) bool { return len(s) == 0 })
}

// ViT trains vision Transformers on a set of images from nothing and from one trained with exact attention. Seeds come
// one after the other, and a seed's own exact model begins its fine-tunings: a run that is stopped has whole comparisons.
func (l *Lab) ViT(set string) error {
	source, err := corpus.NewImages(filepath.Join(l.Data, set), 28, l.pick(128, 16, 8), l.pick(0, 0, 64),
		l.pick(0, 1000, 16))
	if err != nil {
		return err
	}
	clothes := set == "fashion_mnist"
	source.Shift, source.Flip = 2, clothes // clothes have no left and right, digits do
	steps := 5000
	if clothes { // a third of the images, and harder ones
		source.Erase, steps = l.pick(8, 0, 0), 10000
	}
	m := models.Config{Kind: models.ViT, Side: 28, Patch: l.pick(4, 4, 7), Classes: 10, Layers: l.pick(4, 1, 1),
		Width: l.pick(96, 32, 16), Heads: l.pick(4, 2, 2), Hidden: l.pick(192, 64, 16)}
	c := train.Config{Steps: l.steps(steps, 250, 2), Warmup: l.pick(200, 25, 1), Rate: 2e-3, Floor: 0.05, Decay: 0.01,
		Clip: 1}
	if l.Size == Full {
		c.Rate, c.Floor, c.Decay = 1e-3, 0.02, 0.05
	}
	c.Warmup = min(c.Warmup, c.Steps/2)
	v := vit{Lab: l, name: "vit " + set, scratch: c, tune: c}
	v.tune.Steps, v.tune.Warmup, v.tune.Rate = l.pick(150, 50, 2), l.pick(10, 5, 1), 3e-4
	groups := l.encoderMethods(l.pick(32, 16, 4))
	sessions := make([]*session, len(groups))
	defer func() {
		for _, s := range sessions {
			if s != nil {
				s.t.Close()
			}
		}
	}()
	var compile []func() error
	for i, group := range groups {
		m := m
		m.Attention = group[0].attention
		compile = append(compile, func() (err error) {
			sessions[i], err = l.open(m, c, source)
			return err
		})
	}
	if err := l.together(compile...); err != nil {
		return err
	}
	for i := range l.seeds() {
		var base map[string][]float32
		for g, group := range groups {
			for _, how := range group {
				if base, err = v.scratchAndTune(sessions[g], how, l.seed(i), base); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type vit struct {
	*Lab
	name          string
	scratch, tune train.Config
}

// scratchAndTune trains a method from nothing, then from the parameters of exact attention, which it returns.
func (v vit) scratchAndTune(s *session, how method, seed uint64, base map[string][]float32) (map[string][]float32,
	error) {
	row := Row{Experiment: v.name, Part: "scratch", Seed: seed}
	err := s.run(how, row, v.scratch, nil, nil)
	if err == nil && base == nil { // exact attention comes first
		base, err = s.t.Get()
	}
	if err != nil || !v.wants(how) {
		return base, err
	}
	row.Part = "fine-tuned"
	return base, s.run(how, row, v.tune, base, nil)
}

// Speed is training steps per second of a vision Transformer over the number of patches.
func (l *Lab) Speed(set string) error {
	type size struct{ side, patch int }
	sizes := [...][]size{
		{{28, 2}, {28, 1}, {48, 1}, {64, 1}}, {{28, 4}, {28, 2}, {28, 1}, {40, 1}}, {{28, 7}},
	}[l.Size]
	for _, z := range sizes {
		if l.late() {
			return ErrTime
		}
		source, err := corpus.NewImages(filepath.Join(l.Data, set), z.side, l.pick(16, 2, 2), 64, 16)
		if err != nil {
			return err
		}
		var methods []*timed
		var compile []func() error
		for _, group := range l.encoderMethods(l.pick(32, 32, 4)) { // the others of a group take as long
			how := group[0]
			if how.name == "adaptive" || how.name == "elu" {
				continue
			}
			m := models.Config{Kind: models.ViT, Side: z.side, Patch: z.patch, Classes: 10, Layers: l.pick(2, 1, 1),
				Width: 64, Heads: 4, Hidden: 128, Attention: how.attention}
			x := &timed{row: Row{Experiment: "vit " + set, Part: "speed", Method: how.name,
				Patches: z.side * z.side / z.patch / z.patch}}
			methods = append(methods, x)
			compile = append(compile, func() error {
				x.s, x.failed = l.open(m, train.Config{Steps: 1000, Rate: 1e-4}, source)
				return nil
			})
		}
		if err := l.together(compile...); err != nil {
			return err
		}
		err = l.race(methods)
		for _, x := range methods {
			if x.failed == nil {
				x.s.t.Close()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timed is one method of Speed.
type timed struct {
	row    Row
	s      *session
	failed error
	took   []float64 // seconds per step
}

// race takes steps of all methods in turn, so that what else a machine does meets all of them, and writes the medians.
func (l *Lab) race(methods []*timed) error {
	from := time.Now()
	for n := 0; n < l.pick(50, 9, 2) && (n < 3 || time.Since(from) < 20*time.Second); n++ {
		for _, x := range methods {
			if x.failed != nil {
				continue
			}
			began := time.Now()
			if _, x.failed = x.s.t.Step(); x.failed != nil {
				x.s.t.Close()
				continue
			}
			x.took = append(x.took, time.Since(began).Seconds())
		}
	}
	for _, x := range methods {
		if x.failed != nil {
			x.row.Error = x.failed.Error()
		} else {
			slices.Sort(x.took)
			x.row.PerSecond = 1 / x.took[len(x.took)/2]
		}
		if err := l.write(x.row); err != nil {
			return err
		}
	}
	return nil
}
