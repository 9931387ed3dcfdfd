package sampling_test

import (
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/sampling"
)

// A sampler of 10 000 classes, one step of training by a sampled softmax, and the update of the classes that it moved.
func Example() {
	const n, d, tau = 10_000, 16, 1.0
	classes := dense.Convert[float32](rows(n, d, 0.25, 1))
	m, err := randfeat.New[float32](randfeat.Spec{
		Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: math.Sqrt(tau)},
		Family: family.Positive{}, Coupling: coupling.Orthogonal{}, Dim: d, M: 128, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	s, err := sampling.New(m, classes.Clone(), sampling.Options{})
	if err != nil {
		log.Fatal(err)
	}
	queries, targets := dense.Convert[float32](rows(8, d, 0.25, 2)), []int{5, 3, 8, 5, 1, 0, 2, 9}
	var draws sampling.Draws
	if err := s.Draw(&draws, queries, sampling.Request{K: 40, Distinct: true, Seed: 7}); err != nil {
		log.Fatal(err)
	}
	loss := make([]float64, queries.Rows)
	var g sampling.Gradient[float32]
	if err := (sampling.Loss[float32]{Tau: tau}).Forward(loss, &g, queries, classes, targets, &draws); err != nil {
		log.Fatal(err)
	}
	if err := g.AddClasses(classes, queries, targets, &draws, -0.1); err != nil { // a step down
		log.Fatal(err)
	}
	moved := append(targets, draws.IDs...)
	if err := s.Set(moved, rowsOf(classes, moved)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("loss of query 0: %.1f, log n: %.1f\n", loss[0], math.Log(n))
	fmt.Printf("%d classes, tree of %d kB\n", s.Len(), s.Memory()>>10)
	// Output:
	// loss of query 0: 9.6, log n: 9.2
	// 10000 classes, tree of 167 kB
}

// What cannot be drawn is one kind of error: more distinct classes than there are, weights that are no probabilities.
func ExampleNewFixed() {
	f, err := sampling.NewFixed([]float64{1, 2, 0, 1})
	if err != nil {
		log.Fatal(err)
	}
	var draws sampling.Draws
	if err := f.Draw(&draws, 1, sampling.Request{K: 4000, Seed: 1}); err != nil {
		log.Fatal(err)
	}
	var counts [4]int
	for _, id := range draws.IDs {
		counts[id]++
	}
	fmt.Println(counts)
	err = f.Draw(&draws, 1, sampling.Request{K: 5, Distinct: true, Seed: 1})
	fmt.Println(errors.Is(err, sampling.ErrRequest))
	_, err = sampling.NewFixed([]float64{1, -2})
	fmt.Println(errors.Is(err, sampling.ErrRequest), err)
	// Output:
	// [1032 1969 0 999]
	// true
	// true weight -2 of class 1: cannot be drawn
}

func rowsOf(x dense.Matrix[float32], ids []int) dense.Matrix[float32] {
	out := dense.New[float32](len(ids), x.Cols)
	for i, id := range ids {
		copy(out.Row(i), x.Row(id))
	}
	return out
}
