package lab

import (
	"fmt"
	"io"
	"slices"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/models"
)

// Pretrain is the pretraining arm of DARKFormer's Figure 2: character decoders trained from scratch with exact,
// DARK, Performer, learned, constant and random attention, at equal steps. Rows are written along the way, so that a
// run that is stopped has results.
func (l *Lab) Pretrain() error {
	m, source, err := l.characters()
	if err != nil {
		return err
	}
	c := train.Config{Steps: l.steps(1500, 400, 4), Rate: 2e-3, Floor: 0.05, Decay: 0.01, Clip: 1}
	c.Warmup = min(l.pick(100, 50, 1), c.Steps/4)
	at := map[int]bool{c.Steps / 8: true, c.Steps / 4: true, c.Steps / 2: true}
	plain := fmt.Sprintf(`{"name":"oprf"}:orthogonal:%d`, l.pick(32, 16, 8)) // A = 0: positive features
	features := m
	features.Attention, features.Dark, features.Learned = fmt.Sprintf("oprf:orthogonal:%d", l.pick(32, 16, 8)), true,
		true
	exact, random := m, m
	exact.Attention, random.Attention = "exact", "random"
	still := func(g ...train.Group) []train.Group { return g }
	type graph struct {
		m       models.Config
		methods []method
	}
	var all []func() error
	for _, g := range []graph{
		{features, []method{{name: "performer", attention: plain, still: still(train.Kernel, train.Features)},
			{name: "dark", attention: plain, still: still(train.Features)},
			{name: "lfk", attention: plain, still: still(train.Kernel)},
			{name: "constant", attention: plain, still: still(train.Kernel, train.Features), constant: true}}},
		{exact, []method{{name: "exact", attention: "exact"}}},
		{random, []method{{name: "random", attention: "random"}}},
	} {
		g.methods = slices.DeleteFunc(g.methods, func(m method) bool { return !l.wants(m) })
		if len(g.methods) == 0 {
			continue
		}
		all = append(all, func() error {
			s, err := l.open(g.m, c, source)
			if err != nil {
				return err
			}
			defer s.t.Close()
			for seed := range l.seeds() { // seed by seed, so that a run that is stopped has complete comparisons
				for _, how := range g.methods {
					row := Row{Experiment: "pretrain", Part: "pretraining", Seed: l.seed(seed)}
					if err := s.run(how, row, c, nil, at); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return l.together(all...)
}

func (r results) pretrain(w io.Writer) {
	fmt.Fprint(w, "### DARKFormer, Figure 2: decoders trained from nothing\n\n")
	const part = "pretraining"
	steps := r.steps(part)
	head := []string{"attention"}
	for _, s := range steps {
		head = append(head, fmt.Sprintf("%d steps", s))
	}
	header(w, append(head, "last loss")...)
	at := func(m string, s int) func(Row) bool {
		return func(row Row) bool { return row.Method == m && row.Step == s }
	}
	for _, m := range r.methods(part) {
		cells := []string{m}
		var last sample
		for _, s := range steps {
			cells, last = append(cells, r.of(accuracy, at(m, s)).String()), r.of(loss, at(m, s))
		}
		line(w, append(cells, last.String())...)
	}
	fmt.Fprintln(w)
	header(w, "the paper", "here", "difference of accuracies", "verdict")
	if len(steps) == 0 {
		return
	}
	last := func(m string) sample { return r.of(accuracy, at(m, steps[len(steps)-1])) }
	for _, c := range [][2]string{{"exact", "dark"}, {"dark", "performer"}, {"dark", "lfk"}, {"dark", "constant"},
		{"dark", "random"}} {
		claim(w, "Fig 2: "+c[0]+" above "+c[1], c[0]+" − "+c[1]+", last", last(c[0]).minus(last(c[1])))
	}
	fmt.Fprintln(w)
}
