package choose

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// fewLandmarks is the number of landmarks of plans for decoding. They weigh keys nearly as well as more landmarks do: 8
// instead of 32 raise the median error of real heads from 0.086 to 0.087.
const fewLandmarks = 8

// featureGrid returns the candidates of random features.
func featureGrid(scale float64, seed uint64, dim int) []Plan {
	var out []Plan
	for _, n := range []int{32, 128} {
		spec := randfeat.Spec{Kernel: kernel.Attention(dim), Family: family.Adaptive{}, Coupling: coupling.Orthogonal{},
			Dim: dim, M: n, Seed: seed}
		if scale > 0 {
			spec.Kernel.Scale = 1 / math.Sqrt(scale) // divides queries and keys, so products are multiplied by scale
		}
		out = append(out, Plan{Method: Features, Features: &FeatureSpec{Spec: spec}})
	}
	return out
}

// costGrid returns the candidates of a choice by cost. Their chunks and blocks are smaller than those of denseGrid:
// small products take more time than their cost tells. On twelve generated heads with tolerance 0.1 causal ones cost
// 94, 162 and 264 at 512, 2048 and 4096 keys.
func costGrid(causal bool, seed uint64, length, group int) []Plan {
	var out []Plan
	add := func(s centroid.Spec) { out = append(out, Plan{Method: Centroid, Centroid: s}) }
	for _, clusters := range []int{16, 32} {
		for _, keys := range []int{16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024} {
			for _, chunk := range []int{32, 64, 128, 256} {
				switch {
				case keys > length/3 || 4*chunk > length || length > 128*chunk:
				case causal:
					add(centroid.Prefix{Clusters: clusters, Keys: keys, Chunk: chunk, Window: chunk / 2,
						Start: min(prefixStart, length/4), Sample: 8 * clusters, Passes: 1, Seed: seed,
						Queries: prefixQueries(128, chunk, group)})
				case chunk > 32 || length < 512:
					add(centroid.Blocks{Clusters: clusters, Keys: keys, Queries: chunk, Sample: 8 * clusters, Passes: 1,
						Seed: seed})
				}
			}
		}
	}
	return out
}

// denseGrid returns the candidates whose queries choose together, for choices by seconds. They differ in their clusters
// and in the number of keys that a block of queries meets exactly.
func denseGrid(causal bool, seed uint64, length, group int) []Plan {
	var out []Plan
	add := func(s centroid.Spec) { out = append(out, Plan{Method: Centroid, Centroid: s}) }
	if causal {
		for _, chunk := range []int{256, 512, 1024} {
			if 2*chunk > length || length > 64*chunk || chunk == 256 && length > 1<<13 {
				continue
			}
			most := max(length/6, fewestKeys)
			for _, keys := range []int{fewestKeys, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
				4096, 5120} {
				s, few := prefixSpec(length, chunk, group, seed), leanSpec(length, chunk, group, seed)
				if s.Keys = keys; keys <= most {
					add(s)
				}
				if few.Keys = keys; keys <= min(most, leanKeys) && chunk == prefixChunk(length) {
					add(few)
				}
			}
		}
		return out
	}
	for _, clusters := range []int{32, 64, 128} {
		if 16*clusters > length || clusters == 32 && length > 2048 || clusters == 128 && length < 4096 {
			continue
		}
		for _, block := range []int{64, 128, 256} {
			if block == 64 && length > 1<<13 || 16*block > length {
				continue
			}
			for _, keys := range []int{16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536,
				2048, 3072} {
				if keys <= length/3 {
					add(centroid.Blocks{Clusters: clusters, Queries: block, Keys: keys, Sample: 8 * clusters, Passes: 1,
						Seed: seed})
				}
			}
		}
	}
	return out
}

// fewestKeys is the least number of exact keys of causal plans. With fewer, a block misses keys that only one of its
// queries looks for. Such rows are rare, some ten of ten thousand, but make a third of the error, and a sample of rows
// does not show them.
const fewestKeys = 64

// prefixSpec returns a causal plan without Keys. It has few clusters, since exact keys lower the error by
// more for the same time.
func prefixSpec(length, chunk, group int, seed uint64) centroid.Prefix {
	clusters := 16
	for n := 1 << 13; n < length; n *= 4 {
		clusters *= 2
	}
	return centroid.Prefix{Clusters: min(clusters, chunk), Chunk: chunk, Queries: prefixQueries(512, chunk, group),
		Window: min(prefixWindow, chunk/2), Start: min(prefixStart, length/2), Sample: 8 * clusters, Passes: 1,
		Seed: seed}
}

// Queries of chunks before position prefixStart see all keys: clusters of so few keys take longer. Queries of later
// chunks see the prefixWindow keys before their chunk. Without these, the first queries of a chunk have by far the
// largest errors.
const (
	prefixStart  = 1024
	prefixWindow = 128
)

// leanSpec returns prefixSpec with half of the window and blocks of twice the size. On heads for which fewestKeys keys
// are enough it takes about a tenth less time, with at most leanKeys keys. On others its error costs more keys than it
// saves time.
func leanSpec(length, chunk, group int, seed uint64) centroid.Prefix {
	s := prefixSpec(length, chunk, group, seed)
	s.Queries, s.Window = prefixQueries(1024, chunk, group), s.Window/2
	return s
}

// leanKeys is the largest number of exact keys of lean plans.
const leanKeys = 128

// lean tells whether a plan is one of leanSpec.
func lean(p Plan) bool {
	s, ok := p.Centroid.(centroid.Prefix)
	return ok && s.Window < min(prefixWindow, s.Chunk/2)
}

// prefixQueries is the number of queries of a block in causal plans with Keys, whose blocks lie in one chunk: the
// queries of a chunk, halved until they are fewer than most, as they are sorted by halving.
func prefixQueries(most, chunk, group int) int {
	n := chunk * group
	for n >= most {
		n = (n + 1) / 2
	}
	return n
}

// prefixChunk returns the chunk of these plans that is most often the best.
func prefixChunk(length int) int { return either(length <= 1<<12, 256, 512) }

// manyFeatures is the least tolerance at which random features are candidates of a choice by seconds. On trained heads
// their errors are larger than that.
const manyFeatures = 0.2
