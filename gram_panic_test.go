package randfeat

import (
	"runtime"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
)

// A panic among the goroutines of Gram reaches its caller, though others wait for the features that are missing; the
// workspace can be used again.
func TestGramPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	m, err := New[float32](Spec{Family: family.Positive{}, Dim: 8, M: 64, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	key := m.key
	m.key = nil
	x, y := dense.New[float32](1500, 8), dense.New[float32](3000, 8)
	dst := dense.New[float32](1500, 3000)
	var ws Workspace[float32]
	ended := make(chan *par.Panic)
	go func() { ended <- par.Catch(func() { t.Error(m.Gram(dst, x, y, &ws)) }) }()
	select {
	case p := <-ended:
		if _, ok := p.Value.(runtime.Error); !ok {
			t.Errorf("the caller got %v", p)
		}
	case <-time.After(time.Minute):
		t.Fatal("all wait for features that have panicked")
	}
	m.key = key
	if err := m.Gram(dst, x, y, &ws); err != nil || dst.At(3, 5) == 0 {
		t.Errorf("after a panic: %v, %v", dst.At(3, 5), err)
	}
}

// The step of Gram ends the waits of its workers: one that awaits features panics once another has panicked.
func TestGramReleasesWaits(t *testing.T) {
	var g gramStep[float32]
	g.turns.Reset(2)
	ended := make(chan *par.Panic)
	go func() { ended <- par.Catch(func() { g.turns.Await(featureTurn(0), 1) }) }()
	par.Waiter(&g).Release()
	select {
	case p := <-ended:
		if p == nil {
			t.Error("nobody counted, and the wait ended")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the worker still waits")
	}
}
