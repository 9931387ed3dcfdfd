package centroid

import (
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// One long head feeds many workers in every step that takes long: the fit is shared too, and the search for NaN; the
// bits are those of one worker. Counts tell on two cores what times would on sixteen.
func TestOneHeadFeedsManyWorkers(t *testing.T) {
	const n, workers = 8192, 16
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	if tab.Name == "go" {
		t.Skip("seconds of plain Go")
	}
	in := makeInput(71, 1, 1, 1, n, 64, 64)
	a := &Attention{Specs: []Spec{PerQuery{Clusters: 256, Top: 2, Window: 8, Block: 8, Sample: n, Landmarks: 64}}}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var steps [][2]int
	run := func() []float32 {
		steps = nil
		out := attention.NewSeq[float32](1, 1, n, 64)
		observe := func(items, workers int) { steps = append(steps, [2]int{items, workers}) }
		par.Observe.Store(&observe)
		defer par.Observe.Store(nil)
		if _, err := a.Forward(out, in.q, in.k, in.v); err != nil {
			t.Fatal(err)
		}
		return out.Data
	}
	want := run()
	runtime.GOMAXPROCS(workers)
	if got := run(); !slices.Equal(got, want) {
		t.Error("sixteen workers give other bits than one")
	}
	// Those that keep half of the workers busy: two steps of weights, three rounds of seeds, two passes of two steps,
	// keys of clusters, their means, rows.
	busy := 0
	for _, s := range steps {
		if s[0] >= workers && s[1] >= workers/2 {
			busy++
		}
	}
	if busy < 8 {
		t.Errorf("items and workers of steps: %v", steps)
	}
	if last := steps[len(steps)-1]; last[0] < 2*workers || last[1] != workers {
		t.Errorf("%d tasks of rows on %d workers, want %d on %d", last[0], last[1], 2*workers, workers)
	}
}
