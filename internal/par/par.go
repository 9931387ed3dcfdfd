// Package par runs loops on several goroutines. Which goroutine computes an item never changes the item, so results
// are the same at any GOMAXPROCS.
//
// # Which one to use
//
//   - [Group] and [For]: many small items of about equal size, such as rows. Goroutines claim ranges; the caller is
//     one of them.
//   - [Crew]: few long, unequal items that may wait for earlier ones by [Turns]. Items are handed out one by one and
//     in order. An item may wait only for items with a smaller number: these have begun, so there is no deadlock on
//     any number of workers.
//   - [Stream]: items that come from a reader, in bounded memory.
//   - [Pool]: scratch memory of calls that run at the same time.
//
// # Duties
//
// A job must not keep sums per worker or per range, because who gets which range changes from call to call. A [Step]
// whose items wait must be a [Waiter]: if an item panics, Release must end every wait, or the others would wait
// forever. A panic of any goroutine reaches the caller as a [*Panic] with its stack.
//
// Goroutines stay awake for a moment after a call, because waking a core costs 50 to 100 µs. They end by themselves:
// there is nothing to close.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Job is a loop body over the half-open range [lo, hi). A worker may be given several ranges one after the other, or
// none: what a job adds up must belong to an item, never to a worker or a range. Worker numbers the scratch space
// that Run may use.
type Job interface{ Run(worker, lo, hi int) }

// Workers is the number of goroutines Do uses for n items when at least grain items pay for one.
func Workers(n, grain int) int {
	return bounded(max(1, min(runtime.GOMAXPROCS(0), n/max(1, grain))))
}

// Group runs jobs; it keeps its workers' memory between calls, so that a warm Group allocates nothing. The zero
// value is ready. A Group serves one Do at a time. Its goroutines stay for linger after a call and then end by
// themselves: there is nothing to close.
type Group struct {
	job     Job
	n       int
	active  int
	workers []*worker // the caller is worker 0 and not among them
	_       line
	next    atomic.Int64 // first item nobody has claimed
	_       line
	busy    atomic.Int64 // workers that have not finished
	wg      sync.WaitGroup
	_       line
	caught  atomic.Pointer[Panic] // the first
	limit   int                   // of what a part runs in parallel; 0: none
}

// worker is one goroutine of a Group, from the Do that starts it to the end of its linger.
type worker struct {
	state atomic.Int32
	body  func()
	_     line
}

// line keeps apart what different goroutines write or watch: a cache line that one writes is taken from all others.
type line [128]byte

const (
	gone    = iota // no goroutine, or one that has nothing more to do
	waiting        // for another Do, or started for one that was over before it ran
	called         // by a Do, not begun
	working
)

// Waking a core costs 50 to 100 µs, as much as a third of a millisecond of work gains from a second one. Calls often
// follow each other closely, so both sides look around for about as long as a wake-up would take before they sleep:
// a worker for the next call, the caller for the last part of another.
const (
	linger = 100 * time.Microsecond
	tail   = 100 * time.Microsecond
)

// Do calls job.Run on parts of [0, n) from up to workers goroutines and waits for all that have begun.
//
// Parts are claimed, not dealt out: by the time a goroutine wakes on another core the caller has long begun. One
// that comes late, or shares its core, simply gets less; one that has not come when nothing is left is not waited
// for.
//
// If job panics on several goroutines, Do waits for all of them and panics with a *Panic.
func (g *Group) Do(n, workers int, job Job) {
	if n <= 0 {
		return
	}
	if workers = bounded(workers); workers > 1 {
		observed(n, workers)
	}
	g.do(n, workers, job)
}

func (g *Group) do(n, workers int, job Job) {
	workers = max(1, min(workers, n))
	if workers == 1 {
		job.Run(0, 0, n)
		return
	}
	g.limit = 0
	if most := Limit(); most > 0 {
		workers = min(workers, most)
		if g.limit = most / workers; workers == 1 {
			job.Run(0, 0, n)
			return
		}
	}
	for w := len(g.workers) + 1; w < workers; w++ {
		k := new(worker)
		k.body = func() { g.serve(k, w) }
		g.workers = append(g.workers, k)
	}
	g.job, g.n, g.active = job, n, workers
	g.next.Store(0)
	g.busy.Store(int64(workers - 1))
	g.wg.Add(workers - 1)
	for _, k := range g.workers[:workers-1] {
		if !k.state.CompareAndSwap(waiting, called) {
			k.state.Store(called)
			go k.body()
		}
	}
	g.work(0)
	for _, k := range g.workers[:workers-1] {
		if k.state.CompareAndSwap(called, waiting) {
			g.busy.Add(-1)
			g.wg.Done()
		}
	}
	watch(tail, func() bool { return g.busy.Load() == 0 })
	g.wg.Wait()
	g.job = nil
	if p := g.caught.Swap(nil); p != nil {
		panic(p)
	}
}

// serve works for a Do, and for those that follow within linger.
func (g *Group) serve(k *worker, w int) {
	wanted := func() bool { return k.state.Load() == called && k.state.CompareAndSwap(called, working) }
	for {
		if !watch(linger, wanted) {
			if k.state.CompareAndSwap(waiting, gone) {
				return
			}
			continue
		}
		g.work(w)
		k.state.Store(waiting)
		g.busy.Add(-1)
		g.wg.Done()
		// From here on g belongs to the caller, until state is working again.
	}
}

// looks is how often a watch looks before it asks the scheduler, some 20 µs: many watchers would fight for its lock,
// and with processors that have nothing to do every question wakes one of them.
const looks = 8192

// watch waits until done, but not longer than limit; it leaves the core to any goroutine that has work.
func watch(limit time.Duration, done func() bool) bool {
	if done() {
		return true
	}
	for start := time.Now(); time.Since(start) < limit; runtime.Gosched() {
		for range looks {
			if done() {
				return true
			}
		}
	}
	return false
}

// work runs parts until none is left. A part that panics is the last that begins: Do panics once the others have
// ended.
func (g *Group) work(w int) {
	defer func() {
		if v := recover(); v != nil {
			g.next.Store(int64(g.n))
			g.caught.CompareAndSwap(nil, panicOf(v))
		}
	}()
	if g.limit > 0 {
		below(g.limit, func() { g.parts(w) })
		return
	}
	g.parts(w)
}

func (g *Group) parts(w int) {
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
		size := max(1, left/(share*g.active), g.n/(smallest*g.active))
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

// For is Do for a plain function, on a Group that other calls share one after the other: loops that follow each
// other closely find its workers awake.
func For(n, grain int, body func(lo, hi int)) {
	workers := Workers(n, grain)
	observed(n, workers)
	if workers == 1 {
		if n > 0 {
			body(0, n)
		}
		return
	}
	g := shared.Get()
	defer shared.Put(g) // also after a panic: all its workers have ended
	g.do(n, workers, funcJob(body))
}

// shared are the Groups of For that nobody uses, the last used on top.
var shared Pool[Group]
