package randfeat_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// exampleSet is a small anisotropic set, for examples only.
func exampleSet(rows, dim int, seed uint64) dense.Matrix[float64] {
	x := dense.New[float64](rows, dim)
	rng.Normals(x.Data, rng.Stream(seed))
	for i := range rows {
		for l := range dim {
			x.Row(i)[l] /= float64(1 + l)
		}
	}
	return x
}

// relativeError is |got - want| / |want| in the Frobenius norm.
func relativeError(got, want dense.Matrix[float64]) float64 {
	var e, s float64
	for i, w := range want.Data {
		e += (got.Data[i] - w) * (got.Data[i] - w)
		s += w * w
	}
	return math.Sqrt(e / s)
}

// medianError is the median of |got/want - 1|: every pair counts, small kernel values as much as large ones.
func medianError(got, want dense.Matrix[float64]) float64 {
	var e []float64
	for i, w := range want.Data {
		e = append(e, math.Abs(got.Data[i]/w-1))
	}
	slices.Sort(e)
	return e[len(e)/2]
}

// Trigonometric features with orthogonal projections approximate a Gaussian Gram matrix of bandwidth 1.5.
func Example_gaussian() {
	x := exampleSet(50, 8, 1)
	spec := randfeat.Spec{
		Kernel:   kernel.Kernel{Kind: kernel.Gaussian, Scale: 1.5},
		Family:   family.Trig{},
		Coupling: coupling.Orthogonal{},
		Dim:      8, M: 512, Seed: 7,
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	exact, approx := dense.New[float64](50, 50), dense.New[float64](50, 50)
	if err := kernel.Gram(spec.Kernel, exact, x, x); err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Gram(approx, x, x, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d features, relative error %.3f\n", m.OutDim(), relativeError(approx, exact))
	// Output: 1024 features, relative error 0.021
}

// FAVOR++ features with simplex projections, the best positive composition of the papers, fitted to queries and keys;
// theory says what error to expect before anything is drawn.
func Example_softmax() {
	q, k := exampleSet(40, 8, 1), exampleSet(40, 8, 2)
	spec := randfeat.Spec{Kernel: kernel.Attention(8), Family: family.OPRF{}, Coupling: coupling.Simplex{}, Dim: 8,
		M:    256,
		Seed: 7}
	spec, err := randfeat.Fit(spec, q, k)
	if err != nil {
		fmt.Println(err)
		return
	}
	want, err := theory.Of(spec.Kernel, spec.Family, spec.Coupling, spec.M, q.Row(0), k.Row(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	got := dense.New[float64](1, 1)
	if err := m.Gram(got, q.RowRange(0, 1), k.RowRange(0, 1), nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("exp(q·k/√d) = %.4f, estimate %.4f, predicted relative error %.4f\n",
		math.Exp(want.LogKernel), got.Data[0], math.Exp(want.LogRelMSE()/2))
	// Output: exp(q·k/√d) = 1.0267, estimate 1.0317, predicted relative error 0.0498
}

// The adaptive family keeps the exact softmax kernel and fits the proposal to the data; on anisotropic queries and keys
// it needs far fewer features than FAVOR++.
func Example_adaptive() {
	q, k := exampleSet(200, 32, 1), exampleSet(200, 32, 2)
	for i := range q.Rows {
		slices.Reverse(k.Row(i)) // keys vary most where queries vary least
		for l := range q.Cols {
			q.Row(i)[l] *= 4
			k.Row(i)[l] = 4*k.At(i, l) + 0.5
		}
	}
	exact, got := dense.New[float64](200, 200), dense.New[float64](200, 200)
	for _, f := range []family.Family{family.Positive{}, family.OPRF{}, family.Adaptive{}} {
		spec, err := randfeat.Fit(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f,
			Coupling: coupling.Orthogonal{}, Dim: 32, M: 256, Seed: 7}, q, k)
		if err != nil {
			fmt.Println(err)
			return
		}
		m, err := randfeat.New[float64](spec)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := kernel.Gram(spec.Kernel, exact, q, k); err != nil {
			fmt.Println(err)
			return
		}
		if err := m.Gram(got, q, k, nil); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-8s median relative error %.3f\n", f.Name(), medianError(got, exact))
	}
	// Output:
	// positive median relative error 1.000
	// oprf     median relative error 1.000
	// adaptive median relative error 0.570
}

// DARK × OPRF × simplex: FAVOR++ features for the data-aware kernel exp(qᵀΣk), Σ = MᵀM, with M from tempered whitening.
func Example_dark() {
	q, k := exampleSet(100, 8, 1), exampleSet(100, 8, 2)
	spec, err := randfeat.Fit(randfeat.Spec{
		Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.DARK{Base: family.OPRF{}},
		Coupling: coupling.Simplex{}, Dim: 8, M: 256, Seed: 7,
	}, q, k)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	exact, got := dense.New[float64](100, 100), dense.New[float64](100, 100)
	// The target is not the softmax kernel: the spec knows which one it is.
	if err := kernel.Gram(spec.Target(), exact, q, k); err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Gram(got, q, k, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("relative error %.3f\n", relativeError(got, exact))
	// Output: relative error 0.144
}
