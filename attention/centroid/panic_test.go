package centroid

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// A panic in a job of causal blocks ends the waits of other workers and reaches the caller.
func TestPanicOfAPrefixJobReachesTheCaller(t *testing.T) {
	q, k, v := grouped(1, 300, 16, 1)
	a := &Attention{Specs: []Spec{Prefix{Clusters: 6, Chunk: 32, Queries: 16, Keys: 10}}}
	a.Causal = true
	out := attention.NewSeq[float32](1, 2, 300, 16)
	panicsEndWaits(t, func(tab *kern.Table[float32]) func() {
		c := new(prefixCall)
		if err := c.begin(a, q, k, v); err != nil {
			t.Fatal(err)
		}
		c.aim(nil, out)
		c.keys.tab = tab
		return func() { c.run(true, true) }
	})
}

// A panic in a job of bidirectional blocks ends the waits of other workers and reaches the caller.
func TestPanicOfATiltedJobReachesTheCaller(t *testing.T) {
	q, k, v := grouped(1, 2000, 16, 1)
	a := &Attention{Specs: []Spec{Blocks{Clusters: 16, Queries: 64, Keys: 10}}}
	out := attention.NewSeq[float32](1, 2, 2000, 16)
	panicsEndWaits(t, func(tab *kern.Table[float32]) func() {
		c := new(call)
		if err := c.start(a, out, q, k, v); err != nil {
			t.Fatal(err)
		}
		c.tab = tab
		return func() {
			c.run(true, true)
			if n := len(c.crew.Workers); n < 2 {
				t.Errorf("%d workers: nobody waits", n)
			}
		}
	})
}

// panicsEndWaits lets the first, a middle and the last product of TMul panic. They are in fits and slopes, for which
// all blocks wait. prepare returns the call with the given table.
func panicsEndWaits(t *testing.T, prepare func(*kern.Table[float32]) func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	bomb := errors.New("bomb")
	var calls, at atomic.Int64
	mined := *tab
	mined.Grain = 1 // as many workers as threads
	mined.TMul = func(dst, x, y dense.Matrix[float32]) {
		if calls.Add(1) == at.Load() {
			time.Sleep(5 * time.Millisecond) // the other workers come to wait
			panic(bomb)
		}
		tab.TMul(dst, x, y)
	}
	run := func(bombAt int64) *par.Panic {
		do := prepare(&mined)
		calls.Store(0)
		at.Store(bombAt)
		ended := make(chan *par.Panic, 1)
		go func() { ended <- par.Catch(do) }()
		select {
		case p := <-ended:
			return p
		case <-time.After(time.Minute):
			t.Fatalf("product %d panicked, and the other workers wait", bombAt)
			return nil
		}
	}
	if p := run(-1); p != nil {
		t.Fatal(p)
	}
	for _, i := range []int64{1, calls.Load() / 2, calls.Load()} {
		if p := run(i); !errors.Is(p, bomb) {
			t.Errorf("product %d panicked, the caller got %v", i, p)
		}
	}
}
