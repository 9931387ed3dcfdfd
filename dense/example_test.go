package dense_test

import (
	"errors"
	"fmt"
	"math"

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

// Rows of a decoder or of another package become a matrix. Ragged rows are an error, and so are numbers that no
// computation can use.
func ExampleFromRows() {
	_, err := dense.FromRows([][]float64{{1, 2}, {3}})
	fmt.Println(err, errors.Is(err, dense.ErrShape))
	m, err := dense.FromRows([][]float64{{1, 2}, {3, math.NaN()}})
	if err != nil {
		panic(err)
	}
	var bad *dense.NotFiniteError
	fmt.Println(errors.As(m.CheckFinite(), &bad), bad.Row, bad.Col)
	// Output:
	// row 1 has 1 columns, row 0 has 2: wrong shape true
	// true 1 1
}
