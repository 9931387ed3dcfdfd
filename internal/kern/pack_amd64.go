//go:build amd64 && !noasm

package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// packWith is the packer of a vector of lanes elements; 16 bytes of a row make a block.
func packWith[T dense.Float](lanes int, kernel func(dst, w *T, stride, blocks int)) packer[T] {
	size := int(unsafe.Sizeof(T(0)))
	return packer[T]{rows: lanes, cols: 16 / size, kernel: func(dst []T, w dense.Matrix[T], blocks int) {
		raceRead(w)
		kernel(&dst[0], &w.Data[0], w.Stride*size, blocks)
	}}
}
