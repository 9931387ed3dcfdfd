package par

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestForCoversEachItemOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	for n := range 40 {
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

type nopJob struct{}

func (nopJob) Run(_, _, _ int) {}

func TestWarmGroupDoesNotAllocate(t *testing.T) {
	var g Group
	if a := testing.AllocsPerRun(50, func() { g.Do(100, 4, nopJob{}) }); a > 0 {
		t.Errorf("%v allocations per Do", a)
	}
}
