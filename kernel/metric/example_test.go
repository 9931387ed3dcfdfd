package metric_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/kernel/metric"
)

// A function of x₁ − x₂ alone: its gradients say so, and a metric of them is one for kernels and for the family DARK.
func Example() {
	r := rand.New(rand.NewPCG(1, 1))
	x, alpha := dense.New[float64](200, 3), dense.New[float64](200, 1)
	for i := range x.Rows {
		for l := range x.Cols {
			x.Set(i, l, r.NormFloat64())
		}
		alpha.Set(i, 0, math.Sin(x.At(i, 0)-x.At(i, 1)))
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 1}
	g, err := metric.AGOP(k, x, alpha, x, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	if k.M, err = metric.Matrix(metric.FullRoot, g); err != nil {
		fmt.Println(err)
		return
	}
	first, err := metric.Directions(k.M, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f of the metric along %.1f\n", first[0].Share, first[0].Vector)
	// Output: 0.63 of the metric along [0.7 -0.7 0.0]
}
