package lab

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/pretrained"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/corpus"
)

// glueTask is a GLUE set in the tokens of an encoder. Labels are binary, so every score is a function of the
// accuracies on the two classes. Therefore the held-out texts of each class have a source of their own.
type glueTask struct {
	name      string
	all       train.Source
	class     [2]train.Source
	positive  float64 // held-out texts of class 1
	negative  float64
	trainSize int
}

// Encoder fine-tunes a pretrained encoder, the folder dir, on GLUE sets with different attention: Chefs' Table 2
// ("uptrain FAVOR++") with MiniLM instead of BERT. Every method starts from the published weights. Features are
// fitted to the heads on training texts before fine-tuning.
func (l *Lab) Encoder(dir string) error {
	base, err := pretrained.Load(dir)
	if err != nil {
		return err
	}
	length, batch := l.pick(64, 48, 16), l.pick(32, 16, 4)
	sets := []string{"SST2", "CoLA", "MRPC", "RTE"}
	if l.Sets != nil {
		sets = l.Sets
	}
	var tasks []glueTask
	var fit [][]int32
	for _, name := range sets {
		t, passages, err := l.glueTask(base, name, length, batch)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tasks, fit = append(tasks, t), append(fit, passages...)
	}
	m := l.pick(64, 32, 8)
	features := func(f family.Family, c coupling.Coupling) *pretrained.Plan {
		return &pretrained.Plan{Spec: randfeat.Spec{Family: f, Coupling: c, M: m, Seed: 1}}
	}
	methods := []struct {
		name string
		plan *pretrained.Plan // nil: exact attention
	}{
		{"exact", nil},
		{"favor+", features(family.Positive{}, coupling.Orthogonal{})},
		{"favor++", features(family.OPRF{}, coupling.Orthogonal{})},
		{"simplex", features(family.OPRF{}, coupling.Simplex{})},
		{"relu", features(family.ReLU{}, coupling.Orthogonal{})},
		{"elu", features(family.ELU{}, coupling.IID{})},
		{"centroids", &pretrained.Plan{Centroids: &rfx.Clusters{Clusters: l.pick(32, 16, 4), Seed: 1}}},
	}
	var all []func() error
	for _, how := range methods {
		if l.Only != nil && !slices.Contains(l.Only, how.name) {
			continue
		}
		all = append(all, func() error {
			copied := *base
			if how.plan != nil {
				a, err := base.Calibrate(l.Backend, *how.plan, fit)
				if err != nil {
					return fmt.Errorf("%s: %w", how.name, err)
				}
				if err := copied.SetAttention(a); err != nil {
					return fmt.Errorf("%s: %w", how.name, err)
				}
			}
			return l.fineTune(pretrained.Classifying{Model: &copied, Classes: 2}, how.name, tasks, batch)
		})
	}
	return l.together(all...)
}

// glueTask reads a set. It also returns passages of its training texts to which features are fitted.
func (l *Lab) glueTask(m *pretrained.Model, name string, length, batch int) (t glueTask, fit [][]int32, err error) {
	learn, held, err := corpus.Sentences(l.Data, name)
	if err != nil {
		return t, nil, err
	}
	if l.Size == Quick {
		learn, held = learn[:40], held[:40]
	}
	var items [2][]corpus.Item
	for i, part := range [2][]corpus.Sentence{learn, held} {
		texts := make([][]string, len(part))
		for j, s := range part {
			texts[j] = strings.Split(s.Text, " | ")
		}
		ids, err := m.Texts(texts, length)
		if err != nil {
			return t, nil, err
		}
		for j, s := range part {
			items[i] = append(items[i], corpus.Item{Tokens: ids[j], Label: s.Label})
		}
	}
	t = glueTask{name: name, trainSize: len(items[0])}
	if t.all, err = corpus.NewLabelled(items[0], items[1], batch, length, 2); err != nil {
		return t, nil, err
	}
	for c := range t.class {
		of := slices.DeleteFunc(slices.Clone(items[1]), func(x corpus.Item) bool { return x.Label != int32(c) })
		if t.class[c], err = corpus.NewLabelled(items[0], of, batch, length, 2); err != nil {
			return t, nil, err
		}
		if c == 1 {
			t.positive, t.negative = float64(len(of)), float64(len(items[1])-len(of))
		}
	}
	var joined strings.Builder
	for _, s := range learn[:min(len(learn), 400)] {
		joined.WriteString(s.Text + "\n")
	}
	fit, err = m.Tokens(joined.String(), length)
	return t, fit[:min(len(fit), 8)], err
}

// fineTune trains one compiled model on every set with every seed.
func (l *Lab) fineTune(model pretrained.Classifying, name string, tasks []glueTask, batch int) error {
	from := time.Now()
	t, err := train.New(l.Backend, model, train.Config{Steps: 1, OneGraph: true}, tasks[0].all)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer t.Close()
	l.says("%s: compiled in %.1f s", name, time.Since(from).Seconds())
	for seed := range l.seeds() { // seed by seed, so that a run that is stopped has complete comparisons
		for _, task := range tasks {
			if l.late() {
				return ErrTime
			}
			from := time.Now()
			steps := max(2, l.steps(3*task.trainSize/batch, task.trainSize/batch, 2))
			c := train.Config{Steps: steps, Warmup: max(1, steps/10), Rate: 1e-4, Floor: 0.05, Decay: 0.01, Clip: 1,
				Beta1: 0.9, Beta2: 0.99, Accumulate: 1, Regime: train.Full, OneGraph: true, Seed: l.seed(seed)}
			t.Config, t.Source = c, task.all
			if err := t.Reset(c.Seed); err != nil {
				return err
			}
			row := Row{Experiment: "glue encoder", Part: task.name, Method: name, Seed: c.Seed, Rate: c.Rate}
			for range c.Steps {
				if _, err = t.Step(); err != nil {
					break
				}
			}
			row.Step = t.Done()
			if errors.Is(err, train.ErrDiverged) {
				row.Error = err.Error()
			} else if err != nil {
				return err
			} else if row.Loss, row.Accuracy, err = task.score(t); err != nil {
				return err
			}
			if err := l.write(row); err != nil {
				return err
			}
			l.says("%s %s seed %d: %.4f, %.1f s", task.name, name, c.Seed, row.Accuracy, time.Since(from).Seconds())
		}
	}
	return nil
}

// score returns the loss on held-out texts and GLUE's score of the set: F1 for MRPC, Matthews' correlation for CoLA,
// otherwise the accuracy.
func (t glueTask) score(r *train.Trainer) (loss, score float64, err error) {
	var right [2]train.Result
	for c, source := range t.class {
		r.Source = source
		if right[c], err = r.Evaluate(); err != nil {
			return 0, 0, err
		}
	}
	r.Source = t.all
	tp, tn := right[1].Accuracy*t.positive, right[0].Accuracy*t.negative
	fp, fn := t.negative-tn, t.positive-tp
	loss = (right[1].Loss*t.positive + right[0].Loss*t.negative) / (t.positive + t.negative)
	return loss, glueScore(t.name, tp, fp, tn, fn), nil
}

// glueScore computes the score from true and false positives and negatives.
func glueScore(set string, tp, fp, tn, fn float64) float64 {
	switch set {
	case "MRPC":
		return 2 * tp / max(1, 2*tp+fp+fn)
	case "CoLA":
		if d := (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn); d > 0 {
			return (tp*tn - fp*fn) / math.Sqrt(d)
		}
		return 0
	}
	return (tp + tn) / (tp + fp + tn + fn)
}

// encoder writes the table of a fine-tuned encoder.
func (r results) encoder(w io.Writer) {
	fmt.Fprint(w, "### Chefs' Table 2 with a pretrained encoder: held-out scores (CoLA: Matthews' correlation, MRPC: F1)\n\n")
	var sets, methods []string
	for _, row := range r {
		if !slices.Contains(sets, row.Part) {
			sets = append(sets, row.Part)
		}
		if !slices.Contains(methods, row.Method) {
			methods = append(methods, row.Method)
		}
	}
	of := func(m, set string) sample {
		return r.of(accuracy, func(row Row) bool { return row.Method == m && row.Part == set })
	}
	header(w, append([]string{"attention"}, append(slices.Clone(sets), "seeds")...)...)
	for _, m := range methods {
		cells, seeds := []string{m}, 0
		for _, set := range sets {
			s := of(m, set)
			cells, seeds = append(cells, s.String()), max(seeds, len(s))
		}
		line(w, append(cells, fmt.Sprint(seeds))...)
	}
	fmt.Fprintln(w)
	header(w, "the paper", "set", "difference", "verdict")
	for _, c := range [][3]string{{"Table 2: FAVOR++ above FAVOR+", "favor++", "favor+"},
		{"Table 2: FAVOR++ above ReLU", "favor++", "relu"}, {"Table 2: FAVOR++ above ELU", "favor++", "elu"}} {
		for _, set := range sets {
			claim(w, c[0], set+", "+c[1]+" − "+c[2], of(c[1], set).minus(of(c[2], set)))
		}
	}
	fmt.Fprintln(w)
}
