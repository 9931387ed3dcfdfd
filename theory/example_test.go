package theory_test

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
)

// How much 64 coupled projections gain over independent ones, for positive features
// of a pair with |x+y|² = 0.01 in dimension 64 (SimRF Fig 6).
func ExampleLogRelMSE() {
	const d, m, v2 = 64, 64, 0.01
	rv := forms.LogRVPositive(v2)
	iid, _ := forms.LogRelMSE(forms.Exponential, coupling.PairIndependent, d, m, rv, v2)
	for _, law := range []coupling.PairKind{coupling.PairOrthogonal, coupling.PairSimplex} {
		mse, err := forms.LogRelMSE(forms.Exponential, law, d, m, rv, v2)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %.4f of the iid error\n", law, math.Exp(mse-iid))
	}
	// Output:
	// orthogonal: 0.9953 of the iid error
	// simplex: 0.0082 of the iid error
}
