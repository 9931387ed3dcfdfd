package kernel_test

import (
	"errors"
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

// Kernels of the origin with points at the distances 0.1, 1 and 3 along an axis, and 1 off the axes. Rough kernels fall
// at once and have long tails; smooth kernels are flat near 0. The Matérn kernels approach the Gaussian as they get
// smoother. Only the Laplace kernel depends on the axes.
func ExampleKind() {
	origin := dense.New[float64](1, 2)
	points := dense.MustFromRows([][]float64{{0.1, 0}, {1, 0}, {3, 0}, {0.6, 0.8}})
	out := dense.New[float64](1, 4)
	for _, kind := range []kernel.Kind{kernel.Laplace, kernel.Matern12, kernel.Matern32, kernel.Matern52,
		kernel.Gaussian} {
		if err := kernel.Gram(kernel.Kernel{Kind: kind}, out, origin, points); err != nil {
			panic(err)
		}
		fmt.Printf("%-8s %.3f\n", kind, out.Row(0))
	}
	// Output:
	// laplace  [0.905 0.368 0.050 0.247]
	// matern12 [0.905 0.368 0.050 0.368]
	// matern32 [0.987 0.483 0.034 0.483]
	// matern52 [0.992 0.524 0.028 0.524]
	// gaussian [0.995 0.607 0.011 0.607]
}

// A kernel name of a user is checked before any row is read.
func ExampleParseKind() {
	k, err := kernel.ParseKind("matern32")
	fmt.Println(k, err)
	k, err = kernel.ParseKind("rbf") // as scikit-learn calls it
	fmt.Println(k, err)
	_, err = kernel.ParseKind("poly")
	fmt.Println(errors.Is(err, kernel.ErrKernel))
	fmt.Println(err)
	// Output:
	// matern32 <nil>
	// gaussian <nil>
	// true
	// kernel "poly": want gaussian, softmax, bessel, laplace, matern12, matern32 or matern52: invalid kernel
}

// The density of 2000 rows at each of them: the row means of a Gram matrix that is never in memory as a whole.
func ExampleEachBlock() {
	x := dense.New[float64](2000, 1)
	for i := range x.Data {
		t := float64(i)/1000 - 1
		x.Data[i] = t * t * t // crowded around 0, which is row 1000
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 0.05}
	densest, highest, blocks := 0, 0.0, 0
	err := kernel.EachBlock(k, x, x, func(first int, block dense.Matrix[float64]) error {
		blocks++
		for i := range block.Rows {
			sum := 0.0
			for _, v := range block.Row(i) {
				sum += v
			}
			if mean := sum / float64(x.Rows); mean > highest {
				densest, highest = first+i, mean
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d blocks; the densest row is %d, with a mean kernel of %.2f\n", blocks, densest, highest)
	// Output: 8 blocks; the densest row is 1000, with a mean kernel of 0.38
}
