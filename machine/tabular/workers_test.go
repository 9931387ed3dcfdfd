package tabular

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// Fits keep to their Workers, and have the same bytes with any number.
func TestWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
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
		fit := func(workers int) (model []byte, most int64) {
			var seen atomic.Int64
			see := func(_, n int) {
				for m := seen.Load(); int64(n) > m && !seen.CompareAndSwap(m, int64(n)); m = seen.Load() {
				}
			}
			par.Observe.Store(&see)
			defer par.Observe.Store(nil)
			o.Workers = workers
			m, _, err := Fit(context.Background(), src, o)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := m.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			return b.Bytes(), seen.Load()
		}
		want, most := fit(0)
		if most < 3 {
			t.Errorf("%s: %d goroutines at most with 8 processors: nothing is limited", name, most)
		}
		for _, workers := range []int{1, 3} {
			got, most := fit(workers)
			if most > int64(workers) {
				t.Errorf("%s: a loop on %d goroutines with Workers %d", name, most, workers)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: other bytes with Workers %d", name, workers)
			}
		}
	}
}
