// Package centroid computes softmax attention from clusters of keys and from the few keys that matter to a query
// exactly. On the heads of real models it has an error of a few percent at a fraction of the cost of exact attention,
// where random features of the same cost have one of more than half (docs/attention.md).
//
// # The estimator
//
// With x = Scale·q, so that x·y_j is the logit of key j, clusters c of n_c keys with a centroid of keys ȳ_c and values
// of sum s_c, and a set S of keys that are exact for the query,
//
//	      Σ_{j ∈ S} e^{x·y_j} v_j + Σ_c e^{x·ȳ_c} (s_c − s_c^S)
//	out = ───────────────────────────────────────────────────── ,
//	      Σ_{j ∈ S} e^{x·y_j}     + Σ_c e^{x·ȳ_c} (n_c − n_c^S)
//
// where s_c^S and n_c^S are the part of S in cluster c: every key counts once, under one normaliser. S is the union of
//
//   - sinks, the first keys (Xiao et al. 2023, arXiv:2309.17453);
//   - a window, the block of the query and its neighbours;
//   - the members of the Top clusters that promise the largest error, e^{x·ȳ_c} √n_c ρ_c ν_c with ρ_c the spread of the
//     keys in the metric below and ν_c that of the values. Ranked by mass the same cost has a quarter to a half more
//     error.
//
// Weights are positive, rows are stabilised by their running maximum, and the result is exact where there are as many
// clusters as keys, where all clusters are in Top, or where the window covers the sequence. It is biased by the spread
// inside of clusters and deterministic; [Attention.At] computes a few rows, so that the error can be measured against
// [attention.Exact] before use. That is what package attention/choose does.
//
// # The clusters
//
// Two things make clusters of keys good for attention ([Fit]). The metric R = (E xxᵀ)^½ measures keys by the logits
// they get, |R(y−c)|² = E(x·(y−c))². And keys are weighed by the attention they receive from a few landmark queries
// r_t,
//
//	w_j = mean_t softmax_j(r_t·y_j) + 0.1/L,
//
// in the k-means and in the centroid ȳ_c = Σ w_j y_j / Σ w_j. Training sees a sample of the keys in proportion to w, so
// its cost does not grow with the sequence; assigning all keys is one product with the centres. With Clusters ∝ √L and
// few Top clusters attention takes O(L^1.5): keys are sorted by cluster, so that the exact part is dense products of
// cluster and the queries that have chosen it.
//
// # Causal attention
//
// Causal attention assigns keys to centres that are fitted beforehand ([Fit] on other text), or on the first keys of
// the sequence: never on later ones. A cluster is then the plain mean of the keys so far, with the variance of their
// logits along a few residual directions in its weight (Spec.Spread), and of the members of opened clusters only the
// best by residual scores are exact (Spec.Keys). [Cache] keeps all keys grouped by cluster for decoding token by token,
// [Slots] merges them in constant memory, [Compact] shrinks a finished context. See the comments in causal.go.
//
// # Dense tiles
//
// Queries that choose by themselves have the fewest operations; blocks of queries that choose together (Spec.Together)
// have the fewest seconds, because all of their products are dense tiles. Bidirectional queries are sorted so that
// those of a block attend to the same keys; causal keys are clustered in chunks (Spec.Chunk), without calibrated
// centres. [Chunks] decodes token by token; its states can be saved. See the comments in blocks.go and chunks.go.
//
// # Related work
//
// Clustered queries (Vyas et al. 2020, arXiv:2007.04825), sparse plus low rank (Scatterbrain, Chen et al. 2021,
// arXiv:2110.15343), and on clustered keys Squeezed Attention (Hooper et al. 2024, arXiv:2411.09688), ClusterKV (Liu et
// al. 2024, arXiv:2412.03213), MuSe (Mitchell and Kersting 2025) and Multipole Attention (Hooper et al. 2025), which is
// the nearest: exact for top clusters, centroids for the rest. New here are the query metric and the weights of
// landmarks in the clustering, the ranking by expected error, and one normaliser over sinks, window, exact clusters and
// centroids.
package centroid
