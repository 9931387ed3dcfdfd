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

// Which columns does the function use? Each kind of metric answers differently: the square root keeps some weight on
// columns that matter little, and only a full metric sees a direction between columns. Metrics from two halves of the
// rows show how far to trust the answer.
func ExampleKinds() {
	r := rand.New(rand.NewPCG(1, 1))
	x, alpha := dense.New[float64](400, 3), dense.New[float64](400, 1)
	for i := range x.Rows {
		for l := range x.Cols {
			x.Set(i, l, r.NormFloat64())
		}
		alpha.Set(i, 0, math.Sin(2*x.At(i, 0))+0.3*x.At(i, 1))
	}
	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 1}
	learn := func(kind metric.Kind, lo, hi int) dense.Matrix[float64] {
		rows := x.RowRange(lo, hi)
		g, err := metric.AGOP(k, rows, alpha.RowRange(lo, hi), rows, kind.Full())
		if err != nil {
			panic(err)
		}
		m, err := metric.Matrix(kind, g)
		if err != nil {
			panic(err)
		}
		return m
	}
	for _, kind := range metric.Kinds() {
		fmt.Printf("%-5v shares of the columns %.2f, halves agree to %.3f\n", kind, metric.Shares(learn(kind, 0, 400)),
			metric.Alike(learn(kind, 0, 200), learn(kind, 200, 400)))
	}

	// Other methods see the metric as a change of coordinates, such as nearest neighbours by Euclidean distance.
	u := dense.New[float64](2, 3)
	metric.Apply(u, dense.MustFromRows([][]float64{{1, 0, 0}, {0, 0, 1}}), learn(metric.Diagonal, 0, 400))
	fmt.Printf("a step of 1 in column 0 counts %.1f, in column 2 %.1f\n", math.Sqrt(dense.Norm2(u.Row(0))),
		math.Sqrt(dense.Norm2(u.Row(1))))
	cautious := learn(metric.DiagonalRoot, 0, 400)
	fmt.Printf("with the square root: %.1f and %.1f\n", cautious.At(0, 0), cautious.At(2, 2))
	// Output:
	// diag½ shares of the columns [0.56 0.28 0.16], halves agree to 0.996
	// diag  shares of the columns [0.75 0.19 0.06], halves agree to 0.994
	// full½ shares of the columns [0.57 0.26 0.17], halves agree to 0.984
	// a step of 1 in column 0 counts 1.5, in column 2 0.4
	// with the square root: 1.2 and 0.7
}
