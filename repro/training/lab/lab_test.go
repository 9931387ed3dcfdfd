package lab_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/repro/training/lab"
)

// Every experiment runs to the end on the Go backend in tiny sizes, and its tables have every method and claim.
func TestQuick(t *testing.T) {
	data := os.Getenv("RANDFEAT_DATA")
	if data == "" {
		t.Skip("no data sets: RANDFEAT_DATA")
	}
	b, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	for name, want := range map[string]struct {
		run   func(*lab.Lab) error
		set   string
		words []string
	}{
		"darkformer": {(*lab.Lab).DarkFormer, "ptb", []string{"performer", "dark", "exact", "oprf-simplex", "adaptive",
			"lfk", "constant", "random", "fine-tuning, partial", "fine-tuning, M only", "Figure 5"}},
		"vit": {func(l *lab.Lab) error { return errors.Join(l.ViT("mnist"), l.Speed("mnist")) }, "mnist",
			[]string{"softmax", "favor++", "relu", "elu", "steps per second"}},
		"pretrain": {(*lab.Lab).Pretrain, "ptb", []string{"performer", "dark", "exact", "lfk", "constant", "random",
			"trained from nothing"}},
		"speech": {(*lab.Lab).Speech, "fsdd", []string{"exact", "favor++ 8", "favor+ 8", "hrf-a 8+8", "hrf-c 2×2"}},
		"words": {func(l *lab.Lab) error { return l.Words("ptb", filepath.Join(t.TempDir(), "lstm")) }, "ptb",
			[]string{"uniform", "unigram^¾", "FAVOR+", "trig", "angular", "sampled softmax", "(tie)", "perplexity"}},
		"glue": {(*lab.Lab).GLUE, "glue", []string{"SST2", "softmax", "masked words"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(data, want.set)); err != nil {
				t.Skip(err)
			}
			var rows, out bytes.Buffer
			l := &lab.Lab{Backend: b, Data: data, Size: lab.Quick, Out: &rows, Parallel: true}
			if err := want.run(l); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(rows.String()) {
				var r lab.Row
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.Error != "" || math.IsNaN(r.Loss) || r.Part != "speed" && r.Loss <= 0 {
					t.Errorf("row %s", line)
				}
			}
			if err := lab.Tables(&out, &rows); err != nil {
				t.Fatal(err)
			}
			for _, w := range want.words {
				if !strings.Contains(out.String(), w) {
					t.Errorf("the tables do not say %q:\n%s", w, out.String())
				}
			}
		})
	}
}

// Verdicts follow the interval of differences over seeds, and rows of runs that diverged are counted, not averaged.
func TestVerdicts(t *testing.T) {
	var rows bytes.Buffer
	add := func(method string, seed uint64, accuracy float64, fail string) {
		if err := json.NewEncoder(&rows).Encode(lab.Row{Experiment: "glue", Part: "SST2", Method: method, Seed: seed,
			Accuracy: accuracy, Error: fail}); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(3) {
		x := 0.1 * float64(seed)
		add("favor+", seed, 0.5+x, "")
		add("favor++", seed, 0.6+x+0.001*float64(seed), "")
	}
	add("favor++", 9, 0, "diverged")
	var out bytes.Buffer
	if err := lab.Tables(&out, &rows); err != nil {
		t.Fatal(err)
	}
	// Differences 0.100, 0.101, 0.102: mean 0.101, half width 4.303·0.001/√3.
	if !strings.Contains(out.String(), "| 0.1010 ± 0.0025 | reproduced |") {
		t.Errorf("%s", out.String())
	}
	if err := lab.Tables(&out, strings.NewReader("{")); err == nil {
		t.Error("half a line is taken")
	}
}
