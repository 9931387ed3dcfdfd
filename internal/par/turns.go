package par

import (
	"sync"
	"sync/atomic"
)

// Turns are counters by which items of a Step wait for others that have begun. The zero value is ready for Reset.
type Turns struct {
	done     []atomic.Int64
	waiting  atomic.Int64
	released bool
	mu       sync.Mutex
	changed  sync.Cond
}

// Reset makes n counters of 0. Nobody may wait.
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

// Done adds 1 to counter i. What happens before is seen by who awaits it.
func (t *Turns) Done(i int) {
	t.done[i].Add(1)
	if t.waiting.Load() > 0 { // or they will see the counter before they wait
		t.mu.Lock()
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// Await returns once counter i is n or more. Before it sleeps it looks for about as long as a wake-up takes.
func (t *Turns) Await(i, n int) {
	c := &t.done[i]
	for range looks {
		if c.Load() >= int64(n) {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	for c.Load() < int64(n) {
		if t.released {
			panic("par: what is awaited has panicked")
		}
		t.changed.Wait()
	}
}

// Release makes every Await of a counter that is too small panic, until Reset: nobody will count. A Step that has Turns
// is a Waiter by it.
func (t *Turns) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	t.changed.Broadcast()
}
