package centroid_test

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
)

// How many clusters must be exact? Trials compute a few rows with one spec after the other; specs that differ only in
// Top share their clusters.
func ExampleTrials() {
	const length, dim = 1024, 16
	q, k, v := tokens(1, length, dim)
	trials, err := centroid.NewTrials(attention.Visibility{}, 0, q, k, v)
	if err != nil {
		panic(err)
	}
	rows := []int{100, 300, 500, 700, 900}
	asked := attention.One(q.Head(0, 0).Pick(rows))
	exact, out := attention.NewSeq[float32](1, 1, len(rows), dim), attention.NewSeq[float32](1, 1, len(rows), dim)
	if _, err := new(attention.Exact[float32]).Forward(exact, asked, k, v); err != nil {
		panic(err)
	}
	for _, top := range []int{0, 1, 8} {
		if err := trials.At(out, rows, centroid.Spec{Clusters: 24, Top: top}); err != nil {
			panic(err)
		}
		fmt.Printf("%d exact clusters are enough for 5 %%: %v\n", top, distance(out, exact) < 0.05)
	}
	err = trials.At(out, rows, centroid.Spec{Clusters: -1})
	fmt.Println(errors.Is(err, centroid.ErrSpec))
	// Output:
	// 0 exact clusters are enough for 5 %: false
	// 1 exact clusters are enough for 5 %: false
	// 8 exact clusters are enough for 5 %: true
	// true
}

// Which cluster does a new key join? Keys of two kinds of token, far apart, have two centres.
func ExampleAssign() {
	const n = 64
	keys := dense.New[float32](n, 2)
	for i := range n {
		keys.Set(i, 0, float32(i%2)*8+float32(i%7)/7) // every second key is of the second kind
		keys.Set(i, 1, float32(i%5)/5)
	}
	k := attention.One(keys)
	centres, err := centroid.Fit([]centroid.Spec{{Clusters: 2}}, 0, attention.Visibility{}, k, k, k)
	if err != nil {
		panic(err)
	}
	fresh := dense.MustFromRows([][]float32{{0.5, 0.5}, {8.5, 0.5}, {7, 0}, {1, 1}})
	clusters := make([]int32, fresh.Rows)
	if err := centroid.Assign(clusters, centres[0], fresh, fresh); err != nil {
		panic(err)
	}
	fmt.Println("keys 0 and 3 together:", clusters[0] == clusters[3], "and apart from 1 and 2:",
		clusters[0] != clusters[1] && clusters[1] == clusters[2])
	// Output:
	// keys 0 and 3 together: true and apart from 1 and 2: true
}
