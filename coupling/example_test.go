package coupling_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
)

// Two projections of an orthogonal block are orthogonal; those of a simplex point as far apart as three vectors can.
func Example() {
	for _, c := range []coupling.Coupling{coupling.Orthogonal{}, coupling.Simplex{}} {
		o, err := c.Sample(3, 3, coupling.Law{}, rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			panic(err)
		}
		x, y := o.Rows.Row(0), o.Rows.Row(1)
		cos := dense.Dot(x, y) / math.Sqrt(dense.Norm2(x)*dense.Norm2(y))
		fmt.Printf("%s: |cosine| %.2f\n", c.Name(), math.Abs(cos))
	}
	// Output:
	// orthogonal: |cosine| 0.00
	// simplex: |cosine| 0.50
}

// Couplings are read from their names, with parameters as JSON where they have any.
func ExampleParse() {
	c, err := coupling.Parse("orthogonal")
	fmt.Println(c.Name(), err)
	_, err = coupling.Parse("orthogonl")
	fmt.Println(err != nil)
	// Output:
	// orthogonal <nil>
	// true
}

// The law of one projection decides the kernel, the coupling only how projections lie to each other. The lengths show
// the law: about √d for normal rows, one radius on a sphere, heavy tails for Student and Cauchy rows. Poisson and
// geometric rows are exponents of monomials.
func ExampleLaw() {
	for _, l := range []coupling.Law{{Kind: coupling.Normal}, {Kind: coupling.Sphere, Param: 4},
		{Kind: coupling.Student, Param: 3}, {Kind: coupling.Cauchy}, {Kind: coupling.Poisson, Param: 1},
		{Kind: coupling.Geometric, Param: 0.5}} {
		o, err := coupling.IID{}.Sample(1000, 16, l, rand.NewPCG(1, 2))
		if err != nil {
			panic(err)
		}
		lengths := make([]float64, o.Rows.Rows)
		for i := range lengths {
			lengths[i] = math.Sqrt(dense.Norm2(o.Rows.Row(i)))
		}
		slices.Sort(lengths)
		fmt.Printf("%-14v median length %4.1f, 99th percentile %4.0f\n", l, lengths[500], lengths[990])
	}
	// Output:
	// normal         median length  3.9, 99th percentile    6
	// sphere(4)      median length  4.0, 99th percentile    4
	// student(3)     median length  4.5, 99th percentile   20
	// cauchy         median length 18.8, 99th percentile 2200
	// poisson(1)     median length  5.5, 99th percentile    8
	// geometric(0.5) median length  6.4, 99th percentile   13
}

// Fast orthogonal couplings are only nearly uniform: their rows have moments a little off, which biases estimates. More
// rotations or Hadamard factors shrink the excess.
func ExampleExcess() {
	const d = 32
	for _, c := range []coupling.Coupling{coupling.Orthogonal{}, coupling.Hadamard{}, coupling.Givens{Rotations: d},
		coupling.Givens{}} {
		e, ok := coupling.Excess(c, d, d)
		text, err := coupling.Encode(c)
		if err != nil || !ok {
			panic(text)
		}
		fmt.Printf("%-34s excess of the fourth moment %.0e of %.0e\n", text, math.Abs(e.Fourth), 3.0/(d+2))
	}
	// Output:
	// {"name":"orthogonal"}              excess of the fourth moment 0e+00 of 9e-02
	// {"name":"hadamard"}                excess of the fourth moment 2e-04 of 9e-02
	// {"name":"givens","rotations":32}   excess of the fourth moment 5e-01 of 9e-02
	// {"name":"givens"}                  excess of the fourth moment 1e-05 of 9e-02
}

// Three things can be wrong with a draw: the numbers, the parameters of the coupling, and the law.
func ExampleCoupling_errors() {
	src := rand.NewPCG(1, 2)
	_, err := coupling.Orthogonal{}.Sample(0, 4, coupling.Law{}, src)
	fmt.Println(errors.Is(err, coupling.ErrSize), err)
	_, err = coupling.Givens{Rotations: -1}.Sample(4, 4, coupling.Law{}, src)
	fmt.Println(errors.Is(err, coupling.ErrParam), err)
	_, err = coupling.Orthogonal{}.Sample(4, 4, coupling.Law{Kind: coupling.Poisson, Param: 1}, src)
	fmt.Println(errors.Is(err, coupling.ErrLaw), err)
	// Output:
	// true coupling orthogonal: m = 0, dim = 4: number of projections and dimension must be at least 1
	// true coupling givens: Rotations ("rotations") is -1, want ≥ 1, or 0 for 4 d ⌈log2 d⌉: invalid coupling parameter
	// true coupling orthogonal with poisson(1) marginals: coupling is not defined for this law
}
