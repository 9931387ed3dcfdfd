package coupling_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
)

// Two projections of an orthogonal block are orthogonal; those of a simplex point as far apart as three vectors can.
func Example() {
	for _, c := range []coupling.Coupling{coupling.Orthogonal{}, coupling.Simplex{}} {
		o, err := c.Sample(3, 3, coupling.Law{}, rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			panic(err)
		}
		x, y := o.Rows.Row(0), o.Rows.Row(1)
		cos := dense.Dot(x, y) / math.Sqrt(dense.Norm2(x)*dense.Norm2(y))
		fmt.Printf("%s: |cosine| %.2f\n", c.Name(), math.Abs(cos))
	}
	// Output:
	// orthogonal: |cosine| 0.00
	// simplex: |cosine| 0.50
}

// Couplings are read from their names, with parameters as JSON where they have any.
func ExampleParse() {
	c, err := coupling.Parse("orthogonal")
	fmt.Println(c.Name(), err)
	_, err = coupling.Parse("orthogonl")
	fmt.Println(err != nil)
	// Output:
	// orthogonal <nil>
	// true
}
