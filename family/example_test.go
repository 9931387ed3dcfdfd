package family_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Fitted to data, OPRF estimates the softmax kernel with a smaller error than plain positive features.
func Example() {
	const n, d = 200, 8
	r := rand.New(rand.NewPCG(1, 2))
	x := dense.New[float64](n, d)
	for i := range x.Data {
		x.Data[i] = 0.7 * r.NormFloat64()
	}
	k := kernel.Kernel{Kind: kernel.Softmax}
	exact, estimate := dense.New[float64](n, n), dense.New[float64](n, n)
	if err := kernel.Gram(k, exact, x, x); err != nil {
		panic(err)
	}
	var errors []float64
	for _, f := range []family.Family{family.Positive{}, family.OPRF{}} {
		spec := randfeat.Spec{Kernel: k, Family: f, Coupling: coupling.Orthogonal{}, Dim: d, M: 256, Seed: 3}
		spec, err := randfeat.Fit(spec, x, x) // a family without parameters stays as it is
		if err != nil {
			panic(err)
		}
		m, err := randfeat.New[float64](spec)
		if err != nil {
			panic(err)
		}
		if err := m.Gram(estimate, x, x, nil); err != nil {
			panic(err)
		}
		sum := 0.0
		for i, want := range exact.Data {
			e := estimate.Data[i]/want - 1
			sum += e * e
		}
		errors = append(errors, math.Sqrt(sum/n/n))
	}
	fmt.Println("smaller by a half or more:", errors[1] < errors[0]/2)
	// Output: smaller by a half or more: true
}

// Families have a JSON form, with fitted parameters.
func ExampleEncode() {
	b, err := family.Encode(family.OPRF{A: -0.125})
	if err != nil {
		panic(err)
	}
	f, err := family.Parse(string(b))
	fmt.Printf("%s\n%+v %v\n", b, f, err)
	// Output:
	// {"name":"oprf","a":-0.125}
	// {A:-0.125} <nil>
}
