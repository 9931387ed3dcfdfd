package tabular

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Fits have the same bytes on any number of processors.
func TestProcessors(t *testing.T) {
	r := newRepeatable(300, 4, 7)
	rows := make([]int, len(r.y))
	for i := range rows {
		rows[i] = i
	}
	src := r.table(t, rows, false)
	regression := data.LearnOptions{Targets: []string{"y"}, Skip: []string{"class"}}
	classes := data.LearnOptions{Targets: []string{"class"}, Skip: []string{"y"}}
	for name, o := range map[string]Options{
		"exact":    {Learn: regression, Folds: 1},
		"random":   {Learn: regression, Map: MapRandom, Budget: 256, Folds: 1},
		"logistic": {Learn: classes, Kind: machine.KindLogistic, Features: 128, Folds: 1},
	} {
		if testing.Short() && name != "exact" {
			continue
		}
		fit := func(processors int) []byte {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			m, _, err := Fit(context.Background(), src, o)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := m.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
		want := fit(8)
		for _, processors := range []int{1, 3} {
			if !slices.Equal(fit(processors), want) {
				t.Errorf("%s: other bytes on %d processors", name, processors)
			}
		}
	}
}
