// Package par runs loops over rows on several goroutines.
//
// Which goroutine computes a row never changes the row, so results are the same at any GOMAXPROCS.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Job is a loop body over the half-open range [lo, hi). A worker may be given several ranges one after the other, or
// none: what a job adds up must belong to an item, never to a worker or a range. Worker numbers the scratch space that
// Run may use.
type Job interface{ Run(worker, lo, hi int) }

// Workers is the number of goroutines Do uses for n items when at least grain items pay for one.
func Workers(n, grain int) int {
	return max(1, min(runtime.GOMAXPROCS(0), n/max(1, grain)))
}

// Group runs jobs; it keeps its goroutine bodies between calls, so that a warm Group allocates nothing.
// The zero value is ready. A Group serves one Do at a time and leaves no goroutine behind.
type Group struct {
	job     Job
	n       int
	workers int
	next    atomic.Int64 // first item nobody has claimed
	bodies  []func()
	wg      sync.WaitGroup
}

// Do calls job.Run on parts of [0, n) from up to workers goroutines and waits for all of them.
//
// Parts are claimed, not dealt out: a goroutine needs some 5 to 100 µs to wake on another core, and by then the caller
// has long begun. One that comes late, or shares its core, simply gets less.
func (g *Group) Do(n, workers int, job Job) {
	if n <= 0 {
		return
	}
	workers = max(1, min(workers, n))
	if workers == 1 {
		job.Run(0, 0, n)
		return
	}
	for w := len(g.bodies); w < workers; w++ {
		g.bodies = append(g.bodies, func() {
			defer g.wg.Done()
			g.work(w)
		})
	}
	g.job, g.n, g.workers = job, n, workers
	g.next.Store(0)
	g.wg.Add(workers - 1)
	for w := 1; w < workers; w++ {
		go g.bodies[w]()
	}
	g.work(0)
	g.wg.Wait()
	g.job = nil
}

// work runs parts until none is left.
func (g *Group) work(w int) {
	for {
		lo, hi := g.claim()
		if lo == hi {
			return
		}
		g.job.Run(w, lo, hi)
	}
}

const (
	// A part is 1/(share·workers) of what is left, so that parts shrink towards the end and all finish together.
	share = 2
	// smallest is the part of n·workers items below which a claim costs more than it balances.
	smallest = 32
	// step is what the sizes of larger parts are multiples of: kernels like whole tiles of rows.
	step = 16
)

// claim takes the next part; lo = hi if there is none.
func (g *Group) claim() (lo, hi int) {
	for {
		lo := int(g.next.Load())
		left := g.n - lo
		if left <= 0 {
			return g.n, g.n
		}
		size := max(1, left/(share*g.workers), g.n/(smallest*g.workers))
		if size >= step {
			size -= size % step
		}
		size = min(size, left)
		if g.next.CompareAndSwap(int64(lo), int64(lo+size)) {
			return lo, lo + size
		}
	}
}

type funcJob func(lo, hi int)

func (f funcJob) Run(_, lo, hi int) { f(lo, hi) }

// For is Do for a plain function, where a few allocations do not matter.
func For(n, grain int, body func(lo, hi int)) {
	var g Group
	g.Do(n, Workers(n, grain), funcJob(body))
}
