package par

import (
	"sync"
	"sync/atomic"
)

// Turns is a set of counters by which items of a Step wait for earlier items, which have begun. The zero value is ready
// for Reset.
type Turns struct {
	done     []atomic.Int64
	waiting  atomic.Int64 // goroutines inside the slow path of Await
	released bool
	mu       sync.Mutex
	changed  sync.Cond
}

// Reset makes n counters, all 0. Nobody may be waiting.
func (t *Turns) Reset(n int) {
	if t.changed.L == nil {
		t.changed.L = &t.mu
	}
	if cap(t.done) < n {
		t.done = make([]atomic.Int64, n)
	}
	t.done = t.done[:n]
	t.released = false
	for i := range t.done {
		t.done[i].Store(0)
	}
}

// Done adds 1 to counter i. Writes before it are visible to the goroutine whose Await it ends.
func (t *Turns) Done(i int) {
	t.done[i].Add(1)
	if t.waiting.Load() > 0 { // a goroutine that starts waiting later reads the counter again first
		t.mu.Lock()
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// Await returns once counter i is at least n. It polls for about as long as a wake-up takes before it sleeps. It panics
// if the counter is too small after Release.
func (t *Turns) Await(i, n int) {
	c := &t.done[i]
	for range looks {
		if c.Load() >= int64(n) {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// waiting is raised before the counter is read again, and Done raises the counter before it reads waiting. One of
	// the two therefore sees the other, and no wake-up is lost.
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	for c.Load() < int64(n) {
		if t.released {
			panic("par: what is awaited has panicked")
		}
		t.changed.Wait()
	}
}

// Release makes every Await of a counter that is still too small panic, until Reset: after a panic nobody will count. A
// Step that embeds Turns is a Waiter by it.
func (t *Turns) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	t.changed.Broadcast()
}
