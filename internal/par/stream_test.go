package par

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// numbers is a source of n items.
type numbers struct {
	n, next int
	taking  atomic.Int32
	held    atomic.Int32
	most    atomic.Int32
}

type number struct{ i, square int }

func (s *numbers) take(t *number) Took {
	if s.taking.Add(1) > 1 {
		panic("two at a time")
	}
	defer s.taking.Add(-1)
	if s.next == s.n {
		return NoItem
	}
	t.i = s.next
	s.next++
	for h, m := s.held.Add(1), s.most.Load(); h > m && !s.most.CompareAndSwap(m, h); m = s.most.Load() {
	}
	if s.next == s.n && s.n%2 == 0 {
		return LastItem
	}
	return Item
}

func (s *numbers) work(t *number) {
	if t.i%5 == 0 {
		time.Sleep(20 * time.Microsecond)
	}
	t.square = t.i * t.i
}

// Items come in order, whatever the goroutines do, and no more are held than allowed; goroutines do not stay.
func TestStream(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	before := runtime.NumGoroutine()
	for _, n := range []int{0, 1, 2, 7, 300} {
		for _, workers := range []int{1, 2, 5} {
			for _, ahead := range []bool{false, true} {
				src := &numbers{n: n}
				s := Stream[number]{Take: src.take, Work: src.work, Workers: workers, Window: 2*workers - 1,
					Ahead: ahead}
				i := 0
				for x := s.Next(); x != nil; x = s.Next() {
					if x.i != i || x.square != i*i {
						t.Fatalf("item %d of %d: %+v", i, n, *x)
					}
					i++
					src.held.Add(-1)
				}
				if s.Close(); i != n || int(src.most.Load()) > s.Window+1 { // one is in the hand of the caller
					t.Errorf("%d items of %d, %d held, %d allowed", i, n, src.most.Load(), s.Window)
				}
				if n < 2 && s.started > 0 || workers == 1 && s.started > 0 {
					t.Errorf("%d goroutines for %d items and %d workers", s.started, n, workers)
				}
			}
		}
	}
	// One that is forgotten.
	src := &numbers{n: 1 << 30}
	s := Stream[number]{Take: src.take, Work: src.work, Workers: 4, Window: 8, Ahead: true}
	s.Next()
	for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
	if s.Close(); src.next > 9 {
		t.Errorf("%d items taken ahead of 1, 8 allowed", src.next)
	}
}
