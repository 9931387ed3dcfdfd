package lab

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
	"github.com/randfeat/randfeat/sampling"
)

// Words trains LSTMs on a text (ptb, wikitext2), as Hybrid random features does in §4.2 and appendix I. It has two
// parts:
//
//   - train: 2 layers with a softmax over all words. It writes keys (the table), queries (outputs at held-out
//     places) and counts to a folder, where the reproduction of the papers finds them (items hybrid-table4-lstm and
//     others). WikiText-2 has rows of norm near 1 and logits times 6 (eq 105).
//   - curves: the held-out loss during training with 40 negatives per place, by sampler (Fig 10).
func (l *Lab) Words(set, dir string) error {
	learn, held, err := corpus.Texts(l.Data, set)
	if err != nil {
		return err
	}
	v, err := text.Learn(text.Words, learn, l.pick(10000, 10000, 150))
	if err != nil {
		return err
	}
	w := &words{Lab: l, set: set, dir: dir, vocab: v.Size(), tokens: v.Encode(learn), held: v.Encode(held)}
	w.model = models.Config{Kind: models.LSTM, Vocab: w.vocab, Length: l.pick(20, 20, 4), Layers: 2,
		Width: l.pick(200, 200, 12), Heads: 1}
	if set == "wikitext2" {
		w.model.Gain, w.model.Unit = 6, 2
	}
	w.counts = make([]float64, w.vocab)
	for _, t := range w.tokens {
		w.counts[t]++
	}
	if l.part("train") {
		if err := w.train(); err != nil {
			return err
		}
	}
	if l.part("curves") {
		return w.curves()
	}
	return nil
}

// words is the state of one call of Words.
type words struct {
	*Lab
	set, dir     string
	vocab        int
	tokens, held []int32
	counts       []float64
	model        models.Config
}

func (w *words) train() error {
	batch := w.pick(64, 20, 2)
	s, err := corpus.NewStream(w.tokens, w.held, batch, w.model.Length, w.pick(40, 10, 2))
	if err != nil {
		return err
	}
	c := train.Config{Steps: w.pick(4000, 300, 4), Warmup: w.pick(50, 20, 1), Rate: 3e-3, Floor: 0.05, Clip: 1, Seed: 1}
	if w.Steps > 0 {
		c.Steps = w.Steps
	}
	t, err := train.New(w.Backend, w.model, c, s)
	if err != nil {
		return err
	}
	defer t.Close()
	every := max(1, c.Steps/8)
	from := time.Now()
	for t.Done() < c.Steps {
		if _, err := t.Step(); err != nil {
			return err
		}
		if n := t.Done(); n%every == 0 || n == c.Steps || w.late() {
			e, err := t.Evaluate()
			if err != nil {
				return err
			}
			row := Row{Experiment: "words", Part: "train " + w.set, Method: "softmax", Seed: 1, Step: n, Loss: e.Loss,
				Accuracy: e.Accuracy, PerSecond: float64(n) / time.Since(from).Seconds()}
			if err := w.write(row); err != nil {
				return err
			}
			if w.late() {
				break
			}
		}
	}
	return w.save(t, s)
}

// save writes keys, queries and counts.
func (w *words) save(t *train.Trainer, s *corpus.Stream) error {
	if w.dir == "" {
		return nil
	}
	var queries dense.Matrix[float32]
	var table dense.Matrix[float32]
	for i := range s.Held() {
		v, err := t.View(s.HeldOut(i)[0])
		if err != nil {
			return err
		}
		table = v.Table
		queries.Data = append(queries.Data, v.Queries.Data...)
		queries.Rows, queries.Cols, queries.Stride = queries.Rows+v.Queries.Rows, v.Queries.Cols, v.Queries.Cols
		if queries.Rows >= 2000 {
			break
		}
	}
	if err := os.MkdirAll(w.dir, 0o777); err != nil {
		return err
	}
	counts := dense.Matrix[float32]{Rows: w.vocab, Cols: 1, Stride: 1}
	for _, c := range w.counts {
		counts.Data = append(counts.Data, float32(c))
	}
	for name, m := range map[string]dense.Matrix[float32]{"keys": table, "queries": queries, "counts": counts} {
		if err := npy.WriteFile(filepath.Join(w.dir, w.set+"-"+name+".npy"), m); err != nil {
			return err
		}
	}
	w.says("%s: %d keys and %d queries of width %d in %s", w.set, table.Rows, queries.Rows, table.Cols, w.dir)
	return nil
}

// curves trains with sampled negatives. All samplers share one compiled step.
func (w *words) curves() error {
	batch, samples, held := w.pick(20, 20, 2), w.pick(40, 40, 3), w.pick(20, 5, 1)
	features := w.pick(256, 256, 16)
	type sampler struct {
		name   string
		source func() (train.Source, error)
	}
	fixed := func(name string, power float64) sampler {
		return sampler{name, func() (train.Source, error) {
			return corpus.NewNegatives(w.tokens, w.held, batch, w.model.Length, held, samples,
				sampling.Unigram(w.counts, power))
		}}
	}
	drawn := func(name string, f family.Family, exact bool) sampler {
		return sampler{name, func() (train.Source, error) {
			k := kernel.Kernel{Kind: kernel.Softmax}
			if w.model.Gain > 0 {
				k.Scale = 1 / math.Sqrt(w.model.Gain)
			}
			spec, err := randfeat.Spec{Kernel: k, Family: f, Coupling: coupling.Orthogonal{},
				Dim: w.model.Width, Seed: 1}.WithFeatures(features)
			if err != nil && !errors.Is(err, randfeat.ErrFeatures) {
				return nil, err
			}
			return corpus.NewDrawn(w.tokens, w.held, batch, w.model.Length, held, samples, w.vocab,
				corpus.Law{Spec: spec, Exact: exact})
		}}
	}
	all := []sampler{fixed("uniform", 0), fixed("unigram^¾", 0.75), drawn("FAVOR+", family.Positive{}, false),
		drawn("trig", family.Trig{}, false), drawn("angular", family.Angular{N: 8}, false),
		drawn("sampled softmax", family.Positive{}, true)}
	steps := w.pick(300, 60, 4)
	if w.Steps > 0 {
		steps = w.Steps
	}
	c := train.Config{Steps: steps, Warmup: w.pick(20, 10, 1), Rate: 3e-3, Floor: 0.1, Clip: 1}
	var t *train.Trainer
	for seed := range w.seeds() {
		for _, how := range all {
			if !w.wants(method{name: how.name}) {
				continue
			}
			if w.late() {
				return ErrTime
			}
			s, err := how.source()
			if err != nil {
				return err
			}
			if t == nil {
				if t, err = train.New(w.Backend, w.model, c, s); err != nil {
					return err
				}
				defer t.Close()
			}
			t.Source = s
			if err := w.curve(t, how.name, w.seed(seed)); err != nil {
				return fmt.Errorf("%s: %w", how.name, err)
			}
		}
	}
	return nil
}

func (w *words) curve(t *train.Trainer, name string, seed uint64) error {
	if err := t.Reset(seed); err != nil {
		return err
	}
	var spent time.Duration
	for t.Done() < t.Config.Steps {
		from := time.Now()
		if _, err := t.Step(); err != nil {
			return err
		}
		spent += time.Since(from)
		if n := t.Done(); n%max(1, t.Config.Steps/6) == 0 {
			e, err := t.Evaluate()
			if err != nil {
				return err
			}
			if err := w.write(Row{Experiment: "words", Part: "curves " + w.set, Method: name, Seed: seed, Step: n,
				Loss: e.Loss, Accuracy: e.Accuracy, PerSecond: float64(n) / spent.Seconds()}); err != nil {
				return err
			}
		}
	}
	return nil
}
