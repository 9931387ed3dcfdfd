// Package par runs loops over rows on several goroutines with a static partition.
//
// Which goroutine computes a row never changes the row, so results are the same at any GOMAXPROCS.
package par

import (
	"runtime"
	"sync"
)

// Job is a loop body over the half-open range [lo, hi). Worker numbers the scratch space it may use.
type Job interface{ Run(worker, lo, hi int) }

// Workers is the number of goroutines Do uses for n items when at least grain items pay for one.
func Workers(n, grain int) int {
	return max(1, min(runtime.GOMAXPROCS(0), n/max(1, grain)))
}

// Group runs jobs; it keeps its goroutine bodies between calls, so that a warm Group allocates nothing.
// The zero value is ready. A Group serves one Do at a time and leaves no goroutine behind.
type Group struct {
	job    Job
	n      int
	parts  int
	bodies []func()
	wg     sync.WaitGroup
}

// Do calls job.Run on workers contiguous parts of [0, n) and waits for all of them.
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
			g.part(w)
		})
	}
	g.job, g.n, g.parts = job, n, workers
	g.wg.Add(workers - 1)
	for w := 1; w < workers; w++ {
		go g.bodies[w]()
	}
	g.part(0)
	g.wg.Wait()
	g.job = nil
}

func (g *Group) part(w int) { g.job.Run(w, w*g.n/g.parts, (w+1)*g.n/g.parts) }

type funcJob func(lo, hi int)

func (f funcJob) Run(_, lo, hi int) { f(lo, hi) }

// For is Do for a plain function, where a few allocations do not matter.
func For(n, grain int, body func(lo, hi int)) {
	var g Group
	g.Do(n, Workers(n, grain), funcJob(body))
}
