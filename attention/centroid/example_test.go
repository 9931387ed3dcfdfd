package centroid_test

import (
	"encoding/json"
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

// Attention over 64 centroids, the neighbours of every query and the members of its 4 most uncertain clusters.
func ExampleAttention() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	exact, out := attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim)
	var reference attention.Exact[float32]
	if _, err := reference.Forward(exact, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	spec := centroid.Spec{Clusters: 64, Top: 4, Window: 16, Block: 16}
	a := centroid.Attention[float32]{Specs: []centroid.Spec{spec}}
	report, err := a.Forward(out, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("error below 3 %:", distance(out, exact) < 0.03)
	fmt.Println("fewer than 200 of 1024 keys exact:", report.Exact < 200*report.Rows)
	// Output:
	// error below 3 %: true
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
	for _, clusters := range []int{16, 64} {
		a := centroid.Attention[float32]{Specs: []centroid.Spec{{Clusters: clusters, Top: 2}}}
		if err := a.At(out, rows, q, k, v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d clusters are enough for 3 %%: %v\n", clusters, distance(out, exact) < 0.03)
	}
	// Output:
	// 16 clusters are enough for 3 %: false
	// 64 clusters are enough for 3 %: true
}

// Centres fitted to one text serve another, and are saved as JSON.
func ExampleFit() {
	const length, dim = 1024, 16
	spec := []centroid.Spec{{Clusters: 64, Top: 4, Window: 16, Block: 16}}
	q, k, v := tokens(1, length, dim)
	centres, err := centroid.Fit(spec, 0, attention.Visibility{}, q, k, v)
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := json.Marshal(centres)
	if err != nil {
		fmt.Println(err)
		return
	}
	var loaded []*centroid.Centres
	if err := json.Unmarshal(saved, &loaded); err != nil {
		fmt.Println(err)
		return
	}
	q, k, v = tokens(2, length, dim)
	exact, out := attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim)
	var reference attention.Exact[float32]
	if _, err := reference.Forward(exact, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	a := centroid.Attention[float32]{Specs: spec, Centres: loaded}
	if _, err := a.Forward(out, q, k, v); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("centres:", loaded[0].Clusters())
	fmt.Println("error below 5 %:", distance(out, exact) < 0.05)
	// Output:
	// centres: 64
	// error below 5 %: true
}
