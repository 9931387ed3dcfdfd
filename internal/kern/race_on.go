//go:build race && amd64 && !noasm

package kern

import (
	"runtime"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// The race detector does not see the memory that assembly touches; these functions report it.

func raceRead[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		runtime.RaceReadRange(data(m.Row(i)), m.Cols*int(unsafe.Sizeof(T(0))))
	}
}

func raceWrite[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		runtime.RaceWriteRange(data(m.Row(i)), m.Cols*int(unsafe.Sizeof(T(0))))
	}
}
