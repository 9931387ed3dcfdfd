package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// benchCase is one comparison: ours (one or more variants) against the peers of a Python case.
type benchCase struct {
	name   string // for people
	peer   string // name of the Python case
	arrays map[string]any
	ours   []variant
	flops  float64 // of one run, where the machine's limit is arithmetic
	bytes  float64 // of one run, where it is memory
	// tolerance of the sample comparison, relative to its largest entry; 0: peers compute something else
	tolerance float64
	isFloat64 bool
}

// variant is one way of ours to do the case; sample returns a few results to compare.
type variant struct {
	name   string
	run    func()
	sample func() []float64
}

func random[T dense.Float](rows, cols int, scale float64, seed uint64) dense.Matrix[T] {
	r := rand.New(rand.NewPCG(seed, 1))
	m := dense.New[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(scale * r.NormFloat64())
	}
	return m
}

// sampleOf picks the entries that peers.py picks.
func sampleOf[T dense.Float](m dense.Matrix[T]) []float64 {
	var out []float64
	for _, i := range []int{0, m.Rows / 2, m.Rows - 1} {
		for _, j := range []int{0, m.Cols / 2, m.Cols - 1} {
			out = append(out, float64(m.At(i, j)))
		}
	}
	return out
}

func typeName[T dense.Float]() (name string, isFloat64 bool) {
	isFloat64 = unsafe.Sizeof(T(0)) == 8
	if isFloat64 {
		return "float64", true
	}
	return "float32", false
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// productCase: the matrix product alone.
func productCase[T dense.Float](n, d, m int) benchCase {
	tn, f64 := typeName[T]()
	x, w := random[T](n, d, 1, 1), random[T](m, d, 1, 2)
	dst := dense.New[T](n, m)
	tab := kern.Best[T]()
	var p kern.Panel[T]
	tab.Pack(&p, w)
	return benchCase{
		name: fmt.Sprintf("product %d×%d×%d %s", n, d, m, tn), peer: "product", arrays: map[string]any{"x": x, "w": w},
		ours:  []variant{{"randfeat MulT", func() { tab.MulT(dst, x, &p, nil) }, func() []float64 { return sampleOf(dst) }}},
		flops: 2 * float64(n) * float64(d) * float64(m), tolerance: 1e-4, isFloat64: f64,
	}
}

// givenMap is a map with the projections that the peers get.
func givenMap[T dense.Float](k kernel.Kernel, f family.Family, w dense.Matrix[T]) *randfeat.Map[T] {
	return must(randfeat.NewWithOmega[T](randfeat.Spec{Kernel: k, Family: f, Dim: w.Cols, M: w.Rows},
		[]coupling.Omega{{Rows: dense.Convert[float64](w)}}))
}

// mapCase: a feature map, into a reused and into a fresh output.
func mapCase[T dense.Float](title, peer string, f family.Family, n, d, m int, tolerance float64) benchCase {
	tn, f64 := typeName[T]()
	x, w := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1), random[T](m, d, 1, 2)
	mp := givenMap(kernel.Kernel{Kind: kernel.Softmax}, f, w)
	if _, ok := f.(family.Trig); ok {
		mp = givenMap(kernel.Kernel{}, f, w)
	}
	dst := dense.New[T](n, mp.OutDim())
	var ws randfeat.Workspace[T]
	return benchCase{
		name: fmt.Sprintf("%s %d×%d, m = %d, %s", title, n, d, m, tn), peer: peer, arrays: map[string]any{"x": x, "w": w},
		ours: []variant{
			{fmt.Sprintf("randfeat, reused output (%d features)", mp.OutDim()), func() { check(mp.Queries(dst, nil, x, &ws)) }, func() []float64 { return sampleOf(dst) }},
			{fmt.Sprintf("randfeat, fresh output (%d features)", mp.OutDim()), func() { check(mp.Queries(dense.New[T](n, mp.OutDim()), nil, x, &ws)) }, nil},
		},
		flops: 2 * float64(n) * float64(d) * float64(m), tolerance: tolerance, isFloat64: f64,
	}
}

// predictCase: features and a linear model on them, as a served kernel machine does.
func predictCase[T dense.Float](n, d, m int) benchCase {
	tn, f64 := typeName[T]()
	x, w, beta := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1), random[T](m, d, 1, 2), random[T](m, 1, 1, 3)
	// Half the projections give as many features: sin and cos of each.
	mp := givenMap(kernel.Kernel{}, family.Trig{}, w.RowRange(0, m/2))
	tab := kern.Best[T]()
	var p kern.Panel[T]
	tab.PackT(&p, beta)
	const block = 256
	phi, out := dense.New[T](block, mp.OutDim()), dense.New[T](n, 1)
	var ws randfeat.Workspace[T]
	return benchCase{
		name: fmt.Sprintf("transform and predict %d×%d, %d features, %s", n, d, m, tn), peer: "predict",
		arrays: map[string]any{"x": x, "w": w, "beta": beta},
		ours: []variant{{"randfeat trig + linear model", func() {
			for lo := 0; lo < n; lo += block {
				hi := min(lo+block, n)
				b := phi.RowRange(0, hi-lo)
				check(mp.Queries(b, nil, x.RowRange(lo, hi), &ws))
				tab.MulT(out.RowRange(lo, hi), b, &p, nil)
			}
		}, nil}},
		flops: float64(n) * float64(d) * float64(m), isFloat64: f64,
	}
}

// elementwiseCase: exp and sin+cos in cache.
func elementwiseCase[T dense.Float](n int) benchCase {
	tn, f64 := typeName[T]()
	x := random[T](1, n, 3, 1)
	a, b := make([]T, n), make([]T, n)
	tab := kern.Best[T]()
	return benchCase{
		name: fmt.Sprintf("exp, then sin and cos, of %d %s in cache", n, tn), peer: "elementwise", arrays: map[string]any{"x": x},
		ours: []variant{
			{"randfeat exp", func() { copy(a, x.Data); tab.Exp(a, 0) }, func() []float64 { return sampleOf(dense.Matrix[T]{Rows: 1, Cols: n, Stride: n, Data: a}) }},
			{"randfeat sin and cos", func() { tab.SinCos(a, b, x.Data) }, nil},
		},
		bytes: 0, tolerance: 0, isFloat64: f64,
	}
}

// attentionCase: φ(K)ᵀ[V,1], then φ(Q)S, features held for one block of rows at a time.
func attentionCase[T dense.Float](l, d, m int) benchCase {
	tn, f64 := typeName[T]()
	q, k, v, w := random[T](l, d, 0.4, 1), random[T](l, d, 0.4, 2), random[T](l, d, 1, 3), random[T](m, d, 1, 4)
	for i := range q.Data { // the scaling of attention
		q.Data[i] /= T(math.Pow(float64(d), 0.25))
		k.Data[i] /= T(math.Pow(float64(d), 0.25))
	}
	mp := givenMap(kernel.Kernel{Kind: kernel.Softmax}, family.Positive{}, w)
	tab := kern.Best[T]()
	const block = 128
	v1 := dense.New[T](l, d+1)
	for i := range l {
		copy(v1.Row(i), v.Row(i))
		v1.Row(i)[d] = 1
	}
	phi, o, out := dense.New[T](block, m), dense.New[T](block, d+1), dense.New[T](l, d)
	var ws randfeat.Workspace[T]
	var p kern.Panel[T]
	return benchCase{
		name: fmt.Sprintf("linear attention L = %d, d = %d, m = %d, %s", l, d, m, tn), peer: "attention",
		arrays: map[string]any{"q": q, "k": k, "v": v, "w": w},
		ours: []variant{{"randfeat, blocks of 128", func() {
			s := kern.NewAccumulator(tab, m, d+1)
			for lo := 0; lo < l; lo += block {
				hi := min(lo+block, l)
				b := phi.RowRange(0, hi-lo)
				check(mp.Keys(b, nil, k.RowRange(lo, hi), &ws))
				s.Add(b, v1.RowRange(lo, hi))
			}
			tab.PackT(&p, dense.Convert[T](s.Sum()))
			for lo := 0; lo < l; lo += block {
				hi := min(lo+block, l)
				b, ob := phi.RowRange(0, hi-lo), o.RowRange(0, hi-lo)
				check(mp.Queries(b, nil, q.RowRange(lo, hi), &ws))
				tab.MulT(ob, b, &p, nil)
				for i := range ob.Rows {
					row := out.Row(lo + i)
					copy(row, ob.Row(i))
					tab.Scale(row, 1/ob.At(i, d))
				}
			}
		}, func() []float64 { return sampleOf(out) }}},
		flops: 8 * float64(l) * float64(d) * float64(m), tolerance: 1e-3, isFloat64: f64,
	}
}

// structuredCase: the HD map against our own dense map; no peer has one.
func structuredCase[T dense.Float](n, d int) benchCase {
	tn, f64 := typeName[T]()
	x := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1)
	c := benchCase{name: fmt.Sprintf("HD map against dense map %d×%d, m = d, %s", n, d, tn), isFloat64: f64}
	for _, v := range []struct {
		name string
		c    coupling.Coupling
	}{{"dense (orthogonal)", coupling.Orthogonal{}}, {"HD", coupling.Hadamard{}}, {"fast simplex", coupling.FastSimplex{}}} {
		mp := must(randfeat.New[T](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Coupling: v.c, Dim: d, M: d}))
		dst, ws := dense.New[T](n, d), new(randfeat.Workspace[T])
		c.ours = append(c.ours, variant{"randfeat " + v.name, func() { check(mp.Queries(dst, nil, x, ws)) }, nil})
	}
	return c
}
