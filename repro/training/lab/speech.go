package lab

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

// Speech trains Conformers by CTC on spoken digits joined to sequences, with different attention: Chefs' Figure 3
// and HRF's Table 2 on a small scale. Clustered hybrids fit their centres (k-means) and A (eq 21) after a tenth of
// the steps and keep them.
func (l *Lab) Speech() error {
	recordings, err := corpus.Digits(l.Data)
	if err != nil {
		return err
	}
	v, err := text.Learn(text.Words, "zero one two three four five six seven eight nine", 0)
	if err != nil {
		return err
	}
	length, join := l.pick(256, 96, 64), l.pick(6, 2, 1)
	var parts [2][]corpus.Utterance
	for _, r := range recordings {
		u := corpus.Utterance{Name: r.Name, Frames: r.Frames, Letters: v.Line(r.Text)}
		for i := range u.Letters {
			u.Letters[i]++ // 0 is the blank
		}
		part := 0
		if r.Held {
			part = 1
		}
		if u.Frames.Rows*join <= length { // one recording of a speaker is longer than three seconds
			parts[part] = append(parts[part], u)
		}
	}
	source, err := corpus.NewSounds(parts[0], parts[1], l.pick(32, 8, 4), length, join, l.pick(0, 0, 1))
	if err != nil {
		return err
	}
	m := models.Config{Kind: models.Conformer, Frame: source.Width(), Length: length, Layers: l.pick(2, 1, 1),
		Width: l.pick(64, 32, 16), Heads: l.pick(4, 2, 2), Classes: v.Size() + 1, Pool: 4}
	c := train.Config{Steps: l.steps(1500, 600, 2), Rate: 3e-3, Floor: 0.05, Decay: 0.01, Clip: 1}
	c.Warmup = min(l.pick(100, 30, 1), c.Steps/2)
	at := map[int]bool{c.Steps / 4: true, c.Steps / 2: true}
	groups := []shared{{{name: "exact", attention: "exact"}}}
	for _, n := range []int{8, 16, 64} {
		groups = append(groups, shared{
			{name: fmt.Sprintf("favor++ %d", n), attention: fmt.Sprintf("oprf:orthogonal:%d", n), fit: true},
			{name: fmt.Sprintf("favor+ %d", n), attention: fmt.Sprintf(`{"name":"oprf"}:orthogonal:%d`, n)}})
	}
	groups = append(groups,
		shared{{name: "trig 64", attention: "trig:orthogonal:64"}},
		shared{{name: "hrf-a 8+8", attention: `{"name":"angular","n":8}:orthogonal:8`}},
		shared{{name: "hrf-a 16+8", attention: `{"name":"angular","n":8}:orthogonal:16`}},
		shared{{name: "hrf-c 2×2", attention: `{"name":"zero-one","count":2}:orthogonal:64`, fit: true,
			fitAfter: max(1, c.Steps/10)}},
		shared{{name: "hrf-c 3×3", attention: `{"name":"zero-one","count":3}:orthogonal:64`, fit: true,
			fitAfter: max(1, c.Steps/10)}})
	if l.Size == Quick {
		groups = []shared{groups[0], groups[1], groups[5], groups[8]}
	}
	var all []func() error
	for _, group := range groups {
		group = slices.DeleteFunc(group, func(m method) bool { return !l.wants(m) })
		if len(group) == 0 {
			continue
		}
		all = append(all, func() error {
			m := m
			m.Attention = group[0].attention
			s, err := l.open(m, c, source)
			if err != nil {
				return err
			}
			defer s.t.Close()
			for seed := range l.seeds() { // seed by seed, so that a run that is stopped has complete comparisons
				for _, how := range group {
					row := Row{Experiment: "speech", Part: "digits", Seed: l.seed(seed)}
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

// speech writes word error rates.
func (r results) speech(w io.Writer) {
	fmt.Fprint(w, "### Speech: word error rate of Conformers on joined digits\n\n")
	const part = "digits"
	steps := r.steps(part)
	wrong := func(row Row) float64 { return 1 - row.Accuracy }
	head := []string{"attention"}
	for _, s := range steps {
		head = append(head, fmt.Sprintf("%d steps", s))
	}
	header(w, append(head, "seeds", "diverged")...)
	at := func(m string, s int) sample {
		return r.of(wrong, func(row Row) bool { return row.Method == m && row.Step == s })
	}
	for _, m := range r.methods(part) {
		cells, seeds, failed := []string{m}, 0, 0
		for _, s := range steps {
			cells, seeds = append(cells, at(m, s).String()), max(seeds, len(at(m, s)))
		}
		for _, row := range r {
			if row.Method == m && row.Error != "" {
				failed++
			}
		}
		line(w, append(cells, fmt.Sprint(seeds), fmt.Sprint(failed))...)
	}
	fmt.Fprintln(w)
	if len(steps) == 0 {
		return
	}
	header(w, "the paper", "here", "difference of word error rates", "verdict")
	last := func(m string) sample { return at(m, steps[len(steps)-1]) }
	for _, c := range [][3]string{{"Chefs' Fig 3: FAVOR++ below FAVOR+", "favor+ 8", "favor++ 8"},
		{"Chefs' Fig 3: FAVOR++ below FAVOR+", "favor+ 16", "favor++ 16"},
		{"HRF Table 2: angular below FAVOR+", "favor+ 64", "hrf-a 8+8"}, {"HRF Table 2: angular below trig",
			"trig 64", "hrf-a 8+8"},
		{"HRF Table 2: clustered below angular", "hrf-a 8+8", "hrf-c 2×2"},
		{"HRF Table 2: more clusters are better", "hrf-c 2×2", "hrf-c 3×3"}} {
		claim(w, c[0], strings.Join(c[1:], " − "), last(c[1]).minus(last(c[2])))
	}
	fmt.Fprintln(w)
}
