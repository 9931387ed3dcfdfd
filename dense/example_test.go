package dense_test

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// A matrix is a view of a slice: rows, and ranges of them, share its memory.
func Example() {
	m := dense.MustFromRows([][]float64{{1, 2}, {3, 4}, {5, 6}})
	last := m.RowRange(1, 3)
	last.Set(1, 0, 50)
	fmt.Println(m.Row(2), last.Rows, dense.Dot(m.Row(0), m.Row(1)))
	fmt.Println(dense.Convert[float32](last).Data)
	// Output:
	// [50 6] 2 11
	// [3 4 50 6]
}
