package randfeat

import (
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// A map of many rows waits for all workers once, with more rows than they can divide unevenly; one of a few rows leaves
// other cores alone, since waking them takes longer than the rows. Counts tell on any machine what times would on one
// with as many cores.
func TestMapsFeedWorkers(t *testing.T) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	few := 16
	if tab.Name == "go" { // whose rows take ten times as long
		few = 2
	}
	for _, workers := range []int{2, 16} {
		before := runtime.GOMAXPROCS(workers)
		m, err := New[float32](Spec{Family: family.Trig{}, Dim: 64, M: 512, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ rows, workers int }{{1, 1}, {few, 1}, {8192, workers}} {
			var steps [][2]int
			observe := func(items, workers int) { steps = append(steps, [2]int{items, workers}) }
			x, dst := dense.New[float32](c.rows, 64), dense.New[float32](c.rows, m.OutDim())
			var ws Workspace[float32]
			par.Observe.Store(&observe)
			err := m.Queries(dst, nil, x, &ws)
			par.Observe.Store(nil)
			if err != nil {
				t.Fatal(err)
			}
			many := len(steps) == 1 && steps[0][1] == c.workers && steps[0][0] >= 8*workers
			if c.workers > 1 && !many || c.workers == 1 && len(steps) > 0 { // one worker waits for nobody
				t.Errorf("%d rows, %d cores: items and workers %v, want one step on %d workers", c.rows, workers, steps,
					c.workers)
			}
		}
		// Estimates of a kernel are one step, however many blocks of columns there are: features of a block are
		// computed beside the products of the one before. Rows of the last block come in short items, since all wait
		// for them.
		x, dst := dense.New[float32](1024, 64), dense.New[float32](1024, 1024)
		var steps [][2]int
		observe := func(items, workers int) { steps = append(steps, [2]int{items, workers}) }
		var ws Workspace[float32]
		par.Observe.Store(&observe)
		err = m.Gram(dst, x, x, &ws)
		par.Observe.Store(nil)
		if err != nil {
			t.Fatal(err)
		}
		const items = 2*gramCols/gramRows + 2*gramCols/gramRows + 4*gramCols/gramRows
		if len(steps) != 1 || steps[0] != [2]int{items, workers} {
			t.Errorf("a matrix of estimates on %d cores: items and workers %v", workers, steps)
		}
		runtime.GOMAXPROCS(before)
	}
}
