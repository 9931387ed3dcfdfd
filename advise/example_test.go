package advise_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Which features estimate the softmax kernel of these rows best? Candidates are fitted to one part of the rows and
// measured on another; the recommended spec draws a map at once.
func ExampleKernel() {
	r := rand.New(rand.NewPCG(1, 2))
	x := dense.New[float64](300, 8)
	for i := range x.Data {
		x.Data[i] = 0.6 * r.NormFloat64()
	}
	report, err := advise.Kernel(context.Background(), x, dense.Matrix[float64]{}, advise.Options{
		Kernel: kernel.Kernel{Kind: kernel.Softmax}, Features: 128, Families: []string{"trig", "positive", "oprf"},
		Couplings: []string{"iid", "orthogonal"}, Rows: 64, Draws: 16, Brief: true, Seed: 1})
	if err != nil {
		panic(err)
	}
	m, err := randfeat.New[float64](*report.Spec)
	if err != nil {
		panic(err)
	}
	best := report.Ranking[report.Best]
	fmt.Println(best.Name, m.OutDim(), len(report.Ranking))
	// Output: oprf, orthogonal 128 6
}
