package pretrained

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/gomlx/train"
)

// Fine-tuning lowers the loss on passages it does not see, changes the parameters of its regime only, and saves the
// trained parameters.
func TestFinetune(t *testing.T) {
	for _, c := range []struct {
		name   string
		goal   Goal
		regime train.Regime
		family string
		moves  func(name string) bool
	}{
		{"llama", Attend, train.Dark, "dark", func(n string) bool { return strings.HasPrefix(n, "dark.") }},
		{"bert", Embed, train.Attention, "dark", func(n string) bool {
			return strings.HasPrefix(n, "dark.") || strings.Contains(n, ".self.")
		}},
		{"gpt2", Next, train.Full, "dark", nil},
		{"llama", Next, train.Attention, "centroid", func(n string) bool {
			return strings.Contains(n, ".q_proj.") || strings.Contains(n, ".k_proj.") || strings.Contains(n, ".v_proj.")
		}},
	} {
		m, teacher := load(t, filepath.Join("testdata", c.name)), load(t, filepath.Join("testdata", c.name))
		var ids [][]int32
		for i := range int32(24) { // passages with a rule: every token is the one before plus a step
			var row []int32
			for j := range int32(8) {
				row = append(row, (i+j*(1+i%2))%11)
			}
			ids = append(ids, row)
		}
		convertAll(t, m, ids[:4], c.family, 0, 0)
		task := Tuning{Model: m, Goal: c.goal, Teacher: teacher, Regime: c.regime}
		source, err := NewPassages(ids, 4)
		if err != nil {
			t.Fatal(err)
		}
		config := train.Config{Steps: 40, Rate: 0.02, Clip: 1, Regime: c.regime, Seed: 1}
		tr, err := train.New(open(), task, config, source)
		if err != nil {
			t.Fatal(err)
		}
		before, err := tr.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := tr.Step(); err != nil {
				t.Fatal(err)
			}
		}
		after, err := tr.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		if !(after.Loss < 0.9*before.Loss) {
			t.Errorf("%s, goal %s: held-out loss %.4f, before %.4f", c.name, c.goal, after.Loss, before.Loss)
		}
		values, err := tr.Get()
		if err != nil {
			t.Fatal(err)
		}
		old := map[string][]float32{}
		for name, w := range m.weights {
			old[name] = w.data
		}
		if err := task.Trained(values); err != nil {
			t.Fatal(err)
		}
		for name, w := range m.weights {
			if c.moves == nil {
				continue
			}
			if same := slices.Equal(w.data, old[name]); same == c.moves(name) {
				t.Errorf("%s, regime %s: %s changed: %v", c.name, c.regime, name, !same)
			}
		}
		dir := filepath.Join(t.TempDir(), "tuned")
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		for name, w := range load(t, dir).weights {
			if !slices.Equal(w.data, m.weights[name].data) {
				t.Errorf("%s: %s is not what was trained", c.name, name)
			}
		}
		tr.Close()
	}
}

func TestBadTunings(t *testing.T) {
	bert, gpt2, llama := load(t, "testdata/bert"), load(t, "testdata/gpt2"), load(t, "testdata/llama")
	for _, c := range []struct {
		task Tuning
		says string
	}{
		{Tuning{Model: bert, Goal: Next}, "no next token"},
		{Tuning{Model: gpt2, Goal: Embed, Teacher: gpt2}, "is not an encoder"},
		{Tuning{Model: gpt2, Goal: Attend}, "without a teacher"},
		{Tuning{Model: gpt2, Goal: Attend, Teacher: llama}, "another architecture"},
		{Tuning{Model: gpt2, Goal: "fame"}, `goal "fame"`},
	} {
		if err := c.task.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error with %q, got %v", c.says, err)
		}
	}
	if _, err := NewPassages([][]int32{{1, 2}}, 1); err == nil {
		t.Error("one passage was both learned and held out")
	}
}
