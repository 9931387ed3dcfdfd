package tables

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// The summary names the target of each score, and has no interval where there is none.
func TestPrintScores(t *testing.T) {
	var b bytes.Buffer
	r := &FitReport{Report: &tabular.Report{ScoredOn: "all rows", Scores: []machine.Score{
		{Name: "RMSE", Value: 3, Low: 2, High: 4}, {Name: "RMSE", Output: 1, Value: 2, Low: math.NaN(),
			High: math.NaN()},
		{Name: "RMSE", Output: 2, Value: 5, Low: 0, High: math.Inf(1)},
	}}}
	if err := printScores(&b, r, []string{"y", "z"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"RMSE 3 2 to 4", "RMSE of y 2 –", "RMSE of z 5 –"}
	for _, line := range strings.Split(b.String(), "\n") {
		if len(want) > 0 && strings.Join(strings.Fields(line), " ") == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("no line %q in\n%s", want, &b)
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"model.rf": "model.rf", "my model.rf": "'my model.rf'", "it's": `'it'\''s'`,
		"/a/b-1_é.rf": "/a/b-1_é.rf", "": "''", "$x": "'$x'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
