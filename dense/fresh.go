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

// unset is memory of n > 0 numbers that may hold anything: that of a strings.Builder, which gets its own without
// clearing it. Why this is sound:
//
//   - The collector knows the memory as one object without pointers, of Cap bytes, which is what a slice of numbers is;
//     a slice of any part of it keeps all of it, as always.
//   - The builder and its strings end here, so nobody sees bytes of a string change.
//   - That the string lies at the beginning of the builder's memory is documented nowhere, so it is looked at: a string
//     that was copied would lie elsewhere after another byte. Otherwise, or if it is not aligned, the memory is made in
//     the usual way. If a Builder clears one day, nothing but time is lost.
func unset[T Float](n int) []T {
	size := n * int(unsafe.Sizeof(T(0)))
	var b strings.Builder
	b.Grow(size)
	b.WriteByte(0)
	p := unsafe.StringData(b.String())
	b.WriteByte(0)
	if unsafe.StringData(b.String()) != p || b.Cap() < size || uintptr(unsafe.Pointer(p))%unsafe.Alignof(T(0)) != 0 {
		return make([]T, n)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(p)), n)
}
