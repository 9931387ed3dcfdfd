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
// A job must not keep sums per worker or per range, because the assignment of ranges changes from call to call. A
// [Step] whose items wait must be a [Waiter]: if an item panics, Release must end every wait, or the others would wait
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
// none: a sum must belong to an item, never to a worker or a range. worker is the index of the scratch memory that Run
// may use; no two goroutines have the same index at the same time.
type Job interface{ Run(worker, lo, hi int) }

// Workers is the number of goroutines that Do should use for n items if at least grain items pay for one. It is at most
// GOMAXPROCS.
func Workers(n, grain int) int {
	return max(1, min(runtime.GOMAXPROCS(0), n/max(1, grain)))
}

// Group runs jobs on a set of goroutines. It keeps the memory of its workers between calls, so a warm Group allocates
// nothing. The zero value is ready. A Group serves one Do at a time. Its goroutines stay for linger after a call and
// then end by themselves: there is nothing to close.
//
// # Protocol
//
// Do sets job, n and active, resets next, and calls its workers: it moves each from waiting to called, or starts a
// goroutine if it is gone. Then the caller works itself, as worker 0. A worker moves from called to working before it
// touches the Group; all of them claim ranges from next until nothing is left. When the caller runs out of ranges it
// withdraws its call from every worker that is still called, which that worker then cannot answer, and waits for the
// others by busy and wg. The compare-and-swap from called decides between the two, so a worker either counts as
// finished or never begins. After its wg.Done a worker touches only its own state, because Do may return and the fields
// of the Group belong to the next call.
type Group struct {
	job     Job
	n       int
	active  int       // goroutines of the current Do, the caller included
	workers []*worker // workers 1, 2, …; the caller is worker 0 and not among them
	_       line
	next    atomic.Int64 // first item nobody has claimed
	_       line
	busy    atomic.Int64 // workers that have been called and have not finished; watched before wg sleeps
	wg      sync.WaitGroup
	_       line
	caught  atomic.Pointer[Panic] // the first panic of the current Do
}

// worker is one goroutine of a Group, from the Do that starts it to the end of its linger. state is the only field that
// the caller and the goroutine share.
type worker struct {
	state atomic.Int32
	body  func()
	_     line
}

// line separates fields that different goroutines write or poll. Two fields in one cache line slow each other down,
// because a write takes the line away from every other core. 128 bytes also cover CPUs that fetch 64-byte lines in
// pairs.
type line [128]byte

const (
	gone    = iota // no goroutine, or one that is about to return
	waiting        // its goroutine polls for another Do, or has not run yet and will poll
	called         // a Do wants it; it has not begun
	working
)

// Waking a core costs 50 to 100 µs, as much as a second core gains on a third of a millisecond of work. Calls often
// follow each other closely, so both sides poll for about as long as a wake-up would take before they sleep: a worker
// for the next call, the caller for the end of another goroutine's last range.
const (
	linger = 100 * time.Microsecond
	tail   = 100 * time.Microsecond
)

// Do calls job.Run on ranges of [0, n) from up to workers goroutines, the caller among them, and waits for all that
// have begun.
//
// Ranges are claimed, not dealt out in advance: by the time a goroutine wakes on another core, the caller has long
// begun. A goroutine that comes late, or shares its core, simply gets less. One that has not come when nothing is left
// is not waited for.
//
// If job panics on any goroutine, no further range begins. Do waits for all of them and panics with a *Panic. With one
// worker the job runs on the caller's goroutine and its panic passes through unchanged.
func (g *Group) Do(n, workers int, job Job) {
	if n <= 0 {
		return
	}
	if workers > 1 {
		observed(n, workers)
	}
	g.do(n, workers, job)
}

// do is Do without the call of Observe, which Crew and For have made already.
func (g *Group) do(n, workers int, job Job) {
	workers = max(1, min(workers, n))
	if workers == 1 {
		job.Run(0, 0, n)
		return
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
	// A worker in state gone has no goroutine, so it needs a new one. It cannot be called or working: the Do before
	// this one waited for it or withdrew its call.
	for _, k := range g.workers[:workers-1] {
		if !k.state.CompareAndSwap(waiting, called) {
			k.state.Store(called)
			go k.body()
		}
	}
	g.work(0)
	// Nothing is left to claim, so a worker that has not begun is of no use: take its call back and count it as
	// finished. If the swap fails, the worker is working or has finished, and counts itself.
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

// serve is the goroutine of worker k. It works for the Do that called it, and for those that follow within linger.
func (g *Group) serve(k *worker, w int) {
	wanted := func() bool { return k.state.Load() == called && k.state.CompareAndSwap(called, working) }
	for {
		if !watch(linger, wanted) {
			// If the swap fails, a Do has called in the meantime, and the loop answers it.
			if k.state.CompareAndSwap(waiting, gone) {
				return
			}
			continue
		}
		g.work(w)
		k.state.Store(waiting)
		g.busy.Add(-1)
		g.wg.Done()
		// From here on g belongs to the caller until state is working again: Do may have returned. state became waiting
		// before wg.Done, so that the next Do finds a worker it can call.
	}
}

// looks is how often watch polls before it yields to the scheduler, some 20 µs. Yielding more often is expensive: many
// watchers would contend for the scheduler's lock, and if processors are idle every yield wakes one of them.
const looks = 8192

// watch polls until done returns true or limit has passed, and reports which. It yields to goroutines that have work.
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

// work runs ranges until none is left. After a panic no further range begins, on any goroutine, because next jumps to
// the end; Do panics once the others have ended.
func (g *Group) work(w int) {
	defer func() {
		if v := recover(); v != nil {
			g.next.Store(int64(g.n))
			g.caught.CompareAndSwap(nil, panicOf(v))
		}
	}()
	for {
		lo, hi := g.claim()
		if lo == hi {
			return
		}
		g.job.Run(w, lo, hi)
	}
}

const (
	// A range is 1/(share·workers) of the items that are left. Ranges shrink towards the end, so all workers finish
	// together.
	share = 2
	// No range is smaller than n/(smallest·workers): below that a claim costs more than it balances.
	smallest = 32
	// Sizes from step on are multiples of step, because kernels are fastest on whole tiles of rows.
	step = 16
)

// claim takes the next range; lo = hi means that nothing is left. Ranges are claimed in increasing order.
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

// For is Do for a plain function and about grain items per goroutine. It takes a Group from a shared pool, so
// loops that follow each other closely find its workers awake.
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
	defer shared.Put(g) // also after a panic: do has waited for all workers
	g.do(n, workers, funcJob(body))
}

// shared holds the idle Groups of For. The pool is a stack, so the Group used last, whose workers may still be awake,
// is reused first.
var shared Pool[Group]
