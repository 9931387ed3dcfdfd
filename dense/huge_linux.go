package dense

import (
	"syscall"
	"unsafe"
)

// hugeFrom bytes and more are asked to lie on huge pages: writing fresh memory then costs one page fault every 2 MiB
// instead of every 4 KiB, which for a large output takes longer than computing it. NumPy does the same.
const (
	hugeFrom = 4 << 20
	hugePage = 2 << 20
)

// adviseHuge is a hint: refused or ignored, it changes nothing but time.
func adviseHuge[T Float](x []T) {
	n := len(x) * int(unsafe.Sizeof(T(0)))
	if n < hugeFrom {
		return
	}
	p := unsafe.Pointer(unsafe.SliceData(x))
	lo, hi := hugeRange(uintptr(p), n)
	_ = syscall.Madvise(unsafe.Slice((*byte)(p), n)[lo:hi], syscall.MADV_HUGEPAGE)
}

// hugeRange is the part of n bytes at address p that consists of whole huge pages.
func hugeRange(p uintptr, n int) (lo, hi int) {
	lo = int(-p % hugePage)
	return lo, lo + (n-lo)/hugePage*hugePage
}
