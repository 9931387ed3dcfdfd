package dense

import (
	"runtime"
	"testing"
	"unsafe"
)

// Memory that was not cleared by make is zero when it is handed out, though what was there before was not, belongs to
// who has any part of it, and lasts as long.
func TestFresh(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	testFresh[float32](t)
	testFresh[float64](t)
}

func testFresh[T Float](t *testing.T) {
	size := int(unsafe.Sizeof(T(0)))
	ends := map[int][]T{}
	for round := range 6 {
		n := freshFrom/size + round*1237
		x := fresh[T](n)
		if len(x) != n {
			t.Fatalf("%d numbers, want %d", len(x), n)
		}
		for i, v := range x {
			if v != 0 {
				t.Fatalf("number %d of %d is %v", i, n, v)
			}
			x[i] = T(round + 1)
		}
		ends[round+1] = x[n-3:]
		if round%2 == 1 { // half of the memory is given back, and comes again
			delete(ends, round)
			runtime.GC()
		}
	}
	runtime.GC()
	for want, x := range ends {
		for _, v := range x {
			if v != T(want) {
				t.Errorf("the end of memory that is in use has become %v, was %d", v, want)
			}
		}
	}
}

// The memory is the builder's, not a copy's; otherwise clearing would be on one core again.
func TestUnsetIsNotMade(t *testing.T) {
	const n = 1 << 16
	if a := testing.AllocsPerRun(10, func() { sink = unset[float64](n) }); a != 1 {
		t.Errorf("%v allocations, want one", a)
	}
}

var sink []float64
