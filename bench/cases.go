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
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
)

// benchCase is one comparison: our variants against the peers of a Python case.
type benchCase struct {
	name   string // as printed
	peer   string // name of the Python case
	arrays map[string]any
	ours   []variant
	flops  float64 // of one run, if arithmetic is the limit
	bytes  float64 // read by one run, if reading is the limit
	// leastRate is the target of our first row in MB/s and thread; 0 means none.
	leastRate float64
	// tolerance of the compared samples, relative to the largest entry; 0 means that the peers compute something
	// else.
	tolerance float64
	// tolerances of single peers that add something of their own to the result.
	tolerances map[string]float64
	// sameFeatures means that the samplers of the peers compute our features.
	sameFeatures bool
	isFloat64    bool
	rounds       int // largest number; 0: as on the command line
	targets      []target
	note         string        // printed below the table
	after        func() string // returns the note, after the runs
	close        func()        // removes files of the case
}

// variant is one of our ways to do the case. sample returns a few results to compare.
type variant struct {
	name   string
	run    func()
	sample func() []float64
	flops  float64 // if it differs from the case
	repeat int     // how often a run does its work; 0: once
}

// target bounds the ratio of two times: of row to against (empty: our first row).
type target struct {
	row, against string
	least, most  float64 // one of the two is set
}

func random[T dense.Float](rows, cols int, scale float64, seed uint64) dense.Matrix[T] {
	r := rand.New(rand.NewPCG(seed, 1))
	m := dense.New[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(scale * r.NormFloat64())
	}
	return m
}

// sampleOf picks the same entries as peers.py.
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

// productCase is the matrix product alone.
func productCase[T dense.Float](n, d, m int) benchCase {
	tn, f64 := typeName[T]()
	x, w := random[T](n, d, 1, 1), random[T](m, d, 1, 2)
	dst := dense.New[T](n, m)
	tab := kern.Best[T]()
	var p kern.Panel[T]
	tab.Pack(&p, w)
	return benchCase{
		name: fmt.Sprintf("product %d×%d×%d %s", n, d, m, tn), peer: "product", arrays: map[string]any{"x": x, "w": w},
		ours: []variant{{name: "randfeat MulT", run: func() { tab.MulT(dst, x, &p, nil) },
			sample: func() []float64 { return sampleOf(dst) }}},
		flops: 2 * float64(n) * float64(d) * float64(m), tolerance: 1e-4, isFloat64: f64,
	}
}

// sumsCase is aᵀ·b of two tall matrices, the sums of kernel machines. With gram, b is a, and only half of the
// product is computed, by the peers too.
func sumsCase[T dense.Float](n, f int, gram bool) benchCase {
	tn, f64 := typeName[T]()
	a, b, dst := random[T](n, f, 1, 1), random[T](n, f, 1, 2), dense.New[T](f, f)
	tab := kern.Best[T]()
	c := benchCase{
		name: fmt.Sprintf("sums AᵀB %d×%d×%d %s", f, n, f, tn), peer: "sums", arrays: map[string]any{"a": a, "b": b},
		ours: []variant{{name: "randfeat TMul", run: func() { clear(dst.Data); tab.TMul(dst, a, b) },
			sample: func() []float64 { return sampleOf(dst) }}},
		flops: 2 * float64(n) * float64(f) * float64(f), tolerance: 1e-4, isFloat64: f64,
		targets: []target{{row: "NumPy matmul", least: 0.95}},
	}
	if gram {
		var g linalg.Gram[T]
		c.name = fmt.Sprintf("sums AᵀA %d×%d×%d %s", f, n, f, tn)
		c.arrays["b"] = a
		c.ours = []variant{{name: "randfeat Gram", run: func() { clear(dst.Data); g.Add(tab, dst, a) }}}
		c.flops, c.tolerance = float64(n)*float64(f)*float64(f+1), 0
	}
	return c
}

// givenMap makes a map with the projections that the peers get.
func givenMap[T dense.Float](k kernel.Kernel, f family.Family, w dense.Matrix[T]) *randfeat.Map[T] {
	return must(randfeat.NewWithOmega[T](randfeat.Spec{Kernel: k, Family: f, Dim: w.Cols, M: w.Rows},
		[]coupling.Omega{{Rows: dense.Convert[float64](w)}}))
}

// mapCase is a feature map, into a reused and into a fresh output.
func mapCase[T dense.Float](title, peer string, f family.Family, n, d, m int, tolerance float64) benchCase {
	tn, f64 := typeName[T]()
	x, w := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1), random[T](m, d, 1, 2)
	return benchCase{
		name: fmt.Sprintf("%s %d×%d, m = %d, %s", title, n, d, m, tn), peer: peer,
		arrays: map[string]any{"x": x, "w": w},
		ours:   outputs(givenMap(kernel.Kernel{Kind: kernel.Softmax}, f, w), x, reusedOutput, freshOutput),
		flops:  2 * float64(n) * float64(d) * float64(m), tolerance: tolerance, isFloat64: f64,
	}
}

const reusedOutput, freshOutput = "randfeat, reused output", "randfeat, fresh output"

// outputs runs a map into a reused and into a fresh output.
func outputs[T dense.Float](mp *randfeat.Map[T], x dense.Matrix[T], reused, fresh string) []variant {
	dst := dense.New[T](x.Rows, mp.OutDim())
	var ws randfeat.Workspace[T]
	return []variant{
		{name: reused, run: func() { check(mp.Queries(dst, nil, x, &ws)) },
			sample: func() []float64 { return sampleOf(dst) }},
		{name: fresh, run: func() { check(mp.Queries(dense.New[T](x.Rows, mp.OutDim()), nil, x, &ws)) }},
	}
}

// trigCase compares sines and cosines of m projections with the cosines of an RBFSampler. Either both have the same
// number of features (m is half the components), or the same number of projections (m is all of them).
func trigCase[T dense.Float](n, d, m, components int, tolerance float64) benchCase {
	tn, f64 := typeName[T]()
	x, w := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1), random[T](components, d, 1, 2)
	equal := fmt.Sprintf("equal features (%d)", components)
	if m == components {
		equal = fmt.Sprintf("equal projections (%d)", components)
	}
	ours, sampler := fmt.Sprintf(" (%d features)", 2*m), fmt.Sprintf("scikit-learn RBFSampler (%d features)",
		components)
	reused, fresh := reusedOutput+ours, freshOutput+ours
	c := benchCase{
		name: fmt.Sprintf("trig map %d×%d, %s, %s", n, d, equal, tn), peer: "trig",
		arrays:    map[string]any{"x": x, "w": w.RowRange(0, m), "sampler": w},
		ours:      outputs(givenMap(kernel.Kernel{}, family.Trig{}, w.RowRange(0, m)), x, reused, fresh),
		tolerance: tolerance, isFloat64: f64,
		targets: []target{{row: sampler, against: reused, least: 3}, {row: sampler, against: fresh, least: 2.2}},
	}
	for i := range c.ours { // the peers make another number of projections
		c.ours[i].flops = 2 * float64(n) * float64(d) * float64(m)
	}
	return c
}

// elementwiseCase is exp, and sin with cos, in cache.
func elementwiseCase[T dense.Float](n int) benchCase {
	tn, f64 := typeName[T]()
	x := random[T](1, n, 3, 1)
	a, b := make([]T, n), make([]T, n)
	tab := kern.Best[T]()
	return benchCase{
		name: fmt.Sprintf("exp, then sin and cos, of %d %s in cache", n, tn), peer: "elementwise",
		arrays: map[string]any{"x": x},
		ours: []variant{
			{name: "randfeat exp", run: func() { copy(a, x.Data); tab.Exp(a, 0) },
				sample: func() []float64 { return sampleOf(dense.Matrix[T]{Rows: 1, Cols: n, Stride: n, Data: a}) }},
			{name: "randfeat sin and cos", run: func() { tab.SinCos(a, b, x.Data) }},
		},
		bytes: 0, tolerance: 0, isFloat64: f64,
	}
}

// structuredCase compares the HD map with our own dense map. No peer has one.
func structuredCase[T dense.Float](n, d int) benchCase {
	tn, f64 := typeName[T]()
	x := random[T](n, d, 0.5/math.Sqrt(float64(d)), 1)
	c := benchCase{name: fmt.Sprintf("HD map against dense map %d×%d, m = d, %s", n, d, tn), isFloat64: f64}
	for _, v := range []struct {
		name string
		c    coupling.Coupling
	}{{"dense (orthogonal)", coupling.Orthogonal{}}, {"HD", coupling.Hadamard{}},
		{"fast simplex", coupling.FastSimplex{}}} {
		mp := must(randfeat.New[T](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{},
			Coupling: v.c, Dim: d, M: d}))
		dst, ws := dense.New[T](n, d), new(randfeat.Workspace[T])
		c.ours = append(c.ours, variant{name: "randfeat " + v.name, run: func() { check(mp.Queries(dst, nil, x, ws)) }})
	}
	return c
}
