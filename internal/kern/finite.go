package kern

import (
	"sync"

	"github.com/randfeat/randfeat/dense"
)

// finite is Finite from the entries of t. It multiplies by zero, which is exact for all finite numbers, so large
// numbers do not overflow.
func finite[T dense.Float](t *Table[T], x []T) bool {
	pool := &finite64
	if _, ok := any(x).([]float32); ok {
		pool = &finite32
	}
	m, _ := pool.Get().(*finiteMemory[T])
	if m == nil {
		m = new(finiteMemory[T])
	}
	defer pool.Put(m)
	for len(x) > 0 {
		cols := min(finiteCols, len(x))
		rows := min(finiteRows, len(x)/cols)
		part := dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: x[:rows*cols]}
		t.MulV(m.sums[:rows], part, m.zeros[:cols])
		for _, s := range m.sums[:rows] {
			if s != 0 {
				return false
			}
		}
		x = x[rows*cols:]
	}
	return true
}

// finite treats x as rows of finiteCols elements and multiplies finiteRows of them by zeros per call.
const (
	finiteCols = 256
	finiteRows = 64
)

type finiteMemory[T dense.Float] struct {
	zeros [finiteCols]T
	sums  [finiteRows]T
}

var finite32, finite64 sync.Pool
