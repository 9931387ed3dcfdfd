// Package centroid approximates softmax attention. Keys are grouped into clusters; a query sees most clusters only by
// their centroid, and a few keys exactly. On the heads of trained models the error is a few percent at a fraction of
// the cost of exact attention. Random features of the same cost have an error above one half (docs/attention.md).
//
// # Usage
//
// Bidirectional attention needs no preparation. Every call clusters its own keys:
//
//	a := centroid.Attention[float32]{Specs: []centroid.Spec{{Clusters: 64, Top: 4, Window: 16, Block: 16}}}
//	report, err := a.Forward(out, q, k, v)
//
// Causal attention must not learn its centres from later keys. Fit them once, on other text of the same kind, and reuse
// them. [Centres] can be saved as JSON or in binary form:
//
//	causal := attention.Visibility{Causal: true}
//	specs := []centroid.Spec{{Clusters: 64, Top: 4, Keys: 64, Spread: true, Sinks: 4, Window: 64}}
//	centres, err := centroid.Fit(specs, 0, causal, q, k, v)
//	a := centroid.Attention[float32]{Visibility: causal, Specs: specs, Centres: centres}
//	report, err := a.Forward(out, q, k, v)
//
// To decode token by token, make a [State] and call Step with the prompt and then with every new token:
//
//	cache, err := centroid.NewCache(a, batch, queryHeads, keyHeads, dim, valueDim)
//	err = cache.Step(out, q, k, v)
//
// There are three kinds of State. [Cache] keeps all keys and reproduces Forward bit for bit. [Slots] merges old keys
// and needs constant memory. [Chunks] needs no fitted centres (Spec.Chunk).
//
// The error depends on the head. [Attention.At] computes a few rows, which can be compared with [attention.Exact]
// before the method is used. Package attention/choose does this, and chooses the Spec of every head.
//
// # The estimator
//
// Let x = Scale·q, so that x·y_j is the logit of key j. Cluster c has n_c keys, the centroid ȳ_c and the sum of values
// s_c. S is the set of keys that are exact for the query. The output is
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
// [Fit] differs from plain k-means in two ways. First, the metric R = (E xxᵀ)^½ measures the distance of keys by the
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
// # Causal attention
//
// Causal attention assigns keys to centres that are fixed beforehand. Without Centres, the first keys of the sequence
// stay exact until there are enough of them to fit centres. A cluster is the plain mean of its keys so far. With
// Spec.Spread its weight includes the variance of their logits along a few residual directions. With Spec.Keys only the
// best members of an opened cluster, by residual score, are exact. [Cache] keeps all keys grouped by cluster for
// decoding token by token, [Slots] merges them in constant memory, and [Compact] shrinks a finished context. The
// comment at the top of causal.go states the rules.
//
// # Dense tiles
//
// Queries that choose their clusters individually need the fewest operations. Blocks of queries that choose together
// (Spec.Together) often need less time, because all their products are dense tiles. Bidirectional queries are sorted
// first, so that the queries of a block attend to the same keys. A bidirectional block weighs all keys by its mean
// query: the heaviest (Spec.Keys) are exact, and the others are in centroids made for the block, which needs the least
// time on long sequences. Causal attention works in chunks of positions (Spec.Chunk). With Spec.Keys the
// queries of a chunk see its keys exactly, and all earlier keys as bidirectional blocks do, which needs the least time
// for whole sequences. With Spec.Top every chunk of keys has clusters of its own. With
// Spec.Share the clusters of chunks are for decoding: single keys are exact, found by sketches. See blocks.go,
// tilt.go, prefix.go and chunks.go.
//
// # Limits
//
// [Attention.Backward] holds the clusters and the choice of exact clusters constant. It does not support Spec.Together,
// and for causal attention it needs Centres. A mask of padding works in Forward; a State takes no masks.
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
//   - attention.go, spec.go, trials.go: the method, its settings, and trials of many settings on one head.
//   - fit.go, kmeans.go, centres.go: clusters of keys, and fitted centres with their file forms.
//   - call.go, rows.go, backward.go: bidirectional attention whose queries choose by themselves, and its gradients.
//   - blocks.go, roworder.go, tilt.go, tiltflow.go, tiles.go: bidirectional attention whose queries choose together.
//     flow.go: the order of jobs, here and in prefixes.
//   - causal.go, far.go, geometry.go, block.go, select.go, backward_causal.go: causal attention with fitted centres.
//   - chunks.go, chunkstate.go, prefix.go, prefixflow.go: causal attention in chunks. sketch.go, replay.go: with
//     Spec.Share.
//   - state.go: the fields and checks that all decoding states share. cache.go, slots.go, compact.go, compacted.go: the
//     states. codec.go, cachecodec.go, chunkcodec.go: their binary forms.
package centroid
