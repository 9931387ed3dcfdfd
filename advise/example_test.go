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

// How many features does an error of 20 % take, what would fewer give, and from which length on is attention with them
// faster than exact attention?
func ExampleKernel_target() {
	r := rand.New(rand.NewPCG(1, 2))
	q, k := dense.New[float64](100, 4), dense.New[float64](100, 4)
	for i := range q.Data {
		q.Data[i], k.Data[i] = 0.5*r.NormFloat64(), 0.5*r.NormFloat64()
	}
	report, err := advise.Kernel(context.Background(), q, k, advise.Options{
		Kernel: kernel.Kernel{Kind: kernel.Softmax}, Target: 0.2, Families: []string{"oprf"},
		Couplings: []string{"orthogonal"}, Rows: 32, Draws: 8, Seed: 1})
	if err != nil {
		panic(err)
	}
	if t := report.Target; t.Reached {
		fmt.Printf("an error of %g takes %d features\n", t.Error, t.Features)
	}
	for _, p := range report.Curves[0].Points {
		fmt.Printf("%.0f features: error %.2f\n", p.X, p.Error)
	}
	if c := report.Crossover; c != nil {
		fmt.Println("faster than exact attention from", c.Length, "keys on")
	}
	// Output:
	// an error of 0.2 takes 128 features
	// 16 features: error 0.45
	// 32 features: error 0.33
	// 64 features: error 0.23
	// 128 features: error 0.15
	// 256 features: error 0.10
	// faster than exact attention from 271 keys on
}
