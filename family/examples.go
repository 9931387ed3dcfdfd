package family

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Example is a value of a family for tests and demonstrations. The common tests iterate over the examples of the
// registry. A family without examples is refused, so no family goes untested.
type Example struct {
	Name   string // name of the family, with a suffix if it has several examples
	Family Family
	Fit    bool // its parameters must be fitted to data before use
	Biased bool // its parameters make it biased; its mean is that of its closed form, if it has one
}

// Examples returns values of the family for inputs of dim columns: one for each way through its code, the simplest
// first.
func (i Info) Examples(dim int) []Example {
	var out []Example
	for _, e := range i.examples(dim) {
		if e.Name != "" {
			e.Name = "-" + e.Name
		}
		e.Name = i.Name + e.Name
		out = append(out, e)
	}
	return out
}

// only returns a function whose only example is f.
func only(f Family) func(int) []Example {
	return func(int) []Example { return []Example{{Family: f}} }
}

// fitted returns a function whose only example is f after a fit.
func fitted(f Family) func(int) []Example {
	return func(int) []Example { return []Example{{Family: f, Fit: true}} }
}

func gerfExamples(int) []Example {
	return []Example{
		{Family: GERF{}, Fit: true},
		{Name: "plus", Family: GERF{A: -0.05 + 0.03i, S: 1}},
		{Name: "minus", Family: GERF{A: 0.02 - 0.02i, S: -1}},
		{Name: "minus-real", Family: GERF{A: 0.03, S: -1}},
	}
}

// Fits of small inputs give exponents that are almost always 0. The examples with given parameters have larger ones,
// and second moments of about e² and e.
func poissonExamples(dim int) []Example {
	return []Example{{Family: Poisson{}, Fit: true}, {Name: "given", Family: Poisson{Lambda: 2 / float64(dim)}}}
}

func geometricExamples(dim int) []Example {
	return []Example{{Family: Geometric{}, Fit: true}, {Name: "given",
		Family: Geometric{P: float64(dim) / float64(dim+1)}}}
}

func complexExpExamples(dim int) []Example {
	diag, full, im := make([]Complex, dim), dense.Identity[float64](dim), dense.New[float64](dim, dim)
	for l := range dim {
		diag[l] = Complex(complex(0.9+0.2*float64(l%2), 0.3-0.1*float64(l%3)))
		full.Row(l)[l] = 1.1
		full.Row(l)[(l+1)%dim] += 0.15
		im.Row(l)[l] = 0.25
	}
	return []Example{
		{Family: ComplexExp{}, Fit: true},
		{Name: "diagonal", Family: ComplexExp{Diag: diag}},
		{Name: "full", Family: ComplexExp{Re: full, Im: im}},
		{Name: "identity", Family: ComplexExp{}},
	}
}

func hybridExamples(int) []Example {
	sign := Coefficient{Const: 0.2, Sign: -1, Gain: 0.3, Rho: rhoSign, N: 3}
	return []Example{
		{Family: Hybrid{Bases: []Family{Positive{}, Trig{}},
			Coefficients: []Coefficient{{Const: 0.5, Sign: -1, Gain: 0.5, Rho: rhoSign, N: 8}}}},
		{Name: "three", Family: Hybrid{Bases: []Family{Positive{}, OPRF{A: -0.03}, Trig{}},
			Coefficients: []Coefficient{sign, {Const: 0.1, Rho: rhoTrig, N: 2, Bandwidth: 1.5, Gain: 0.5}}}},
		{Name: "shared", Family: Hybrid{Bases: []Family{Hyperbolic{}, Positive{}, Trig{}}, Groups: []int{0, 1, 1},
			Coefficients: []Coefficient{sign, {Rho: rhoPositive, N: 2, Bandwidth: 1.5, Gain: 0.5}}}},
	}
}

func angularExamples(int) []Example {
	return []Example{{Family: Angular{N: 4}}, {Name: "shared", Family: Angular{N: 2, Shared: true}}}
}

func gaussianLambdaExamples(int) []Example {
	return []Example{
		{Family: GaussianLambda{C: []float64{1.3}, N: 3}},
		{Name: "trig", Family: GaussianLambda{C: []float64{1.3}, N: 3, TrigRho: true}},
	}
}

func bipolarExamples(int) []Example {
	return []Example{
		{Family: BipolarGaussian{N: 3}, Fit: true},
		{Name: "shared", Family: BipolarGaussian{N: 3, Sigma: 1.3, Shared: true}, Fit: true},
	}
}

func zeroOneExamples(int) []Example {
	return []Example{
		{Family: ZeroOne{}, Fit: true},
		{Name: "complex", Family: ZeroOne{Clusters: Clusters{Complex: true, AMax: 1.3}}, Fit: true},
		{Name: "heaviest", Family: ZeroOne{Clusters: Clusters{Count: 3, Heaviest: 2}}, Fit: true},
	}
}

func mixtureExamples(int) []Example {
	return []Example{{Family: Mixture{N: 2, Clusters: Clusters{AMax: 1.5}}, Fit: true}}
}

func darkExamples(dim int) []Example {
	m := dense.New[float64](min(dim, 3), dim)
	var rho []float64
	for i := range m.Rows {
		m.Row(i)[i], m.Row(i)[(i+1)%dim] = 0.8, -0.3
		rho = append(rho, 0.9)
	}
	return []Example{
		{Family: DARK{M: m}},
		{Name: "oprf", Family: DARK{M: m, Base: OPRF{A: -0.04}}},
		{Name: "adaptive", Family: DARK{M: m, Base: Adaptive{A: wideFactor(m.Rows), Rho: rho}}},
	}
}

// wideFactor is the factor of a Gaussian proposal wider than N(0, I), not symmetric.
func wideFactor(dim int) dense.Matrix[float64] {
	l := dense.New[float64](dim, dim)
	for i := range dim {
		l.Row(i)[i] = 1.05 + 0.1*float64(i%3)
		if i > 0 {
			l.Row(i)[i-1] = 0.1
		}
	}
	return l
}

func importanceExamples(dim int) []Example {
	return []Example{
		{Family: Importance{}, Fit: true},
		{Name: "given", Family: Importance{L: wideFactor(dim)}},
		{Name: "identity", Family: Importance{}},
	}
}

func lfkExamples(dim int) []Example {
	w := dense.New[float64](6, dim)
	for i := range w.Data {
		w.Data[i] = math.Sin(float64(3*i + 1))
	}
	return []Example{{Family: LFK{W: w}}}
}

func landmarkExamples(int) []Example {
	return []Example{
		{Family: Landmarks{}},
		{Name: "several", Family: Landmarks{Also: []kernel.Kernel{{Kind: kernel.Laplace, Scale: 2},
			{Kind: kernel.Gaussian, Scale: 0.5}}}},
	}
}

func nystromExamples(dim int) []Example {
	rows := dense.New[float64](4, dim)
	for i := range rows.Data {
		rows.Data[i] = 1.5 * math.Sin(float64(2*i+1))
	}
	return []Example{ // in one dimension the kernels of more would be nearly singular
		{Family: Nystrom{N: min(12, 4*dim)}, Fit: true},
		{Name: "greedy", Family: Nystrom{N: 5, Pick: pickGreedy}, Fit: true},
		{Name: "leverage", Family: Nystrom{N: 6, Pick: pickLeverage, Seed: 3}, Fit: true},
		{Name: "given", Family: Nystrom{Rows: rows}},
	}
}

func reluExamples(int) []Example {
	return []Example{{Family: ReLU{}}, {Name: "pure", Family: ReLU{Pure: true}}}
}

func adaptiveExamples(int) []Example {
	return []Example{{Family: Adaptive{}, Fit: true}, {Name: "identity", Family: Adaptive{}}}
}

func residualExamples(dim int) []Example {
	return []Example{
		{Family: Residual{}},
		{Name: "shrunk", Family: Residual{Shrink: 0.25}, Biased: true},
		{Name: "proposal", Family: Residual{L: wideFactor(dim)}},
	}
}
