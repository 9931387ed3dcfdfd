package family_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Three workers see parts of the queries and keys. Their statistics merge, and the fit needs no rows. Complex
// exponential features have no variance where Ax = −A⁻ᵀy, so the fit makes the mean of |Ax + A⁻ᵀy|² as small as the
// covariances allow.
func ExampleStats() {
	var f family.Fitter = family.ComplexExp{}
	stats := family.NewStats(2, f.Needs())
	_, err := f.Fit(stats)
	fmt.Println("fit to nothing:", errors.Is(err, family.ErrStats))
	for worker := range uint64(3) {
		r := rand.New(rand.NewPCG(worker, 1))
		x, y := dense.New[float64](100, 2), dense.New[float64](100, 2)
		for i := range 100 {
			x.Set(i, 0, 2*r.NormFloat64()) // queries are long where keys are short
			x.Set(i, 1, r.NormFloat64()/2)
			y.Set(i, 0, r.NormFloat64()/2)
			y.Set(i, 1, 2*r.NormFloat64())
		}
		part := family.NewStats(2, f.Needs())
		if err := errors.Join(part.Query.Add(x), part.Key.Add(y)); err != nil {
			panic(err)
		}
		if err := stats.Merge(part); err != nil { // part may come from another process
			panic(err)
		}
	}
	fitted, err := f.Fit(stats)
	if err != nil {
		panic(err)
	}
	a := fitted.(family.ComplexExp).Re
	_, least := family.Match(stats.Query.Covariance(), stats.Key.Covariance())
	fmt.Printf("%d queries: A = %.1f\n", stats.Query.N(), a.ToRows())
	fmt.Printf("mean of |Ax + A⁻ᵀy|²: %.1f, with A = I %.1f\n", least, stats.MeanNorm2(1))
	// Output:
	// fit to nothing: true
	// 300 queries: A = [[0.5 0.0] [0.0 1.9]]
	// mean of |Ax + A⁻ᵀy|²: 4.1, with A = I 9.1
}

// Trigonometric features are exact for equal rows and useless for opposite ones, hyperbolic features the other way
// round. A hybrid blends both by a random coefficient. The sign coefficient estimates θ/π and is exact at both ends.
// The Gaussian coefficient is exact only at 0°. A mixture is exact where queries and keys are at its centres. The
// columns are predicted relative errors of exp(x·y) with 64 projections, for angles of 0°, 90° and 180°.
func ExampleHybrid() {
	sign := family.Coefficient{Const: 0.5, Sign: -1, Gain: 0.5, Rho: "sign", N: 8}
	for _, f := range []family.Family{family.Trig{}, family.Hyperbolic{},
		family.Hybrid{Bases: []family.Family{family.Hyperbolic{}, family.Trig{}},
			Coefficients: []family.Coefficient{sign}},
		family.BipolarGaussian{R: 1.5},
		family.Mixture{TrigRho: true, Clusters: family.Clusters{
			QueryCentres: dense.MustFromRows([][]float64{{1.5, 0}}),
			KeyCentres:   dense.MustFromRows([][]float64{{-1.5, 0}}),
		}}} {
		fmt.Printf("%-16s positive: %-3s", f.Name(), family.InfoOf(f).Positive)
		for _, angle := range []float64{0, 90, 180} {
			sin, cos := math.Sincos(angle * math.Pi / 180)
			m, err := theory.Of(kernel.Kernel{Kind: kernel.Softmax}, f, coupling.IID{}, 64, []float64{1.5, 0},
				[]float64{1.5 * cos, 1.5 * sin})
			if err != nil {
				panic(err)
			}
			fmt.Printf(" %6.2f", math.Exp(m.LogRelMSE()/2))
		}
		fmt.Println()
	}
	// Output:
	// trig             positive: no    0.00   0.83   7.96
	// hyperbolic       positive: yes   7.96   0.83   0.00
	// hybrid           positive: no    0.00   0.62   0.00
	// bipolar-gaussian positive: no    0.00   0.81   2.01
	// mixture          positive: no    2.82   0.83   0.00
}

// Nyström features are kernels with landmarks, chosen among a sample of the rows. The choice depends on the kernel, so
// the family is a KernelFitter.
func ExampleNystrom() {
	circle := dense.New[float64](100, 2)
	for i := range circle.Rows {
		circle.Row(i)[1], circle.Row(i)[0] = math.Sincos(float64(i) * math.Pi / 50)
	}
	var f family.KernelFitter = family.Nystrom{N: 4, Pick: "greedy"}
	stats := family.NewStats(2, f.Needs())
	if err := errors.Join(stats.Query.Add(circle), stats.Key.Add(circle)); err != nil {
		panic(err)
	}
	fitted, err := f.FitKernel(kernel.Gaussian, stats)
	if err != nil {
		panic(err)
	}
	fmt.Printf("landmarks %.1f\n", fitted.(family.Nystrom).Rows.ToRows())

	_, err = family.Positive{}.Draws(kernel.Laplace, 2, 64) // random features exist for some kernels only
	fmt.Println(errors.Is(err, family.ErrKernel), err)
	// Output:
	// landmarks [[-0.5 0.9] [0.5 -0.9] [-0.9 -0.5] [0.9 0.5]]
	// true family positive with the laplace kernel (only trig has it): family does not estimate this kernel
}

// Poisson and geometric features are monomials ∏ x_l^ω_l with random exponents ω. The fit chooses their law: longer
// rows need higher degrees. Signed features take the rows as they are. Positive ones move them to the positive orthant
// first.
func ExampleExponents() {
	r := rand.New(rand.NewPCG(1, 2))
	x := dense.New[float64](200, 4)
	for _, length := range []float64{0.2, 0.8} {
		for i := range x.Data {
			x.Data[i] = length * r.NormFloat64()
		}
		for _, f := range []family.Fitter{family.Poisson{}, family.PoissonPlus{}, family.GeometricPlus{}} {
			stats := family.NewStats(4, f.Needs())
			if err := errors.Join(stats.Query.Add(x), stats.Key.Add(x)); err != nil {
				panic(err)
			}
			fitted, err := f.Fit(stats)
			if err != nil {
				panic(err)
			}
			e := fitted.(interface{ Exponents() family.Exponents }).Exponents()
			mean := e.Lambda // of one exponent
			if e.P > 0 {
				mean = (1 - e.P) / e.P
			}
			fmt.Printf("%g %-10s mean degree %.1f, moved: %v\n", length, f.Name(), 4*mean, e.Shift != nil)
		}
	}
	// Output:
	// 0.2 poisson    mean degree 0.2, moved: false
	// 0.2 poisson+   mean degree 1.5, moved: true
	// 0.2 geometric+ mean degree 1.4, moved: true
	// 0.8 poisson    mean degree 2.4, moved: false
	// 0.8 poisson+   mean degree 35.8, moved: true
	// 0.8 geometric+ mean degree 29.6, moved: true
}
