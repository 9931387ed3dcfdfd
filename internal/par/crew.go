package par

import (
	"sync"
	"sync/atomic"
)

// Step is a kind of work that comes in items. The assignment of items to workers must not change any result; w is
// scratch memory of the goroutine that runs the item.
type Step[W any] interface{ Item(w *W, i int) error }

// Waiter is a Step whose items wait for other items. If an item panics, items that wait for it would wait forever, so
// Crew calls Release. Release must end every wait, now and from then on, by a return that ends the item or by a panic.
// It may be called at any time during a Do, from any goroutine.
type Waiter interface{ Release() }

// Crew runs steps of long, unequal items on goroutines with scratch memory of their own. Items are handed out one by
// one and in order. An item may therefore wait for any item with a smaller number: that one has begun, on another
// goroutine, so it needs no further worker to finish. The zero value is ready; a warm Crew allocates nothing. A Crew
// serves one Do at a time.
type Crew[W any] struct {
	Workers []*W // scratch memory, one per goroutine; Hire and Do add missing ones

	group Group
	step  Step[W]
	n     int          // items of the current Do
	next  atomic.Int64 // first item that has not been handed out

	mu     sync.Mutex
	err    error
	failed int // the item that err came from
	caught *Panic
}

// Observe, if set, receives the number of items and of workers of every Do of a Crew, of every For, and of every Do of
// a Group on several workers. Tests use it to count how often callers wait for parallel work and in how many pieces it
// comes.
var Observe atomic.Pointer[func(items, workers int)]

func observed(items, workers int) {
	if f := Observe.Load(); f != nil {
		(*f)(items, workers)
	}
}

// Hire makes sure that Workers has at least n elements, so that a caller can prepare their memory before Do.
func (c *Crew[W]) Hire(n int) {
	for len(c.Workers) < n {
		c.Workers = append(c.Workers, new(W))
	}
}

// Do runs items 0 to n−1 on up to workers goroutines. After an error no further item begins. Do returns the error of
// the lowest item that failed. That error does not depend on scheduling: every lower item had begun and was run to its
// end.
//
// If an item panics, no further item begins. Once all items that began have ended, Do panics with a *Panic. The Crew
// can then be used again.
func (c *Crew[W]) Do(n, workers int, s Step[W]) error {
	if n <= 0 {
		return nil
	}
	observed(n, workers)
	workers = max(1, min(workers, n))
	c.Hire(workers)
	c.step, c.n = s, n
	c.next.Store(0)
	// The Group sees one unit per goroutine. A goroutine that claims several finds no items left and returns at once.
	c.group.do(workers, workers, c)
	err, p := c.err, c.caught
	c.step, c.err, c.caught = nil, nil, nil
	if p != nil {
		panic(p)
	}
	return err
}

// Run implements Job for the Group of the Crew: it is the loop of one worker over the items of a step.
func (c *Crew[W]) Run(worker, _, _ int) {
	defer func() {
		if v := recover(); v != nil {
			c.next.Store(int64(c.n))
			c.panicked(panicOf(v))
		}
	}()
	for {
		i := int(c.next.Add(1)) - 1
		if i >= c.n {
			return
		}
		if err := c.step.Item(c.Workers[worker], i); err != nil {
			c.fail(i, err)
			return
		}
	}
}

// fail records the error of item i unless a lower item has failed, and stops the handing out of items.
func (c *Crew[W]) fail(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || i < c.failed {
		c.err, c.failed = err, i
	}
	c.next.Store(int64(c.n))
}

// panicked records the first panic and ends all waits. Waits that Release ends by a panic come later, so the first
// panic is the cause.
func (c *Crew[W]) panicked(p *Panic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caught != nil {
		return
	}
	c.caught = p
	if s, ok := c.step.(Waiter); ok {
		s.Release()
	}
}

// Each calls item for i = 0 to n−1 on up to workers goroutines, handing out items one by one and in order. worker is
// the number of the goroutine, from 0.
func Each(n, workers int, item func(worker, i int)) {
	var c Crew[int]
	c.Hire(max(1, min(workers, n)))
	for w, number := range c.Workers {
		*number = w
	}
	c.Do(n, workers, eachStep(item))
}

type eachStep func(worker, i int)

func (f eachStep) Item(w *int, i int) error {
	f(*w, i)
	return nil
}
