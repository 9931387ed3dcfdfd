// Command custommap uses a custom feature map in linear attention: randfeat.FuncMap turns a plain function of a row
// into a FeatureMap. The example is the polynomial kernel (1 + x·y)². It is never negative, so the attention is a
// weighted mean.
package main

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
)

const length, dim = 500, 8

// square writes the features of (1 + x·y)²: 1, √2·x_i, and x_i·x_j.
func square(phi, x []float64) {
	phi[0] = 1
	at := 1
	for i, a := range x {
		phi[at] = math.Sqrt2 * a
		at++
		for _, b := range x[:i] {
			phi[at] = math.Sqrt2 * a * b
			at++
		}
		phi[at] = a * a
		at++
	}
}

func main() {
	m := &randfeat.FuncMap[float64]{Name: "square", In: dim, Out: 1 + dim + dim*(dim+1)/2, Query: square}
	r := rand.New(rand.NewPCG(1, 2))
	x, v := dense.New[float64](length, dim), dense.New[float64](length, 2)
	for i := range x.Data {
		x.Data[i] = r.NormFloat64() / 2
	}
	for i := range v.Data {
		v.Data[i] = r.NormFloat64()
	}
	out := dense.New[float64](length, 2)
	a := linear.Attention[float64]{Visibility: attention.Visibility{Causal: true},
		Maps: []randfeat.FeatureMap[float64]{m}}
	if _, err := a.Forward(attention.One(out), attention.One(x), attention.One(x), attention.One(v)); err != nil {
		log.Fatal(err)
	}

	// Compare with the definition, which takes time quadratic in the length.
	worst := 0.0
	for i := range length {
		var sum float64
		var want [2]float64
		for j := range i + 1 {
			w := 1 + dense.Dot(x.Row(i), x.Row(j))
			w *= w
			sum += w
			want[0] += w * v.At(j, 0)
			want[1] += w * v.At(j, 1)
		}
		for c := range want {
			worst = max(worst, math.Abs(out.At(i, c)-want[c]/sum))
		}
	}
	fmt.Printf("%d features, %d tokens, equal to the definition: %v\n", m.OutDim(), length, worst < 1e-9)
}
