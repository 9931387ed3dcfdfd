package par

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// tally is a step that counts its items and fails where told.
type tally struct {
	begun atomic.Int64
	done  []atomic.Int64
	fails map[int]error
}

type scratch struct{ items int }

func (c *tally) Item(w *scratch, i int) error {
	c.begun.Add(1)
	w.items++
	c.done[i].Add(1)
	if i%3 == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	return c.fails[i]
}

func TestCrewDoesEveryItemOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var c Crew[scratch]
	for _, n := range []int{0, 1, 3, 100} {
		for _, workers := range []int{1, 2, 7} {
			s := &tally{done: make([]atomic.Int64, n)}
			if err := c.Do(n, workers, s); err != nil {
				t.Fatal(err)
			}
			for i := range s.done {
				if s.done[i].Load() != 1 {
					t.Fatalf("n = %d, %d workers: item %d done %d times", n, workers, i, s.done[i].Load())
				}
			}
		}
	}
	if len(c.Workers) > 7 {
		t.Errorf("%d workers for at most 7 goroutines", len(c.Workers))
	}
}

// The lowest item that fails decides, however long the others take; none begins long after.
func TestCrewReturnsTheFirstError(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	low, high := errors.New("low"), errors.New("high")
	var c Crew[scratch]
	for range 200 {
		s := &tally{done: make([]atomic.Int64, 1000), fails: map[int]error{3: low, 4: high, 5: high}}
		if err := c.Do(1000, 4, s); err != low {
			t.Fatalf("error %v, want that of the lowest item", err)
		}
		if n := s.begun.Load(); n > 10 {
			t.Fatalf("%d items begun after a failure among the first 6", n)
		}
	}
	s := &tally{done: make([]atomic.Int64, 5)}
	if err := c.Do(5, 2, s); err != nil || s.begun.Load() != 5 {
		t.Errorf("after a failure: %v, %d items of 5", err, s.begun.Load())
	}
}

func TestCrewDoesNotAllocate(t *testing.T) {
	var c Crew[scratch]
	s := &tally{done: make([]atomic.Int64, 20)}
	run := func() {
		s.begun.Store(0)
		if err := c.Do(20, 2, s); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations in a warm crew", n)
	}
}
