package par

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// panics runs f, which has to panic with a Panic of v, and not to hang.
func panics(t *testing.T, what string, v any, f func()) {
	t.Helper()
	ended := make(chan any)
	go func() {
		defer func() { ended <- recover() }()
		f()
	}()
	select {
	case got := <-ended:
		p, ok := got.(*Panic)
		if !ok || p.Value != v || !strings.Contains(string(p.Stack), "panic_test.go") {
			t.Fatalf("%s: %v, want a Panic of %v with the stack of who panicked", what, got, v)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: still waiting", what)
	}
}

var errBomb = errors.New("bomb")

// bomb goes off in one part, which it is told to or which a worker gets.
type bomb struct {
	item   int // −1: the first part of a worker other than the caller
	others atomic.Bool
	ran    atomic.Int64
}

func (b *bomb) Run(worker, lo, hi int) {
	b.ran.Add(int64(hi - lo))
	if b.item < 0 {
		if worker > 0 {
			b.others.Store(true)
			panic(errBomb)
		}
		for !b.others.Load() { // until the other has begun
			runtime.Gosched()
		}
	} else if lo <= b.item && b.item < hi {
		panic(errBomb)
	}
}

func (b *bomb) Item(_ *struct{}, i int) error {
	b.Run(0, i, i+1)
	return nil
}

// A panic reaches the caller, wherever it happens; later calls of the same Group work.
func TestGroupPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var g Group
	for round := range 50 {
		for _, item := range []int{-1, 0, 57, 9999} {
			b := &bomb{item: item}
			panics(t, fmt.Sprintf("item %d", item), errBomb, func() { g.Do(10000, 4, b) })
			var sum sumJob
			g.Do(1000, 4, &sum)
			if sum.sum.Load() != 1000*999/2 {
				t.Fatalf("round %d: sum %d after a panic", round, sum.sum.Load())
			}
		}
		panics(t, "For", errBomb, func() { For(1000, 1, func(lo, hi int) { (&bomb{item: 900}).Run(0, lo, hi) }) })
		panics(t, "nested For", errBomb, func() {
			For(100, 1, func(lo, hi int) {
				For(100, 1, func(lo, hi int) { (&bomb{item: 7}).Run(0, lo, hi) })
			})
		})
		panics(t, "Each", errBomb, func() { Each(100, 4, func(_, i int) { (&bomb{item: 3}).Run(0, i, i+1) }) })
	}
	if n := len(shared.free); n == 0 || n > 100 {
		t.Errorf("%d groups of For are free, want some", n)
	}
}

// slow is a bomb whose other items take 1 ms.
type slow struct{ bomb }

func (s *slow) Run(worker, lo, hi int) {
	for i := lo; i < hi; i++ {
		if s.bomb.Run(worker, i, i+1); i > s.item {
			time.Sleep(time.Millisecond)
		}
	}
}

func (s *slow) Item(_ *struct{}, i int) error {
	s.Run(0, i, i+1)
	return nil
}

// After a panic nothing begins: the rest of the items would take others some 100 ms.
func TestPanicsEndTheLoop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const n = 400
	var g Group
	var c Crew[struct{}]
	for what, do := range map[string]func(*slow){
		"group": func(s *slow) { g.Do(n, 4, s) }, "crew": func(s *slow) { c.Do(n, 4, s) }} {
		s := &slow{bomb{item: 3}}
		panics(t, what, errBomb, func() { do(s) })
		if ran := s.ran.Load(); ran > n-50 {
			t.Errorf("%s: %d of %d items begun, number 3 panicked", what, ran, n)
		}
	}
}

// waits is a step whose items wait for the one before, which is counted unless it panics.
type waits struct {
	Turns
	item int
}

func (w *waits) Item(_ *struct{}, i int) error {
	if i == w.item {
		panic(errBomb)
	}
	if i > 0 {
		w.Await(i-1, 1)
	}
	w.Done(i)
	return nil
}

func TestCrewPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var c Crew[struct{}]
	for _, workers := range []int{1, 2, 4} {
		for range 30 {
			for _, item := range []int{0, 5, 199} {
				b := &bomb{item: item}
				panics(t, "crew", errBomb, func() { c.Do(200, workers, b) })
				w := &waits{item: item}
				w.Reset(200)
				panics(t, "items that wait", errBomb, func() { c.Do(200, workers, w) })
				w.item = -1
				w.Reset(200)
				if err := c.Do(200, workers, w); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// The caller of Next gets the panic of an item or of the source; nothing is left that Close waits for.
func TestStreamPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, workers := range []int{1, 4} {
		for _, ahead := range []bool{false, true} {
			for _, take := range []int{-1, 0, 1, 20} {
				n := 0
				s := Stream[int]{Workers: workers, Window: 8, Ahead: ahead,
					Take: func(i *int) Took {
						if n == take {
							panic(errBomb)
						}
						if *i = n; n == 50 {
							return NoItem
						}
						n++
						return Item
					},
					Work: func(i *int) {
						if *i == 30 {
							panic(errBomb)
						}
					}}
				next := func() {
					for s.Next() != nil {
					}
				}
				panics(t, "Next", errBomb, next)
				panics(t, "Next again", errBomb, next)
				s.Close()
			}
		}
	}
}

func TestCatch(t *testing.T) {
	if p := Catch(func() {}); p != nil {
		t.Errorf("%v without a panic", p)
	}
	p := Catch(func() { panic(errBomb) })
	if !errors.Is(p, errBomb) || !strings.HasPrefix(p.Error(), "bomb\n") {
		t.Errorf("%v", p)
	}
	if again := Catch(func() { panic(p) }); again != p {
		t.Errorf("a panic that is handed on became %v", again)
	}
	if errors.Unwrap(Catch(func() { panic("text") })) != nil {
		t.Error("a text was unwrapped")
	}
}
