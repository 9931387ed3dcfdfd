// Package centroid approximates softmax attention. Keys are grouped into clusters; a query sees most clusters only by
// their centroid, and a few keys exactly. On the heads of trained models the error is a few percent at a fraction of
// the cost of exact attention. Random features of the same cost have an error above one half (docs/attention.md).
//
// # Usage
//
// A [Spec] is a method with its settings. There is one type for each situation:
//
//   - [Blocks]: bidirectional.
//   - [Prefix]: causal, whole sequences.
//   - [Sketch]: causal, token by token, by the state [Chunks].
//
// [Attention] needs no preparation. Every call clusters its own keys, and a causal query only sees clusters of keys
// before it:
//
//	a := centroid.Attention{Specs: []centroid.Spec{centroid.Blocks{Clusters: 64, Keys: 128, Queries: 128}}}
//	report, err := a.Forward(out, q, k, v)
//
// To decode token by token, make a [State] and call Step with the prompt and then with every new token:
//
//	a := centroid.Attention{Specs: []centroid.Spec{centroid.Sketch{Clusters: 16, Chunk: 512, Share: 0.005}}}
//	state, err := centroid.NewChunks(&a, q.Shape, v.Shape)
//	err = state.Step(out, q, k, v)
//
// [Slots] is a state of constant memory. [Compact] shrinks a finished context to a few weighted slots, and [Compacted]
// goes on after it.
//
// The error depends on the head. [Attention.At] computes a few rows, which can be compared with [attention.Exact]
// before the method is used. Package attention/choose does this, and chooses the Spec of every head.
//
// # The estimator
//
// Let x = Scale·q, so that x·y_j is the logit of key j. S is the set of keys that are exact for the query. The others
// are in clusters; cluster c has the mass n_c, the centroid ȳ_c and the mean value v̄_c of its keys. The output is
//
//	      Σ_{j ∈ S} e^{x·y_j} v_j + Σ_c n_c e^{x·ȳ_c} v̄_c
//	out = ─────────────────────────────────────────────── .
//	      Σ_{j ∈ S} e^{x·y_j}     + Σ_c n_c e^{x·ȳ_c}
//
// Every key counts once, under one normaliser. All weights are positive, and rows are stabilised by their running
// maximum. The estimator is deterministic. Its bias comes from the spread inside clusters. It is exact if all keys are.
//
// Queries are sorted first, so that the queries of a block attend to the same keys. A block of [Blocks] weighs all keys
// by its mean query: the heaviest are exact, and the others are in centroids made for the block. All its products are
// dense tiles. [Prefix] works in chunks of positions: the queries of a chunk see its keys exactly, and all earlier keys
// as Blocks see them. With [Sketch] the clusters of chunks are for decoding: single keys are exact, found by sketches.
// See tilt.go, prefix.go and sketch.go.
//
// # The clusters
//
// The metric R = (E xxᵀ)^½ measures the distance of keys by the difference of their logits, |R(y−c)|² = E(x·(y−c))².
// Blocks and Prefix take x relative to the mean query of a block. In a chunk of Sketch keys are weighted by the
// attention that a few landmark queries r_t give them,
//
//	w_j = mean_t softmax_j(r_t·y_j) + 0.1/L,
//
// both in k-means and in the centroid ȳ_c = Σ w_j y_j / Σ w_j. Blocks and Prefix train on a sample of the keys, so that
// the cost of training does not grow with the sequence. Assigning all keys is one matrix product with the centres.
//
// A mask of padding works in Forward; a State takes no masks.
//
// # Related work
//
// Clustered queries (Vyas et al. 2020, arXiv:2007.04825) and sparse plus low-rank attention (Scatterbrain, Chen et al.
// 2021, arXiv:2110.15343). Clustered keys: Squeezed Attention (Hooper et al. 2024, arXiv:2411.09688), ClusterKV (Liu et
// al. 2024, arXiv:2412.03213), MuSe (Mitchell and Kersting 2025) and Multipole Attention (Hooper et al. 2025).
// Multipole Attention is the closest: exact for the top clusters, centroids for the rest. New here are the query metric
// and the landmark weights in the clustering, blocks that choose together, and one normaliser over sinks, window,
// exact clusters and centroids.
//
// # Files
//
//   - spec.go, attention.go, check.go, trials.go: the methods, their settings, and trials of many settings on one head.
//   - call.go, tiltflow.go, tilt.go, blocks.go, roworder.go, balance.go: Blocks. flow.go: the order of jobs, here and
//     in prefixes.
//   - prefix.go, prefixflow.go: Prefix.
//   - chunks.go, chunkfit.go, chunkcodec.go, sketch.go, replay.go: Sketch.
//   - state.go, codec.go: the fields and checks that all decoding states share. slots.go, compact.go, compacted.go: the
//     other states.
//   - fit.go, kmeans.go, assign.go, tiles.go, select.go: clusters of keys, and sums over tiles of rows and keys.
package centroid
