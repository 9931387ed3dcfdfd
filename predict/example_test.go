package predict_test

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/predict"
)

// The errors to expect of one query over two keys, one of which has two thirds of the attention.
func ExamplePredictor() {
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 2, M: 256}
	keys := predict.Keys{
		Embedded:  dense.Matrix[float64]{Rows: 2, Cols: 2, Stride: 2, Data: []float64{0.5, 0.2, -0.4, 0.1}},
		Attention: []float64{2. / 3, 1. / 3},
		Exact:     make([]bool, 2),
		// of 1 and 0 from ⅔
		Deviations: dense.Matrix[float64]{Rows: 2, Cols: 1, Stride: 1, Data: []float64{1. / 3, -2. / 3}},
	}
	p := predict.New(spec)
	row, err := p.Row([]float64{0.7, -0.1}, keys)
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := p.Sum()
	sum.Add(row, 4./9, 5./9) // squared lengths of the output and of the attention
	total := sum.Prediction()
	fmt.Printf("output %.3f, attention %.3f, denominator %.3f (%v)\n", total.Output, total.Row, total.Denominator,
		total.Method)
	// Output: output 0.033, attention 0.041, denominator 0.080 (covariances)
}
