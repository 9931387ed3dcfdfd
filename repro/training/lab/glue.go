package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

// GLUE pretrains an encoder with exact attention on masked words of the Penn Treebank and of the training sentences.
// It then fine-tunes it on small GLUE sets with other attention: Chefs' Table 2 on a small scale.
func (l *Lab) GLUE() error {
	sets := []string{"SST2", "CoLA", "MRPC", "RTE"}
	if l.Size == Quick {
		sets = sets[:1]
	}
	if l.Sets != nil {
		sets = l.Sets
	}
	learn, held, err := corpus.Texts(l.Data, "ptb")
	if err != nil {
		return err
	}
	if l.Size == Quick {
		learn, held = learn[:20000], held[:5000]
	}
	type task struct{ train, held []corpus.Sentence }
	tasks := map[string]task{}
	var all strings.Builder
	all.WriteString(learn)
	for _, name := range sets {
		a, b, err := corpus.Sentences(l.Data, name)
		if err != nil {
			return err
		}
		if l.Size == Quick {
			a, b = a[:40], b[:20]
		}
		tasks[name] = task{a, b}
		for _, s := range a {
			all.WriteString(strings.ToLower(s.Text) + "\n")
		}
	}
	v, err := text.Learn(text.Words, all.String(), l.pick(10000, 1500, 500))
	if err != nil {
		return err
	}
	mask := int32(v.Size())
	m := models.Config{Kind: models.Masked, Vocab: v.Size() + 1, Length: l.pick(64, 32, 16), Layers: l.pick(4, 1, 1),
		Width: l.pick(128, 64, 16), Heads: l.pick(4, 4, 2)}
	masked, err := corpus.NewMasked(v.Encode(all.String()), v.Encode(held), l.pick(64, 16, 4), m.Length,
		l.pick(10, 10, 1), mask, int32(m.Vocab))
	if err != nil {
		return err
	}
	c := train.Config{Steps: l.pick(3000, 200, 3), Warmup: l.pick(100, 20, 1), Rate: 1e-3, Floor: 0.05,
		Decay: 0.01, Clip: 1, Seed: 1}
	m.Attention = "exact"
	s, err := l.open(m, c, masked)
	if err != nil {
		return err
	}
	softmax := method{name: "exact", attention: "exact"}
	if err := s.run(softmax, Row{Experiment: "glue", Part: "pretraining", Seed: 1}, c, nil, nil); err != nil {
		return err
	}
	base, err := s.t.Get()
	if err != nil {
		return err
	}
	s.t.Close()
	m.Kind, m.Classes = models.Classifier, 2
	sources := map[string]train.Source{}
	for _, name := range sets {
		items := func(in []corpus.Sentence) (out []corpus.Item) {
			for _, s := range in {
				out = append(out, corpus.Item{Tokens: v.Encode(strings.ToLower(s.Text)), Label: s.Label})
			}
			return out
		}
		sources[name], err = corpus.NewLabelled(items(tasks[name].train), items(tasks[name].held), l.pick(32, 16, 4),
			m.Length, 2)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	groups := l.encoderMethods(l.pick(32, 16, 4))
	if l.Size == Quick {
		groups = groups[:2]
	}
	for _, group := range groups {
		if !slices.ContainsFunc(group, l.wants) {
			continue
		}
		if l.late() {
			return ErrTime
		}
		m.Attention = group[0].attention
		s, err := l.open(m, train.Config{Steps: 1}, sources[sets[0]]) // all sets have batches of one shape
		if err != nil {
			return err
		}
		for _, name := range sets {
			s.t.Source = sources[name]
			steps := l.pick(3*len(tasks[name].train)/32, 120, 2)
			tune := train.Config{Steps: steps, Warmup: max(1, steps/10), Rate: 3e-4, Floor: 0.05, Decay: 0.01, Clip: 1}
			for _, how := range group {
				for seed := range l.seeds() {
					row := Row{Experiment: "glue", Part: name, Seed: l.seed(seed)}
					if err := s.run(how, row, tune, base, nil); err != nil {
						return err
					}
				}
			}
		}
		s.t.Close()
	}
	return nil
}
