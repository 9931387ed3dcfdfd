package linalg

import (
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// zeroRows are rows of zeros.
type zeroRows struct{}

func (zeroRows) Rows(int, dense.Matrix[float32], dense.Matrix[float64]) error { return nil }

// Everything that a fit of 2048 features waits for comes in more items than sixteen workers, and no loop is left to one
// of them.
func TestFitsFeedManyWorkers(t *testing.T) {
	const workers, features = 16, 2048
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	steps := func(run func()) (s [][2]int) {
		observe := func(items, workers int) { s = append(s, [2]int{items, workers}) }
		par.Observe.Store(&observe)
		defer par.Observe.Store(nil)
		run()
		return s
	}
	check := func(what string, s [][2]int, want int) {
		if len(s) != want {
			t.Errorf("%s waits %d times, want %d: %v", what, len(s), want, s)
		}
		for i, s := range s {
			if s[0] < workers || s[1] != workers {
				t.Errorf("%s, step %d: %d items on %d workers", what, i, s[0], s[1])
			}
		}
	}
	tab32 := kern.Best[float32]()
	if tab32.Name == "go" {
		t.Skip("seconds of plain Go")
	}
	phi := dense.New[float32](1024, features)
	var g Gram[float32]
	gram := steps(func() { g.Add(tab32, dense.New[float32](features, features), phi) })
	check("Gram", gram, 2)
	if n := gram[1][0]; n < 8*workers {
		t.Errorf("Gram: %d parts for %d workers, the last of which all wait for", n, workers)
	}
	// Many rows are one step, however many blocks: nobody waits for all others between them.
	var b Blocks[float32]
	var n Normal
	n.Reset(features, 1)
	n.Part = dense.New[float32](features, features)
	check("Blocks", steps(func() {
		if err := b.Add(&n, zeroRows{}, FlushRows, 1024); err != nil {
			t.Fatal(err)
		}
	}), 1)
	a := dense.New[float64](features, features)
	for i := range features {
		a.Set(i, i, 1)
	}
	factor := steps(func() {
		if err := Cholesky(a); err != nil {
			t.Fatal(err)
		}
	})
	check("Cholesky, its signs and all else", factor, 2)
	w := dense.New[float64](features, 1)
	solve := steps(func() {
		if err := SolveT(a, w); err != nil {
			t.Fatal(err)
		}
	})
	if len(solve) == 0 || solve[0][1] < 4 {
		t.Errorf("SolveT of one column: items and workers %v, want 4 workers at first", solve)
	}
}
