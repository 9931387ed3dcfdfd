package main

import (
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

// The synthetic sequence of attend --demo: queries and keys follow a slowly changing topic, so that near keys matter
// more than distant ones, with variances that fall off along random axes, as in trained models.
const (
	topicKeep = 0.995 // of the topic from one position to the next: it changes within some two hundred
	topicSize = 1.2   // of the topic in the leading direction
	noiseSize = 0.5
)

// attendDemoData draws one head of the given length; the seed is fixed, so every run sees the same rows.
func attendDemoData(length, dim int) (q, k, v attention.Seq[float32], err error) {
	g := dense.New[float64](dim, dim)
	rng.Normals(g.Data, rng.Stream(demoSeed, 10))
	axes, err := omega.HaarFromGaussian(g)
	if err != nil {
		return q, k, v, err
	}
	q, k, v = attention.NewSeq[float32](1, 1, length, dim), attention.NewSeq[float32](1, 1, length, dim),
		attention.NewSeq[float32](1, 1, length, dim)
	topic, step := make([]float64, dim), make([]float64, dim)
	src := rng.Stream(demoSeed, 11)
	rng.Normals(topic, src)
	unit := math.Pow(float64(dim), 0.25) // so that the size of the scores does not depend on dim
	row := func(dst []float32, noise []float64, mean float64) {
		for c := range dst {
			var x float64
			for l, t := range topic {
				decay := 1 / math.Sqrt(float64(l+1))
				x += axes.At(l, c) * (decay*(topicSize*t+noiseSize*noise[l]) + mean*decay)
			}
			dst[c] = float32(x * unit / 2)
		}
	}
	noise := make([]float64, dim)
	for i := range length {
		rng.Normals(step, src)
		for l := range topic {
			topic[l] = topicKeep*topic[l] + math.Sqrt(1-topicKeep*topicKeep)*step[l]
		}
		rng.Normals(noise, src)
		row(q.Head(0, 0).Row(i), noise, 0.3)
		rng.Normals(noise, src)
		row(k.Head(0, 0).Row(i), noise, -0.3)
		rng.Normals(noise, src)
		for c := range dim { // values follow the topic too
			v.Head(0, 0).Row(i)[c] = float32(topic[c] + 0.5*noise[c])
		}
	}
	return q, k, v, nil
}
