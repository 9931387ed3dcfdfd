package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
)

// shared are methods that share a graph. The first one builds it.
type shared []method

// encoderMethods returns the methods of Chefs' Figure 4 and Table 2, of SimRF's Figure 9, and ours.
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

// ViT trains vision Transformers on a set of images from scratch, and fine-tunes the exact model of the first seed
// with other attention. Seeds run one after the other, or concurrently with Parallel, so that a run that is stopped
// has complete comparisons. Exact attention is trained with all seeds only if Only asks for it.
func (l *Lab) ViT(set string) error {
	source, err := corpus.NewImages(filepath.Join(l.Data, set), 28, l.pick(128, 16, 8), l.pick(0, 0, 64),
		l.pick(0, 1000, 16))
	if err != nil {
		return err
	}
	clothes := set == "fashion_mnist"
	source.Shift, source.Flip = 2, clothes // mirrored clothes are still clothes, mirrored digits are not digits
	steps := 5000
	if clothes { // a harder set: more augmentation and twice the steps
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
	v := &vit{Lab: l, name: "vit " + set, model: m, source: source, scratch: c, tune: c, base: newPromise()}
	v.tune.Steps, v.tune.Warmup, v.tune.Rate = l.pick(150, 50, 2), l.pick(10, 5, 1), 3e-4
	groups := l.encoderMethods(l.pick(32, 16, 4))
	all := []func() error{func() error { return v.exact(groups[0]) }}
	for i := range l.seeds() {
		all = append(all, func() error { return v.features(groups[1:], l.seed(i)) })
	}
	return l.together(all...)
}

// vit is the state of one call of ViT.
type vit struct {
	*Lab
	name          string
	model         models.Config
	source        train.Source
	scratch, tune train.Config
	base          *promise
}

// exact trains with exact attention, for the first seed or for all.
func (v *vit) exact(group shared) error {
	defer v.base.give(nil) // if it fails, those who wait get an error
	seeds := 1
	if v.wants(group[0]) {
		seeds = v.seeds()
	}
	return v.group(group, func(s *session, how method) error {
		for i := range seeds {
			if err := v.scratchAndTune(s, how, v.seed(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// features trains every other method with one seed.
func (v *vit) features(groups []shared, seed uint64) error {
	for _, g := range groups {
		if err := v.group(g, func(s *session, how method) error { return v.scratchAndTune(s, how, seed) }); err != nil {
			return err
		}
	}
	return nil
}

// group compiles the graph that methods share and trains each of them.
func (v *vit) group(g shared, one func(*session, method) error) error {
	m := v.model
	m.Attention = g[0].attention
	s, err := v.open(m, v.scratch, v.source)
	if err != nil {
		return err
	}
	defer s.t.Close()
	for _, how := range g {
		if err := one(s, how); err != nil {
			return err
		}
	}
	return nil
}

// scratchAndTune trains a method from scratch, then from the parameters of exact attention.
func (v *vit) scratchAndTune(s *session, how method, seed uint64) error {
	row := Row{Experiment: v.name, Part: "scratch", Seed: seed}
	if err := s.run(how, row, v.scratch, nil, nil); err != nil {
		return err
	}
	if how.attention == "exact" && seed == v.seed(0) {
		p, err := s.t.Get()
		if err != nil {
			return err
		}
		v.base.give(p)
	}
	from, err := v.base.wait()
	if err != nil || !v.wants(how) {
		return err
	}
	row.Part = "fine-tuned"
	return s.run(how, row, v.tune, from, nil)
}

// Speed measures the training steps per second of vision Transformers by the number of patches.
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
		for _, group := range l.encoderMethods(l.pick(32, 32, 4)) { // all methods of a group take the same time
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

// race takes steps of all methods in turn, so that other load on the machine hits all of them, and writes the
// medians.
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
