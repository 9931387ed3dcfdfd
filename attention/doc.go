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
// [Constant] is a baseline that ignores queries and keys.
//
// # Other devices
//
// An implementation for another device is an [Attention] of its own sequence type, which embeds a [Shape] and holds a
// handle of device memory instead of the slice of [Seq]. It validates arguments with [Visibility.CheckShapes]. Callers
// that hold an Attention do not see the difference.
//
// # Files
//
//	seq.go, shape.go    Seq and Shape: views of memory, validation of arguments
//	visibility.go       which keys a query sees; Span and band turn the rule into ranges
//	exact.go            Exact.Forward: blocks of keys with a running maximum
//	exact_backward.go   Exact.Backward: probabilities recomputed block by block
//	baseline.go         baselines without queries and keys
//	report.go           Report and the errors that saved states share
package attention
