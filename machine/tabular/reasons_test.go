package tabular

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
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
