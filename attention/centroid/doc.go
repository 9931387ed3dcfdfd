// Package centroid approximates softmax attention. Keys are grouped into clusters; a query sees most clusters only by
// their centroid, and a few keys exactly. On the heads of trained models the error is a few percent at a fraction of
// the cost of exact attention. Random features of the same cost have an error above one half (docs/attention.md).
//
// # Usage
//
// A [Spec] is a method with its settings. There is one type for each situation:
//
//   - [PerQuery]: bidirectional, every query chooses its exact keys; the fewest operations.
//   - [Blocks]: bidirectional, blocks of sorted queries choose together; the least time on long sequences.
//   - [Prefix]: causal, whole sequences.
//   - [Sketch]: causal, token by token, by the state [Chunks].
//
// [Attention] needs no preparation. Every call clusters its own keys, and a causal query only sees clusters of keys
// before it:
//
//	a := centroid.Attention{Specs: []centroid.Spec{centroid.PerQuery{Clusters: 64, Top: 4, Window: 16, Block: 16}}}
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
// [PerQuery] is the plain form. Let x = Scale·q, so that x·y_j is the logit of key j. Cluster c has n_c keys, the
// centroid ȳ_c and the sum of values s_c. S is the set of keys that are exact for the query. The output is
//
//	      Σ_{j ∈ S} e^{x·y_j} v_j + Σ_c e^{x·ȳ_c} (s_c − s_c^S)
//	out = ───────────────────────────────────────────────────── ,
//	      Σ_{j ∈ S} e^{x·y_j}     + Σ_c e^{x·ȳ_c} (n_c − n_c^S)
//
// where s_c^S and n_c^S sum over the keys of cluster c that are in S. Every key counts once, under one normaliser. S is
// the union of
//
//   - sinks, the first keys (Xiao et al. 2023, arXiv:2309.17453);
//   - a window: the block of the query and its neighbours;
//   - the members of the Top clusters with the largest expected error e^{x·ȳ_c} √n_c ρ_c ν_c. Here ρ_c is the spread of
//     the keys in the metric below, and ν_c the spread of the values. At the same cost, ranking by mass alone has a
//     quarter to a half more error.
//
// All weights are positive, and rows are stabilised by their running maximum. The estimator is deterministic. Its bias
// comes from the spread inside clusters. It is exact in three cases: there are as many clusters as keys, all clusters
// are in Top, or the window covers the sequence.
//
// # The clusters
//
// The fit differs from plain k-means in two ways. First, the metric R = (E xxᵀ)^½ measures the distance of keys by the
// difference of their logits, |R(y−c)|² = E(x·(y−c))². Second, keys are weighted by the attention that a few landmark
// queries r_t give them,
//
//	w_j = mean_t softmax_j(r_t·y_j) + 0.1/L,
//
// both in k-means and in the centroid ȳ_c = Σ w_j y_j / Σ w_j. Training uses a sample of the keys, drawn in proportion
// to w, so its cost does not grow with the sequence. Assigning all keys is one matrix product with the centres.
//
// With Clusters ∝ √L and few Top clusters, attention takes O(L^1.5) time. Keys are sorted by cluster, which makes the
// exact part a series of dense products: one cluster times the queries that have chosen it.
//
// # Dense tiles
//
// Queries that choose their clusters individually need the fewest operations. Blocks of queries that choose together
// often need less time, because all their products are dense tiles. Queries are sorted first, so that the queries of a
// block attend to the same keys. A block of [Blocks] weighs all keys by its mean query: the heaviest are exact, and the
// others are in centroids made for the block. [Prefix] works in chunks of positions: the queries of a chunk see its
// keys exactly, and all earlier keys as Blocks see them. With [Sketch] the clusters of chunks are for decoding: single
// keys are exact, found by sketches. See tilt.go, prefix.go and sketch.go.
//
// A mask of padding works in Forward; a State takes no masks.
//
// # Related work
//
// Clustered queries (Vyas et al. 2020, arXiv:2007.04825) and sparse plus low-rank attention (Scatterbrain, Chen et al.
// 2021, arXiv:2110.15343). Clustered keys: Squeezed Attention (Hooper et al. 2024, arXiv:2411.09688), ClusterKV (Liu et
// al. 2024, arXiv:2412.03213), MuSe (Mitchell and Kersting 2025) and Multipole Attention (Hooper et al. 2025).
// Multipole Attention is the closest: exact for the top clusters, centroids for the rest. New here are the query metric
// and the landmark weights in the clustering, the ranking by expected error, and one normaliser over sinks, window,
// exact clusters and centroids.
//
// # Files
//
//   - spec.go, attention.go, check.go, trials.go: the methods, their settings, and trials of many settings on one head.
//   - fit.go, kmeans.go, assign.go: clusters of keys.
//   - call.go, rows.go: PerQuery.
//   - tilt.go, tiltflow.go, blocks.go, roworder.go, balance.go, tiles.go, select.go: Blocks.
//     flow.go: the order of jobs, here and in prefixes.
//   - prefix.go, prefixflow.go: Prefix.
//   - chunks.go, chunkcodec.go, sketch.go, replay.go: Sketch.
//   - state.go, codec.go: the fields and checks that all decoding states share. slots.go, compact.go, compacted.go: the
//     other states.
package centroid
