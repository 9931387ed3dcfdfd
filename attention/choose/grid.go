package choose

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The grids, for 512 keys and for 4096 causal ones. Clusters grow with the square root of the length, and so do the
// members of one. The sets are those that a greedy search over 520 found cheapest for the heads of a sentence encoder,
// and a few for looser and tighter bounds.
var (
	bothWays = []centroid.Spec{
		{Clusters: 8}, {Clusters: 16}, {Clusters: 16, Window: 4, Block: 4}, {Clusters: 32},
		{Clusters: 16, Window: 4, Block: 4, Top: 1}, {Clusters: 32, Top: 1}, {Clusters: 48, Top: 1},
		{Clusters: 32, Window: 4, Block: 4, Top: 2}, {Clusters: 48, Top: 2},
		{Clusters: 48, Window: 4, Block: 4, Top: 2},
		{Clusters: 32, Top: 4}, {Clusters: 48, Top: 4}, {Clusters: 32, Window: 4, Block: 4, Top: 4},
		{Clusters: 48, Window: 4, Block: 4, Top: 4}, {Clusters: 48, Window: 8, Block: 8, Top: 4},
		{Clusters: 48, Top: 6}, {Clusters: 48, Window: 4, Block: 4, Top: 6}, {Clusters: 48, Top: 8},
		{Clusters: 64, Window: 4, Block: 8, Top: 8}, {Clusters: 64, Window: 4, Block: 8, Top: 10},
		{Clusters: 64, Window: 8, Block: 8, Top: 11},
		{Clusters: 64, Window: 8, Block: 8, Top: 16}, {Clusters: 96, Window: 8, Block: 8, Top: 24},
		{Clusters: 96, Window: 8, Block: 8, Top: 32},
	}
	onwards = []centroid.Spec{
		{Clusters: 16, Window: 16, Block: 16}, {Clusters: 32, Window: 32, Block: 32},
		{Clusters: 32, Window: 16, Block: 16, Top: 2, Keys: 16},
		{Clusters: 32, Window: 32, Block: 32, Top: 2, Keys: 24},
		{Clusters: 32, Window: 32, Block: 32, Top: 4, Keys: 48},
		{Clusters: 64, Window: 32, Block: 32, Top: 6, Keys: 48},
		{Clusters: 64, Window: 64, Top: 6, Keys: 48}, {Clusters: 64, Window: 64, Top: 8, Keys: 96},
		{Clusters: 64, Window: 64, Top: 8, Keys: 128}, {Clusters: 128, Window: 64, Top: 20, Keys: 256},
	}
	featureCounts = []int{32, 128}
)

// fewLandmarks of the fits of the grid, which weigh keys nearly as well as more: 8 of 32 raise the median error of real
// heads from .086 to .087.
const fewLandmarks = 8

// Defaults of causal centroids: the first tokens of a text and the spread inside of clusters matter there.
const causalSinks = 4

// grid lists the candidates.
func grid(causal bool, scale float64, seed uint64, length, dim int) []Plan {
	var out []Plan
	grow := math.Sqrt(float64(length) / 512)
	specs := bothWays
	if causal {
		specs, grow = onwards, max(1, math.Sqrt(float64(length)/4096))
	}
	for _, s := range specs {
		s.Seed = seed
		s.Clusters = max(4, 4*int(math.Round(float64(s.Clusters)*grow/4)))
		if causal {
			s.Sinks, s.Spread = causalSinks, true
		} else {
			s.Landmarks = fewLandmarks
		}
		out = append(out, Plan{Method: Centroid, Centroid: &s})
	}
	for _, n := range featureCounts {
		spec := randfeat.Spec{Kernel: kernel.Attention(dim), Family: family.Adaptive{}, Coupling: coupling.Orthogonal{},
			Dim: dim, M: n, Seed: seed}
		if scale > 0 {
			spec.Kernel.Scale = 1 / math.Sqrt(scale) // of both sides
		}
		out = append(out, Plan{Method: Features, Features: &FeatureSpec{Spec: spec}})
	}
	return out
}

// denseGrid lists the candidates whose queries choose together, for choices by seconds: clusters, and the number of
// keys that a block meets exactly.
func denseGrid(causal bool, seed uint64, length int) []Plan {
	var out []Plan
	add := func(s centroid.Spec) {
		s.Seed, s.Passes = seed, 1
		out = append(out, Plan{Method: Centroid, Centroid: &s})
	}
	if causal {
		for _, chunk := range []int{256, 512, 1024} {
			for _, clusters := range []int{32, 64} {
				for _, keys := range []int{fewestKeys, 192, 256, 384, 512, 768, 1024, 1536} {
					if 2*chunk <= length && length <= 32*chunk && keys <= max(length/6, fewestKeys) {
						add(centroid.Spec{Clusters: clusters, Chunk: chunk, Together: prefixQueries, Keys: keys,
							Sample: 8 * clusters})
					}
				}
			}
		}
		return out
	}
	for _, clusters := range []int{32, 64, 128, 256} {
		if 16*clusters > length || clusters == 32 && length > 2048 {
			continue
		}
		for _, keys := range []int{16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072} {
			if keys <= length/3 {
				add(centroid.Spec{Clusters: clusters, Together: blockQueries(length), Keys: keys, Sample: 8 * clusters})
			}
		}
	}
	return out
}

// blockQueries is the number of queries of a block: small ones need fewer keys, but each of them reads all keys once.
func blockQueries(length int) int { return either(length <= 1<<12, 64, 128) }

// fewestKeys is the least number of exact keys of causal plans. With fewer, a block misses keys that one of its queries
// alone looks for. Such rows are rare, some ten of ten thousand, and make a third of the error: a sample of rows does
// not tell.
const fewestKeys = 128

// prefixQueries is the same for causal attention, whose blocks are of one chunk; prefixChunk is the chunk that is most
// often the best.
const prefixQueries = 128

func prefixChunk(length int) int { return either(length <= 1<<11, 256, 512) }

// manyFeatures is the least tolerance at which random features are candidates of a choice by seconds: on trained heads
// their errors are above.
const manyFeatures = 0.2
