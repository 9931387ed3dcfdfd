package centroid_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
)

// tokens are queries, keys and values of a sequence whose 50 words come back.
func tokens(seed uint64, length, dim int) (q, k, v attention.Seq[float32]) {
	words := rand.New(rand.NewPCG(1, 1))
	vocabulary := make([]float32, 50*dim)
	for i := range vocabulary {
		vocabulary[i] = float32(words.NormFloat64())
	}
	r := rand.New(rand.NewPCG(seed, 2))
	q, k, v = attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim),
		attention.NewSeq[float32](1, 1, length, dim)
	for l := range length {
		w, ask := r.IntN(50), r.IntN(50)
		for c := range dim {
			q.Head(0, 0).Set(l, c, vocabulary[ask*dim+c]+0.3*float32(r.NormFloat64()))
			k.Head(0, 0).Set(l, c, vocabulary[w*dim+c]+0.3*float32(r.NormFloat64()))
			v.Head(0, 0).Set(l, c, vocabulary[w*dim+(c+1)%dim]+0.3*float32(r.NormFloat64()))
		}
	}
	return q, k, v
}

func distance(a, b attention.Seq[float32]) float64 {
	var diff, size float64
	for i, x := range b.Data {
		diff += float64((a.Data[i] - x) * (a.Data[i] - x))
		size += float64(x * x)
	}
	return math.Sqrt(diff / size)
}

// Blocks of 16 similar queries see 96 keys exactly, and the others by 32 centroids.
func ExampleAttention() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	exact, out := attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim)
	var reference attention.Exact[float32]
	if _, err := reference.Forward(exact, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	spec := centroid.Blocks{Clusters: 32, Queries: 16, Keys: 96}
	a := centroid.Attention{Specs: []centroid.Spec{spec}}
	report, err := a.Forward(out, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("error below 10 %:", distance(out, exact) < 0.1)
	fmt.Println("fewer than 200 of 1024 keys exact:", report.Exact < 200*report.Rows)
	// Output:
	// error below 10 %: true
	// fewer than 200 of 1024 keys exact: true
}

// A few rows tell the error before all are computed.
func ExampleAttention_At() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	rows := []int{100, 300, 500, 700, 900}
	asked := attention.NewSeq[float32](1, 1, len(rows), dim)
	for i, l := range rows {
		copy(asked.Head(0, 0).Row(i), q.Head(0, 0).Row(l))
	}
	exact, out := attention.NewSeq[float32](1, 1, len(rows), dim), attention.NewSeq[float32](1, 1, len(rows), dim)
	var reference attention.Exact[float32]
	if _, err := reference.Forward(exact, asked, k, v); err != nil {
		fmt.Println(err)
		return
	}
	for _, keys := range []int{4, 64} {
		a := centroid.Attention{Specs: []centroid.Spec{centroid.Blocks{Clusters: 32, Queries: 16, Keys: keys}}}
		if err := a.At(out, rows, q, k, v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d exact keys are enough for 2 %%: %v\n", keys, distance(out, exact) < 0.02)
	}
	// Output:
	// 4 exact keys are enough for 2 %: false
	// 64 exact keys are enough for 2 %: true
}

// Settings are tried one after the other on a few rows.
func ExampleTrials() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	rows := []int{100, 300, 500, 700, 900}
	out := attention.NewSeq[float32](1, 1, len(rows), dim)
	trials, err := centroid.NewTrials(attention.Visibility{}, 0, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, keys := range []int{16, 32, 64} { // they share the clusters
		if err := trials.At(out, rows, centroid.Blocks{Clusters: 24, Queries: 16, Keys: keys}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(trials.At(out, rows, centroid.Blocks{}))
	// Output:
	// clusters 0, want 1 to 16777216: invalid centroid spec
}

// Tokens are decoded one by one by a state that reads some of the keys.
func ExampleChunks() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	a := &centroid.Attention{Specs: []centroid.Spec{centroid.Sketch{Clusters: 16, Chunk: 128, Share: 0.01, Window: 32}}}
	state, err := centroid.NewChunks(a, q.Shape, v.Shape)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, exact := attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim)
	for l := range length {
		at := func(s attention.Seq[float32]) attention.Seq[float32] {
			s.Data, s.Len = s.Data[l*s.StrideL:], 1
			return s
		}
		if err := state.Step(at(out), at(q), at(k), at(v)); err != nil {
			fmt.Println(err)
			return
		}
	}
	reference := attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}}
	if _, err := reference.Forward(exact, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	r := state.Report()
	fmt.Println("error below 10 %:", distance(out, exact) < 0.1)
	fmt.Println("fewer than half of the keys exact:", r.Exact < r.Rows*length/4)
	// Output:
	// error below 10 %: true
	// fewer than half of the keys exact: true
}
