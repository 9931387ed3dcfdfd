package par

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// busy counts who is at work.
type busy struct{ now, most atomic.Int64 }

func (b *busy) work() {
	n := b.now.Add(1)
	for m := b.most.Load(); n > m && !b.most.CompareAndSwap(m, n); m = b.most.Load() {
	}
	time.Sleep(200 * time.Microsecond)
	b.now.Add(-1)
}

func (b *busy) Item(*struct{}, int) error {
	b.work()
	return nil
}

// Loops of every kind, also inside of each other, keep to the limit of their caller; without one they do not.
func TestLimited(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	var c Crew[struct{}]
	kinds := map[string]func(b *busy){
		"For":  func(b *busy) { For(200, 1, func(lo, hi int) { b.work() }) },
		"Crew": func(b *busy) { c.Do(100, 16, b) },
		"Each": func(b *busy) { Each(100, 16, func(_, _ int) { b.work() }) },
		"nested": func(b *busy) {
			For(4, 1, func(lo, hi int) { For(30, 1, func(lo, hi int) { b.work() }) })
		},
		"stream": func(b *busy) {
			n := 0
			s := Stream[int]{Workers: 16, Window: 32, Ahead: true, Work: func(*int) { b.work() },
				Take: func(*int) Took {
					if n++; n > 50 {
						return NoItem
					}
					return Item
				}}
			for s.Next() != nil {
			}
			s.Close()
		},
	}
	for name, run := range kinds {
		for _, limit := range []int{1, 2, 5, 0} {
			var b busy
			Limited(limit, func() { run(&b) })
			most := b.most.Load()
			if limit > 0 && most > int64(limit) {
				t.Errorf("%s: %d at work, the limit is %d", name, most, limit)
			}
			if limit == 0 && most < 2 || limit == 5 && most < 2 && name != "stream" {
				t.Errorf("%s: %d at work with limit %d, want several", name, most, limit)
			}
		}
	}
	if limits.Load() != 0 {
		t.Errorf("%d limits in force after all calls", limits.Load())
	}
}

// A limit is that of a call, not of others at the same time; the smaller of two holds; a panic ends it.
func TestLimitsBelongToCalls(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5000))
	var wg sync.WaitGroup
	for n := 1; n < 5000; n = 3*n + 1 {
		wg.Go(func() {
			for range 100 {
				Limited(n, func() {
					if got := Limit(); got != min(n, 1<<12-1) || Procs() != got || Workers(1<<20, 1) != got {
						t.Errorf("limit %d, want %d", got, n)
					}
					Limited(n+7, func() {
						if Limit() != min(n, 1<<12-1) {
							t.Errorf("limit %d inside of %d", Limit(), n)
						}
					})
					Limited(2, func() {
						if Limit() != min(n, 2) {
							t.Errorf("limit %d inside of 2 inside of %d", Limit(), n)
						}
					})
				})
				if Limit() != 0 {
					t.Errorf("limit %d outside", Limit())
				}
			}
		})
	}
	wg.Wait()
	if p := Catch(func() { Limited(2, func() { panic("bomb") }) }); p == nil || limits.Load() != 0 {
		t.Errorf("%d limits after a panic, %v", limits.Load(), p)
	}
	var deep func(n int)
	deep = func(n int) {
		if n > 0 {
			deep(n - 1)
		} else if Limit() != 3 {
			t.Errorf("limit %d below a deep stack, want 3", Limit())
		}
	}
	Limited(3, func() { deep(1000) })
}
