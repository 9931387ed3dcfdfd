package randfeat_test

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// A map of one's own: the features elu(x) + 1 of Katharopoulos et al. 2020. Package attention/linear takes it like any
// other map.
func ExampleFuncMap() {
	m := &randfeat.FuncMap[float64]{Name: "elu+1", In: 2, Out: 2, NonNegative: true,
		Query: func(phi, x []float64) {
			for i, v := range x {
				if phi[i] = 1 + v; v < 0 {
					phi[i] = math.Exp(v)
				}
			}
		}}
	x, phi := dense.MustFromRows([][]float64{{1, 0}, {2, -1}}), dense.New[float64](2, 2)
	if err := m.QueriesScaled(phi, nil, make([]float64, 2), x, nil); err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", phi.Data)
	// Output: [2.000 1.000 3.000 0.368]
}
