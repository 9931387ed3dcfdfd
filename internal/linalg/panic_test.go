package linalg

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

var errBomb = errors.New("bomb")

// panics runs f, which has to end with the panic errBomb.
func panics(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan *par.Panic)
	go func() { ended <- par.Catch(f) }()
	select {
	case p := <-ended:
		if !errors.Is(p, errBomb) {
			t.Errorf("%s: the caller got %v", what, p)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: all wait for what has panicked", what)
	}
}

// bombRows are givenRows that panic where they would fail.
type bombRows struct{ givenRows[float64] }

func (b bombRows) Rows(first int, phi dense.Matrix[float64], y dense.Matrix[float64]) error {
	if err := b.givenRows.Rows(first, phi, y); err != nil {
		time.Sleep(20 * time.Millisecond) // others come to wait for these rows
		panic(errBomb)
	}
	return nil
}

// Items that wait for one that has panicked end too, and what they belong to can be used again.
func TestPanicsReachTheCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const n, f, k = 3000, 67, 2
	phi, y := random(6, n, f), random(7, n, k+1)
	var b Blocks[float64]
	for _, fails := range []int{0, 500, 1500, 2999} {
		var s Normal
		s.Reset(f, k)
		panics(t, "rows", func() { b.Add(&s, bombRows{givenRows[float64]{phi, y, fails}}, n, 256) })
		if err := b.Add(&s, givenRows[float64]{phi, y, n}, n, 256); err != nil {
			t.Error(err)
		}
	}
	tab := *kern.Best[float64]()
	mul := tab.TMul
	for _, at := range []int64{1, 30, 200} {
		var calls atomic.Int64
		tab.TMul = func(dst, a, b dense.Matrix[float64]) {
			if calls.Add(1) == at {
				panic(errBomb)
			}
			mul(dst, a, b)
		}
		a := dense.New[float64](900, 900)
		for i := range a.Rows {
			a.Set(i, i, -1)
		}
		panics(t, "Cholesky", func() { choleskyMinus(&tab, a) })
	}
}
