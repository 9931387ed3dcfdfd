package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Limited runs f. Whatever f runs in parallel through this package, at any depth, has at most n goroutines at work at
// the same time, the caller among them; n <= 0 means no limit. Inside another Limited the smaller limit holds.
//
// A limit belongs to a call, not to the process: calls with other limits may run at the same time. Go has no memory of
// a goroutine in which to keep it, and an argument would have to go through every function down to the loops. So the
// limit is kept in the stack of the call: f runs below functions that stand for the digits of n, which loops look for
// among their callers. While no limit is in force in the process, nobody looks.
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

// Result is Limited for a function that returns something.
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

// bounded is a number of workers, or the limit.
func bounded(workers int) int {
	if workers > 1 {
		if most := Limit(); most > 0 {
			return min(workers, most)
		}
	}
	return workers
}

// below runs f below the frames of limit n.
func below(n int, f func()) {
	limits.Add(1)
	defer limits.Add(-1)
	n = min(n, 1<<12-1)
	frameMark(func() { digits[n>>8](func() { digits[n>>4&15](func() { digits[n&15](f) }) }) })
}

// limits is how many calls of below are under way.
var limits atomic.Int64

// Limit is that of the innermost Limited among the callers; 0: none. Who starts goroutines divides it among them.
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

// framePCs are the places in the functions below at which they call f, as runtime.Callers gives them.
var framePCs = sync.OnceValue(func() (p struct {
	mark, least, most uintptr
	digits            [16]uintptr
}) {
	caller := func() uintptr { // of who calls the caller of this
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

// The frames: each calls f from one place.

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
