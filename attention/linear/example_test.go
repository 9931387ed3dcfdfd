package linear_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// exampleSeq is a sequence of normal values whose scale falls from column to column, for examples only.
func exampleSeq(heads, length, dim int, scale float64, seed uint64) attention.Seq[float32] {
	s := attention.NewSeq[float32](1, heads, length, dim)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range s.Data {
		s.Data[i] = float32(scale * r.NormFloat64() / math.Sqrt(float64(1+i%dim)))
	}
	return s
}

// positions is the positions [lo, hi) of a sequence.
func positions(s attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	s.Data, s.Len = s.Data[lo*s.StrideL:], hi-lo
	return s
}

// distance is ‖a-b‖/‖b‖.
func distance(a, b attention.Seq[float32]) float64 {
	var diff, size float64
	for i, y := range b.Data {
		x := a.Data[i]
		diff += float64((x - y) * (x - y))
		size += float64(y * y)
	}
	return math.Sqrt(diff / size)
}

// Causal linear attention with four query heads that share two key/value heads, each with projections and parameters
// of its own, fitted to the queries and keys.
func Example() {
	const d, length = 32, 1000
	q, k, v := exampleSeq(4, length, d, 1, 1), exampleSeq(2, length, d, 1, 2), exampleSeq(2, length, d, 1, 3)

	spec := randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Adaptive{}, Coupling: coupling.Orthogonal{},
		Dim: d, M: 256, Seed: 7}
	stats, err := linear.NewHeadStats[float32](spec, k.Heads)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := stats.Add(q, k, nil, nil); err != nil {
		fmt.Println(err)
		return
	}
	specs, err := stats.Fit()
	if err != nil {
		fmt.Println(err)
		return
	}
	maps, err := linear.NewMaps[float32](specs)
	if err != nil {
		fmt.Println(err)
		return
	}

	visible := attention.Visibility{Causal: true}
	linear := linear.Attention[float32]{Visibility: visible, Maps: maps}
	approx := attention.NewSeq[float32](1, q.Heads, length, d)
	report, err := linear.Forward(approx, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	exact := attention.Exact[float32]{Visibility: visible}
	out := attention.NewSeq[float32](1, q.Heads, length, d)
	if _, err := exact.Forward(out, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows, %d without keys, relative error %.2f\n", report.Rows, report.Empty, distance(approx, out))
	// Output: 4000 rows, 0 without keys, relative error 0.07
}

// Exact weights for the nearest keys and features for all others: the error falls as the window grows.
func ExampleAttention_window() {
	const d, length = 32, 512
	q, k, v := exampleSeq(1, length, d, 1, 1), exampleSeq(1, length, d, 1, 2), exampleSeq(1, length, d, 1, 3)
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.OPRF{A: -0.05}, Dim: d,
		M: 128, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	exact, out := attention.NewSeq[float32](1, 1, length, d), attention.NewSeq[float32](1, 1, length, d)
	if _, err := (&attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}}).Forward(exact, q, k,
		v); err != nil {
		fmt.Println(err)
		return
	}
	for _, window := range []int{0, 64, 256, 512} {
		a := linear.Attention[float32]{Visibility: attention.Visibility{Causal: true},
			Maps: []randfeat.FeatureMap[float32]{m}, Window: window}
		if _, err := a.Forward(out, q, k, v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("window %3d: relative error %.2f\n", window, distance(out, exact))
	}
	// Output:
	// window   0: relative error 0.11
	// window  64: relative error 0.06
	// window 256: relative error 0.03
	// window 512: relative error 0.00
}

// A state holds what linear attention needs of any number of keys. Parts may be gathered apart and merged.
func ExampleState() {
	const d, length = 16, 3000
	k, v, q := exampleSeq(1, length, d, 1, 1), exampleSeq(1, length, 4, 1, 2), exampleSeq(1, 5, d, 1, 3)
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.OPRF{A: -0.05}, Dim: d,
		M: 64, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := linear.Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}
	whole, err := a.NewState(q.Shape, v.Shape)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second := whole.Fork(), whole.Fork()
	for _, err := range []error{
		whole.Append(k, v),
		first.Append(positions(k, 0, 1000), positions(v, 0, 1000)),
		second.Append(positions(k, 1000, length), positions(v, 1000, length)),
		first.Merge(second),
	} {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	one, two := attention.NewSeq[float32](1, 1, q.Len, v.Dim), attention.NewSeq[float32](1, 1, q.Len, v.Dim)
	for _, err := range []error{whole.Read(one, q), first.Read(two, q)} {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(first.Len(), "keys; the same as one state:", distance(two, one) < 1e-5)
	// Output: 3000 keys; the same as one state: true
}

// A saved state continues where it was: the bytes and the spec of its map are all that another process needs.
func ExampleState_UnmarshalBinary() {
	const d = 16
	k, v := exampleSeq(1, 100, d, 1, 1), exampleSeq(1, 100, 4, 1, 2)
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{}, Dim: d,
		M: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := linear.Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}
	state, err := a.NewState(k.Shape, v.Shape)
	if err == nil {
		err = state.Append(k, v)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := state.MarshalBinary()
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := a.NewState(k.Shape, v.Shape)
	if err == nil {
		err = again.UnmarshalBinary(saved)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Len(), "keys")
	saved[len(saved)/2]++
	fmt.Println("a changed byte is found:", errors.Is(again.UnmarshalBinary(saved), attention.ErrCorrupt))
	// Output:
	// 100 keys
	// a changed byte is found: true
}

// Decoding token by token after a prompt gives the outputs of causal attention over the whole sequence, at a cost that
// does not depend on how many tokens came before.
func ExampleState_Step() {
	const d, prompt, length = 16, 40, 45
	q, k, v := exampleSeq(2, length, d, 1, 1), exampleSeq(1, length, d, 1, 2), exampleSeq(1, length, d, 1, 3)
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.OPRF{A: -0.05}, Dim: d,
		M: 64, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := linear.Attention[float32]{Visibility: attention.Visibility{Causal: true},
		Maps: []randfeat.FeatureMap[float32]{m}, Window: 8}
	batch := attention.NewSeq[float32](1, q.Heads, length, d)
	if _, err := a.Forward(batch, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	dec, err := a.NewState(q.Shape, v.Shape)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := attention.NewSeq[float32](1, q.Heads, length, d)
	if err := dec.Step(positions(out, 0, prompt), positions(q, 0, prompt), positions(k, 0, prompt),
		positions(v, 0, prompt)); err != nil {
		fmt.Println(err)
		return
	}
	for t := prompt; t < length; t++ {
		if err := dec.Step(positions(out, t, t+1), positions(q, t, t+1), positions(k, t, t+1),
			positions(v, t, t+1)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(dec.Len(), "tokens; the same as in one batch:", distance(out, batch) < 1e-5)
	// Output: 45 tokens; the same as in one batch: true
}
