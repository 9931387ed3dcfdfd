// Package attention computes exact softmax attention in O(L) memory, and defines what every kind of attention shares:
// sequences, their shapes, visibility rules and reports.
//
// For queries q_i, keys k_j and values v_j, softmax attention is
//
//	out_i = Σ_j w_ij v_j / Σ_j w_ij,   w_ij = exp(q_i·k_j/√d).
//
// # Usage
//
// Describe queries, keys and values as sequences. [Seq] is a view of your memory in any order of batch, head and
// position; [NewSeq] and [NewSeqBLHD] allocate, and [One] wraps a matrix:
//
//	q := attention.NewSeq[float32](batch, heads, length, dim)
//
// Say which keys a query sees with a [Visibility]: causal order, padding, packed sequences. The zero value shows all.
//
// Then call Forward. [Exact] is the reference that every other method approximates, and the fastest method up to about
// 2,000 keys:
//
//	a := attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}}
//	report, err := a.Forward(out, q, k, v)
//
// For training, [Exact.Backward] computes the gradients; set [Exact.Keep] to reuse the normalisers of Forward.
//
// For longer sequences exchange the method and keep the call, because all methods implement [Attention]:
//
//   - Package attention/choose measures which method suits each head, with what error.
//   - Package attention/centroid approximates the heads of trained models within a few percent.
//   - Package attention/linear uses random features: constant memory, larger errors on trained heads.
//
// [RoPE] rotates queries and keys by their positions. [Constant] and [Uniform] are baselines that ignore queries and
// keys.
//
// # Other devices
//
// An implementation that runs elsewhere is an [Attention] of its own kind of [Sequence]: a type with a [Shape] and a
// handle of its memory instead of the slice of [Seq]. It validates arguments with [Visibility.CheckShapes]. Callers
// that hold an Attention do not see the difference.
package attention
