package kernel_test

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// The Gaussian kernel exp(−‖x − y‖²/2s²) between rows, with s = 2.
func ExampleGram() {
	x := dense.MustFromRows([][]float64{{0, 0}, {2, 0}, {0, 4}})
	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 2}
	out := dense.New[float64](3, 3)
	if err := kernel.Gram(k, out, x, x); err != nil {
		panic(err)
	}
	for i := range 3 {
		fmt.Printf("%.3f\n", out.Row(i))
	}
	// Output:
	// [1.000 0.607 0.135]
	// [0.607 1.000 0.082]
	// [0.135 0.082 1.000]
}
