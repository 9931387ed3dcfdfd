package par

import (
	"sync"
	"sync/atomic"
)

// Step is a kind of work that comes in items. Which worker does an item never changes its result; w is scratch memory.
type Step[W any] interface{ Item(w *W, i int) error }

// Waiter is a Step whose items wait for other items. If an item panics, those that wait for it would wait for ever:
// Release makes every wait end, at once and from then on, by a return that ends the item or by a panic. It may be called
// at any time of a Do.
type Waiter interface{ Release() }

// Crew runs steps of long, unequal items on goroutines with memory of their own. Items are handed out one by one and in
// order, so an item may wait for one before it: that has begun. The zero value is ready; a warm Crew allocates
// nothing. A Crew serves one Do at a time.
type Crew[W any] struct {
	Workers []*W // the memory of every goroutine; Hire and Do make what is missing

	group Group
	step  Step[W]
	n     int
	next  atomic.Int64

	mu     sync.Mutex
	err    error
	failed int // the item of err
	caught *Panic
}

// Observe, if it is set, is told the items and workers of every Do of a Crew, of every For, and of every Do of a Group
// on several workers. It is for tests, which count how often work is waited for and in how many pieces it comes.
var Observe atomic.Pointer[func(items, workers int)]

func observed(items, workers int) {
	if f := Observe.Load(); f != nil {
		(*f)(items, workers)
	}
}

// Hire makes sure that there are n Workers.
func (c *Crew[W]) Hire(n int) {
	for len(c.Workers) < n {
		c.Workers = append(c.Workers, new(W))
	}
}

// Do runs items 0 to n−1 on up to workers goroutines. After an error no further item begins. The error returned is that
// of the lowest item that failed, whatever the goroutines do: all items below it had begun.
//
// If an item panics, no further item begins, and once all have ended Do panics with a *Panic. The
// Crew can be used again.
func (c *Crew[W]) Do(n, workers int, s Step[W]) error {
	if n <= 0 {
		return nil
	}
	observed(n, workers)
	workers = max(1, min(workers, n))
	c.Hire(workers)
	c.step, c.n = s, n
	c.next.Store(0)
	c.group.do(workers, workers, c)
	err, p := c.err, c.caught
	c.step, c.err, c.caught = nil, nil, nil
	if p != nil {
		panic(p)
	}
	return err
}

// Run makes a Crew the Job of its Group: what one worker does of a step.
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

func (c *Crew[W]) fail(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || i < c.failed {
		c.err, c.failed = err, i
	}
	c.next.Store(int64(c.n))
}

// panicked ends a step after a panic. Waits that it ends by a panic come later, so the first is the cause.
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

// Each calls item for 0 to n−1, one by one and in order, on up to workers goroutines; worker numbers them.
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
