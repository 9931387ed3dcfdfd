package backend_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/randfeat/randfeat/gomlx/backend"
)

// An empty configuration takes the fastest backend that is installed; "go" needs nothing but Go.
func ExampleOpen() {
	b, _, err := backend.Open("go")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Finalize()
	sum, err := graph.CallOnce(b, func(x *graph.Node) *graph.Node { return graph.ReduceAllSum(x) }, []float32{1, 2, 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum.Value())
	// Output: 7
}
