package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Limited runs f. All goroutines that f starts through this package, at any depth, are together at most n at work at
// the same time, the caller among them; n <= 0 means no limit. Inside another Limited the smaller limit holds.
//
// A limit belongs to a call, not to the process: calls with other limits may run at the same time. Go has no
// goroutine-local storage to keep it in, and passing it as an argument would affect every function down to the loops.
// So the limit is encoded in the call stack. f runs below functions that stand for the hexadecimal digits of n, and
// loops look for these functions among their callers. While no limit is in force in the process, nobody looks.
func Limited(n int, f func()) {
	if n <= 0 || n >= runtime.GOMAXPROCS(0) {
		f()
		return
	}
	if outer := Limit(); outer > 0 && outer <= n {
		f()
		return
	}
	below(n, f)
}

// Result is Limited for a function that returns a value and an error.
func Result[R any](n int, f func() (R, error)) (r R, err error) {
	Limited(n, func() { r, err = f() })
	return r, err
}

// Procs is the number of goroutines that can be at work at the same time: GOMAXPROCS, or the limit of the caller.
func Procs() int {
	if n := Limit(); n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// bounded is workers, or the limit of the caller if that is smaller. One worker needs no look at the stack.
func bounded(workers int) int {
	if workers > 1 {
		if most := Limit(); most > 0 {
			return min(workers, most)
		}
	}
	return workers
}

// below runs f below the frames of limit n: a mark, then three hexadecimal digits, the highest first. Larger limits
// than 4095 are cut to it.
func below(n int, f func()) {
	limits.Add(1)
	defer limits.Add(-1)
	n = min(n, 1<<12-1)
	frameMark(func() { digits[n>>8](func() { digits[n>>4&15](func() { digits[n&15](f) }) }) })
}

// limits counts the calls of below that are under way, so that Limit costs one atomic load while there are none.
var limits atomic.Int64

// Limit is the limit of the innermost Limited among the callers; 0 means none. Code that starts goroutines divides it
// among them. The walk goes from the innermost frame outwards: it meets the digits of the innermost limit first, lowest
// digit first, and then its mark, where it stops.
func Limit() int {
	if limits.Load() == 0 {
		return 0
	}
	known := framePCs()
	n, shift := 0, 0
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		got := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:got] {
			if pc < known.least || pc > known.most {
				continue
			}
			if pc == known.mark {
				return n
			}
			for d, at := range known.digits {
				if pc == at {
					n |= d << shift
					shift += 4
				}
			}
		}
		if got < len(pcs) {
			return 0
		}
	}
}

// framePCs are the program counters at which the frame functions call f, as runtime.Callers reports them. Each function
// has a single call and is never inlined, so one program counter identifies it.
var framePCs = sync.OnceValue(func() (p struct {
	mark, least, most uintptr
	digits            [16]uintptr
}) {
	caller := func() uintptr { // program counter two frames up: in the frame function
		var pc [1]uintptr
		runtime.Callers(3, pc[:])
		return pc[0]
	}
	frameMark(func() { p.mark = caller() })
	p.least, p.most = p.mark, p.mark
	for d, f := range digits {
		f(func() { p.digits[d] = caller() })
		p.least, p.most = min(p.least, p.digits[d]), max(p.most, p.digits[d])
	}
	return p
})

// The frame functions. Their bodies are equal, so they must stay separate functions: go:noinline keeps them on the
// stack.

//go:noinline
func frameMark(f func()) { f() }

var digits = [16]func(func()){frame0, frame1, frame2, frame3, frame4, frame5, frame6, frame7, frame8, frame9, frameA,
	frameB, frameC, frameD, frameE, frameF}

//go:noinline
func frame0(f func()) { f() }

//go:noinline
func frame1(f func()) { f() }

//go:noinline
func frame2(f func()) { f() }

//go:noinline
func frame3(f func()) { f() }

//go:noinline
func frame4(f func()) { f() }

//go:noinline
func frame5(f func()) { f() }

//go:noinline
func frame6(f func()) { f() }

//go:noinline
func frame7(f func()) { f() }

//go:noinline
func frame8(f func()) { f() }

//go:noinline
func frame9(f func()) { f() }

//go:noinline
func frameA(f func()) { f() }

//go:noinline
func frameB(f func()) { f() }

//go:noinline
func frameC(f func()) { f() }

//go:noinline
func frameD(f func()) { f() }

//go:noinline
func frameE(f func()) { f() }

//go:noinline
func frameF(f func()) { f() }
