// Package attention computes attention over long sequences: exact softmax attention in O(L) memory, and linear
// attention with the random features of package randfeat.
//
// For queries q_i, keys k_j and values v_j,
//
//	out_i = Σ_j w_ij v_j / Σ_j w_ij,   w_ij = exp(q_i·k_j/√d)  (exact)
//	                                   w_ij = φ1(q_i)·φ2(k_j)  (linear)
//
// [Exact] is the reference, [Linear] costs O(L·m·d) and holds one block of features at a time. [State] is what linear
// attention remembers of the keys seen so far: O(m·d) numbers that can be appended to, read, merged, copied and saved.
// [Decoder] keeps the states of all heads for decoding token by token.
//
// On the heads of trained models features are far from exact attention: package attention/centroid is close at less
// cost, and attention/auto chooses for every head by measured errors (docs/attention.md).
//
// Linear attention is stabilised without bias: scales of features travel from the keys to the queries, where one
// maximum per row is divided out (docs/theory.md §6). Nothing is added to features or denominators.
//
// # Other maps, other devices
//
// Whatever computes the features of a map stands behind [randfeat.FeatureMap]: [Linear], [State] and [Decoder] take any
// implementation, and Backward any [randfeat.Differentiable] one. The algorithms here then still run on the host. An
// implementation that runs elsewhere is an [Attention] of its own kind of [Sequence]: a type with a [Shape] and a
// handle of its memory instead of the slice of [Seq]. It validates arguments with [Visibility.CheckShapes], and
// callers that hold an Attention do not see the difference.
package attention
