package attention_test

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Exact attention of one head; a causal mask hides later keys.
func ExampleExact() {
	q := dense.MustFromRows([][]float32{{1, 0}, {0, 1}})
	v := dense.MustFromRows([][]float32{{1}, {2}})
	for _, causal := range []bool{false, true} {
		out := dense.New[float32](2, 1)
		a := attention.Exact[float32]{Visibility: attention.Visibility{Causal: causal}}
		if _, err := a.Forward(attention.One(out), attention.One(q), attention.One(q), attention.One(v)); err != nil {
			panic(err)
		}
		fmt.Printf("%.3f\n", out.Data)
	}
	// Output:
	// [1.330 1.670]
	// [1.000 1.670]
}
