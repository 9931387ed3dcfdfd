package par

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func count(n int) []int {
	c := make([]int, n)
	for i := range c {
		c[i] = i
	}
	return c
}

func TestForCoversEachItemOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	for _, n := range append([]int{100, 1000, 1001, 12345}, count(40)...) {
		hits := make([]int32, n)
		For(n, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				atomic.AddInt32(&hits[i], 1)
			}
		})
		for i, h := range hits {
			if h != 1 {
				t.Fatalf("n = %d: item %d ran %d times", n, i, h)
			}
		}
	}
}

// stuckJob holds its second worker in one part until the rest is done.
type stuckJob struct {
	n    int
	done [2]atomic.Int64
	once sync.Once
	rest chan struct{}
}

func (j *stuckJob) Run(worker, lo, hi int) {
	if worker == 1 {
		j.done[1].Add(int64(hi - lo))
		<-j.rest
		return
	}
	for j.done[1].Load() == 0 { // until the other has claimed something
		runtime.Gosched()
	}
	if j.done[0].Add(int64(hi-lo))+j.done[1].Load() == int64(j.n) {
		j.once.Do(func() { close(j.rest) })
	}
}

// A worker that is held up keeps one part, not its share: the others do the rest.
func TestDoBalances(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var g Group
	for range 20 {
		j := stuckJob{n: 1000, rest: make(chan struct{})}
		g.Do(j.n, 2, &j)
		a, b := j.done[0].Load(), j.done[1].Load()
		if a+b != int64(j.n) || b > int64(j.n)/4 {
			t.Fatalf("%d and %d items of %d", a, b, j.n)
		}
	}
}

type nopJob struct{}

func (nopJob) Run(_, _, _ int) {}

func TestWarmGroupDoesNotAllocate(t *testing.T) {
	var g Group
	if a := testing.AllocsPerRun(50, func() { g.Do(100, 4, nopJob{}) }); a > 0 {
		t.Errorf("%v allocations per Do", a)
	}
}

type sumJob struct{ sum atomic.Int64 }

func (j *sumJob) Run(_, lo, hi int) {
	for i := lo; i < hi; i++ {
		j.sum.Add(int64(i))
	}
}

// Calls at any distance, with workers that are still there, about to leave or gone: each item once, and no goroutine
// left soon after.
func TestWorkersComeAndGo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	before := runtime.NumGoroutine()
	var groups [3]Group
	const n = 999
	for i := range 300 {
		for k := range groups {
			var j sumJob
			groups[k].Do(n, 2+(i+k)%3, &j)
			if s := j.sum.Load(); s != n*(n-1)/2 {
				t.Fatalf("call %d: sum %d", i, s)
			}
		}
		for start := time.Now(); time.Since(start) < time.Duration(i%4)*linger/2; {
			runtime.Gosched()
		}
	}
	For(n, 1, func(lo, hi int) {})
	// A loaded machine may keep a goroutine from ending on time, not for seconds.
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(linger) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// A goroutine that does not get to run is not waited for: here the only thread is the caller's, and its job never
// leaves it.
func TestDoDoesNotWaitForWhoNeverCame(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var g Group
	for range 100 {
		var j sumJob
		g.Do(999, 4, &j)
		if s := j.sum.Load(); s != 999*998/2 {
			t.Fatalf("sum %d", s)
		}
		for _, k := range g.workers {
			if s := k.state.Load(); s != waiting && s != gone {
				t.Fatalf("a worker in state %d after Do", s)
			}
		}
	}
}
