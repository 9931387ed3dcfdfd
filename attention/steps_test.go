package attention

import (
	"runtime"
	"sync"
	"testing"

	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
)

// One long sequence keeps sixteen workers busy: whatever is waited for comes in many more items than there are workers,
// and seldom. Times would tell the same on a machine with as many cores; counts tell it on any.
func TestOneSequenceFeedsManyWorkers(t *testing.T) {
	const workers, d, m, length = 16, 64, 256, 16384
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	type step struct{ items, workers int }
	var mu sync.Mutex
	var steps []step
	observe := func(items, workers int) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step{items, workers})
	}
	q, v := normals[float32](1, 1, length, d, 0.3, 1), normals[float32](1, 1, length, d, 1, 2)
	out, dq, dk, dv := NewSeq[float32](1, 1, length, d), NewSeq[float32](1, 1, length, d),
		NewSeq[float32](1, 1, length, d), NewSeq[float32](1, 1, length, d)
	for _, c := range []struct {
		name   string
		causal bool
		back   bool
		most   int // waits
	}{
		{"bidirectional", false, false, 3}, // sums, totals, queries
		{"causal", true, false, 3},         // sums, totals, queries
		{"backward", false, true, 7},       // all of it, dots, sums, totals, queries, totals, keys
		{"causal backward", true, true, 8}, // all of it, dots, twice causal
	} {
		a := linear[float32](t, family.Positive{}, d, m, c.causal)
		_, err := a.Forward(out, q, q, v)
		must(t, err)
		steps = steps[:0]
		par.Observe.Store(&observe)
		if c.back {
			_, err = a.Backward(dq, dk, dv, v, out, q, q, v, nil)
		} else {
			_, err = a.Forward(out, q, q, v)
		}
		par.Observe.Store(nil)
		must(t, err)
		if c.back && len(steps) > 0 && steps[0].items == 1 {
			steps = steps[1:] // the stream itself
			c.most--
		}
		if len(steps) == 0 || len(steps) > c.most {
			t.Errorf("%s waits %d times, want at most %d: %v", c.name, len(steps), c.most, steps)
		}
		for i, s := range steps {
			if s.workers != workers || s.items < 2*workers {
				t.Errorf("%s, step %d: %d items for %d workers, want %d for %d", c.name, i, s.items, s.workers,
					2*workers, workers)
			}
		}
		if work := steps[len(steps)-1]; work.items < 4*workers {
			t.Errorf("%s: the queries come in %d items, want %d", c.name, work.items, 4*workers)
		}
	}
}
