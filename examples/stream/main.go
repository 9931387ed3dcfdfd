// Command stream decodes token by token with centroid attention: a state takes one query, key and value at a time.
// The program compares its output with exact attention over all keys so far.
package main

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
)

const length, dim, words = 2048, 32, 60

func main() {
	q, k, v := tokens()
	exact := attention.NewSeq[float32](1, 1, length, dim)
	causal := attention.Visibility{Causal: true}
	reference := attention.Exact[float32]{Visibility: causal}
	if _, err := reference.Forward(exact, q, k, v); err != nil {
		log.Fatal(err)
	}

	a := centroid.Attention{Visibility: causal,
		Specs: []centroid.Spec{centroid.Sketch{Clusters: 16, Chunk: 256, Share: 0.002, Window: 64}}}
	state, err := centroid.NewChunks(&a, q.Shape, v.Shape)
	if err != nil {
		log.Fatal(err)
	}
	out := attention.NewSeq[float32](1, 1, 1, dim)
	var wrong, size float64
	for t := range length {
		if err := state.Step(out, at(q, t), at(k, t), at(v, t)); err != nil {
			log.Fatal(err)
		}
		for c, want := range exact.Head(0, 0).Row(t) {
			d := float64(out.Data[c] - want)
			wrong += d * d
			size += float64(want) * float64(want)
		}
	}
	r := state.Report()
	fmt.Printf("%d tokens, relative error below 10 %%: %v\n", state.Len(), math.Sqrt(wrong/size) < 0.1)
	fmt.Printf("keys read one by one: less than half of those that exact attention reads: %v\n",
		r.Exact < length*(length+1)/4)
}

// at returns token t of a sequence.
func at(s attention.Seq[float32], t int) attention.Seq[float32] {
	one := attention.NewSeq[float32](1, 1, 1, dim)
	copy(one.Data, s.Head(0, 0).Row(t))
	return one
}

// tokens draws a sequence of recurring words with noise: queries look for words, keys and values are words.
func tokens() (q, k, v attention.Seq[float32]) {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]float32, words*dim)
	for i := range vocabulary {
		vocabulary[i] = float32(r.NormFloat64())
	}
	q, k, v = attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim),
		attention.NewSeq[float32](1, 1, length, dim)
	for t := range length {
		ask, word := r.IntN(words)*dim, r.IntN(words)*dim
		for c := range dim {
			q.Data[t*dim+c] = vocabulary[ask+c] + 0.3*float32(r.NormFloat64())
			k.Data[t*dim+c] = vocabulary[word+c] + 0.3*float32(r.NormFloat64())
			v.Data[t*dim+c] = vocabulary[word+(c+1)%dim]
		}
	}
	return q, k, v
}
