package randfeat_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Gradients reach the inputs of every map, and the matrix of the families that have one. Here the matrix M of DARK
// learns by gradient descent that only the first of two coordinates counts: the kernel exp(xᵀMᵀMy) shall become 0.5 for
// one pair and 1 for another.
func ExampleLearnable() {
	x, y := dense.MustFromRows([][]float64{{1, 0}, {0, 1}}), dense.MustFromRows([][]float64{{-1, 0}, {0, -1}})
	want := []float64{0.5, 1}
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Coupling: coupling.Orthogonal{}, Dim: 2, M: 64,
		Seed: 1}

	// step adds the derivatives of ½ Σ_i (φ(x_i)·φ(y_i) − want_i)² to grad and returns the loss.
	step := func(m randfeat.Learnable[float64], grad *randfeat.Grad[float64]) float64 {
		shift := make([]float64, 2)
		q, k := dense.New[float64](2, m.OutDim()), dense.New[float64](2, m.OutDim())
		if err := errors.Join(m.QueriesScaled(q, nil, shift, x, nil), m.KeysScaled(k, nil, shift, y, nil)); err != nil {
			panic(err)
		}
		dq, dk, loss := q.Clone(), k.Clone(), 0.0
		for i := range x.Rows {
			e := dense.Dot(q.Row(i), k.Row(i)) - want[i]
			loss += e * e / 2
			for f := range m.OutDim() {
				dq.Set(i, f, e*k.At(i, f))
				dk.Set(i, f, e*q.At(i, f))
			}
		}
		dx := dense.New[float64](2, 2)
		if err := errors.Join(m.QueriesVJP(dx, dq, q, x, nil, shift, grad, nil),
			m.KeysVJP(dx, dk, k, y, nil, shift, grad, nil)); err != nil {
			panic(err)
		}
		return loss
	}

	matrix := dense.MustFromRows([][]float64{{0.6, 0.1}, {0.1, 0.6}})
	for i := range 41 {
		spec.Family = family.DARK{M: matrix}
		m, err := randfeat.New[float64](spec)
		if err != nil {
			panic(err)
		}
		grad, err := m.NewGrad()
		if err != nil {
			panic(err)
		}
		if loss := step(m, grad); i%20 == 0 {
			fmt.Printf("step %2d: loss %.4f\n", i, loss)
		}
		d, err := grad.Parameter()
		if err != nil {
			panic(err)
		}
		for j, g := range d.Data {
			matrix.Data[j] -= 0.5 * g
		}
	}
	for l := range 2 {
		a, b := matrix.At(0, l), matrix.At(1, l) // column l of M
		fmt.Printf("kernel of pair %d: %.2f\n", l, math.Exp(-a*a-b*b))
	}
	// Output:
	// step  0: loss 0.0660
	// step 20: loss 0.0003
	// step 40: loss 0.0001
	// kernel of pair 0: 0.50
	// kernel of pair 1: 0.99
}

// inputGradient returns the derivatives of φ(x_i)·φ(y) by the inputs x_i, for any map that can be differentiated.
func inputGradient(m randfeat.Differentiable[float64], x, y dense.Matrix[float64]) (dense.Matrix[float64], error) {
	key, dphi := dense.New[float64](1, m.OutDim()), dense.New[float64](x.Rows, m.OutDim())
	dx := dense.New[float64](x.Rows, x.Cols)
	if err := m.KeysScaled(key, nil, []float64{0}, y, nil); err != nil {
		return dx, err
	}
	for i := range x.Rows {
		copy(dphi.Row(i), key.Row(0))
	}
	var none dense.Matrix[float64] // features of x, if the caller has them
	return dx, m.QueriesVJP(dx, dphi, none, x, nil, make([]float64, x.Rows), nil, nil)
}

// In which direction must rows move to be more alike to y? The gradient of the Gaussian kernel points at y, and
// vanishes far away.
func ExampleDifferentiable() {
	m, err := randfeat.New[float64](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian}, Family: family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: 2, M: 4096, Seed: 1})
	if err != nil {
		panic(err)
	}
	x, y := dense.MustFromRows([][]float64{{1, 0}, {0, 1}, {5, 5}}), dense.MustFromRows([][]float64{{0, 0}})
	dx, err := inputGradient(m, x, y)
	if err != nil {
		panic(err)
	}
	for i := range x.Rows {
		fmt.Printf("at %v: %.1f\n", x.Row(i), dx.Row(i))
	}
	_, err = m.NewGrad()
	fmt.Println("trained by gradients:", !errors.Is(err, randfeat.ErrNoParameters))
	// Output:
	// at [1 0]: [-0.6 0.0]
	// at [0 1]: [0.0 -0.6]
	// at [5 5]: [0.0 0.0]
	// trained by gradients: false
}

// Rows that arrive in blocks, or on several machines, are fitted to by their statistics. The result is the same as that
// of Fit on all of them, up to rounding.
func ExampleStats() {
	q, k := exampleSet(300, 4, 1), exampleSet(300, 4, 2)
	spec := randfeat.Spec{Kernel: kernel.Attention(4), Family: family.OPRF{}, Coupling: coupling.Simplex{}, Dim: 4,
		M: 64, Seed: 7}
	var all *randfeat.Stats
	for _, part := range [][2]int{{0, 100}, {100, 250}, {250, 300}} {
		stats, err := randfeat.NewStats(spec, family.OPRF{}.Needs())
		if err != nil {
			panic(err)
		}
		err = errors.Join(stats.AddQueries(q.RowRange(part[0], part[1])), stats.AddKeys(k.RowRange(part[0], part[1])))
		if err != nil {
			panic(err)
		}
		if all == nil {
			all = stats
		} else if err := all.Merge(stats); err != nil {
			panic(err)
		}
	}
	f, err := family.OPRF{}.Fit(all.Stats)
	if err != nil {
		panic(err)
	}
	whole, err := randfeat.Fit(spec, q, k)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d queries and %d keys: a = %.6f\n", all.Query.N(), all.Key.N(), f.(family.OPRF).A)
	fmt.Printf("all rows at once: a = %.6f\n", whole.Family.(family.OPRF).A)
	// Output:
	// 300 queries and 300 keys: a = -0.137343
	// all rows at once: a = -0.137343
}

// A function that takes a FeatureMap checks its argument first: a *Map that a failed New left nil is not a nil
// interface.
func ExampleCheckMap() {
	outputs := func(m randfeat.FeatureMap[float32]) (int, error) {
		if err := randfeat.CheckMap(m); err != nil {
			return 0, err
		}
		return m.OutDim(), nil
	}
	m, _ := randfeat.New[float32](randfeat.Spec{Family: family.Positive{}, M: 64}) // no Dim
	fmt.Println(outputs(m))
	square := &randfeat.FuncMap[float32]{Name: "square", In: 2, Out: 4, Query: func(phi, x []float32) {
		phi[0], phi[1], phi[2], phi[3] = x[0]*x[0], x[0]*x[1], x[1]*x[0], x[1]*x[1]
	}}
	fmt.Println(outputs(square))
	// Output:
	// 0 no map, only a nil *randfeat.Map[float32]: invalid spec
	// 4 <nil>
}
