package dense

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	// freshFrom bytes and more are cleared by all cores: make clears on one, which for a large output takes longer than
	// computing it on many.
	freshFrom = 8 << 20
	// freshPart bytes are cleared at a time: whole huge pages.
	freshPart = 2 << 20
)

// fresh is make([]T, n).
func fresh[T Float](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	workers := min(runtime.GOMAXPROCS(0), n/(freshPart/size))
	if n < freshFrom/size || workers < 2 {
		x := make([]T, n)
		adviseHuge(x)
		return x
	}
	x := unset[T](n)
	adviseHuge(x)
	var next atomic.Int64
	var wg sync.WaitGroup
	clearParts := func() {
		const step = freshPart
		for {
			lo := int(next.Add(step/int64(size))) - step/size
			if lo >= n {
				return
			}
			clear(x[lo:min(lo+step/size, n)])
		}
	}
	for range workers - 1 {
		wg.Go(clearParts)
	}
	clearParts()
	wg.Wait()
	return x
}

// unset is memory of n > 0 numbers that may hold anything. A strings.Builder gets its own without clearing it; if one
// day it does not, nothing but time is lost.
func unset[T Float](n int) []T {
	var b strings.Builder
	b.Grow(n * int(unsafe.Sizeof(T(0))))
	b.WriteByte(0)
	// The builder and its string end here: nobody else sees the bytes.
	p := unsafe.Pointer(unsafe.StringData(b.String()))
	if uintptr(p)%unsafe.Alignof(T(0)) != 0 {
		return make([]T, n)
	}
	return unsafe.Slice((*T)(p), n)
}
