package tabular

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// A reason that compares two alternatives states the figures of their trials, and the better one has the choice where
// it says so.
func TestReasonsStateTheirTrials(t *testing.T) {
	pattern := regexp.MustCompile(`^([^0-9]*[^0-9 .²]²?) (-?[0-9.e-]+) on ([0-9]+) rows, (-?[0-9.e-]+) with ` +
		`(.*?)(: ahead by|, which must)`)
	compared := map[string]int{}
	for name, src := range map[string]data.Source{"waves": waves(300, 1), "board": board(1000, 1),
		"ridge": ridgeline(300, 1, slanted), "pixels": pixels(250, 2)} {
		target := map[string]string{"board": "class"}[name]
		if target == "" {
			target = "y"
		}
		learn := data.LearnOptions{Targets: []string{target}}
		if name == "waves" {
			learn.Skip = []string{"z"}
		}
		_, r, err := Fit(t.Context(), src, Options{Learn: learn, Folds: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range r.Choices {
			m := pattern.FindStringSubmatch(ch.Why)
			if m == nil {
				continue
			}
			compared[ch.Name]++
			score := func(label string) float64 {
				i := slices.IndexFunc(ch.Trials, func(tr Trial) bool { return tr.Label == label })
				if i < 0 {
					t.Fatalf("%s: no trial of %q in %+v", name, label, ch)
				}
				return ch.Trials[i].Score
			}
			chosen, other := score(ch.Value), score(m[5])
			if fmt.Sprintf("%.4g", chosen) != m[2] || fmt.Sprintf("%.4g", other) != m[4] ||
				ch.Trials[0].Metric != m[1] {
				t.Errorf("%s: %s = %s: %s, but the trials have %v and %v of %s", name, ch.Name, ch.Value, ch.Why,
					chosen, other, ch.Trials[0].Metric)
			}
			if m[6] == ": ahead by" && chosen <= other {
				t.Errorf("%s: %s = %s: %s", name, ch.Name, ch.Value, ch.Why)
			}
		}
	}
	if compared["kernel"] < 3 || compared["scaling"]+compared["metric"] < 2 {
		t.Errorf("few reasons were compared: %v", compared)
	}
}

// If the rival is another width of the alternative that was there, the choice keeps its name, and the reason compares
// it with the best of the others.
func TestReasonOfTheSameAlternative(t *testing.T) {
	of := func(kind kernel.Kind, loss float64) *trial {
		out := &trial{Candidate: Candidate{Kernel: kind, Width: loss}, rows: 4, mean: loss}
		for _, d := range []float64{-0.02, 0.02, -0.01, 0.01} {
			out.loss = append(out.loss, loss+d)
		}
		return out
	}
	before, rival := of(kernel.Gaussian, 0.5), of(kernel.Gaussian, 0.3)
	others := []*trial{rival, of(kernel.Matern12, 0.45), of(kernel.Matern12, 0.4)}
	for _, c := range []struct {
		won  bool
		want string
	}{
		{true, "out-of-fold R² 0.7 on 4 rows, 0.6 with matern12, which must be ahead by"},
		{false, "out-of-fold R² 0.5 on 4 rows, 0.6 with matern12, which must be ahead by"},
	} {
		s := &search{frame: &frame{job: &job{task: machine.Regression, outputs: 1}}}
		s.note(rules[1], before, rival, others, c.won)
		if len(s.choices) != 1 || s.choices[0].Value != "gaussian" || !strings.HasPrefix(s.choices[0].Why, c.want) ||
			len(s.choices[0].Trials) != 2 {
			t.Errorf("won %v: %+v", c.won, s.choices)
		}
	}
}

// The documents list the rules with the number of standard errors that each asks for.
func TestRulesAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) < 5 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, r := range rules {
		line := regexp.MustCompile(`(?m)^\| ` + r.name + ` \|.*\| ([0-9.]+) \|$`).FindSubmatch(text)
		if line == nil || string(line[1]) != fmt.Sprint(r.errors) {
			t.Errorf("rule %s asks for %v standard errors, docs/machines.md says %s", r.name, r.errors, line)
		}
		same := &trial{loss: []float64{1, 2, 3, 4}, shown: []float64{1, 2, 3, 4}}
		for _, c := range []struct {
			ahead float64 // of four rows, with a standard error of 1/√12
			won   bool
		}{{r.errors/math.Sqrt(12) - 0.01, false}, {r.errors/math.Sqrt(12) + 0.01, true}} {
			b := &trial{}
			for i, v := range same.loss {
				b.loss = append(b.loss, v-c.ahead-0.5*float64(1-2*(i%2)))
			}
			b.shown = b.loss
			if got := r.prefers(same, b); got != c.won {
				t.Errorf("rule %s: ahead by %.3f: %v", r.name, c.ahead, got)
			}
		}
	}
}

// Penalties beyond the first grid are found: small ones without noise, large ones of nothing but noise.
func TestPenaltiesBeyondTheGrid(t *testing.T) {
	clean, noise := &numbers{names: []string{"x", "y"}}, &numbers{names: []string{"x", "y"}}
	for i := range 150 {
		x := float64(i) / 20
		clean.rows = append(clean.rows, []float64{x, math.Sin(x)})
		noise.rows = append(noise.rows, []float64{x, math.Sin(1e6 * x * x)})
	}
	for _, c := range []struct {
		src         data.Source
		least, most float64
	}{{clean, 0, 1e-6}, {noise, 2, math.Inf(1)}} {
		m, r := mustFit(t, c.src, Options{Learn: onlyY, Folds: 1, Kernel: "gaussian"})
		if m.Lambda < c.least || m.Lambda > c.most {
			t.Errorf("λ = %g, want %g to %g: %+v", m.Lambda, c.least, c.most, choice(t, r, "lambda"))
		}
	}
}

// Kernels too small to count are zero: numbers near the smallest take a hundred times as long.
func TestNegligibleKernels(t *testing.T) {
	near := dense.MustFromRows([][]float32{{0, -50}, {0, 0}})
	k := kernelsOf(dense.Matrix[float32]{}, near, kernel.Gaussian, 1)
	if k.At(0, 0) != 1 || k.At(0, 1) != 0 {
		t.Errorf("kernels %v", k.Data)
	}
}
