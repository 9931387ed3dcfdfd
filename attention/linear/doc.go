// Package linear computes linear attention with the random features of package randfeat: O(L·m·d) time for m features,
// and a state of fixed size for decoding.
//
// Linear attention replaces the softmax weight of a query and a key by a product of features,
//
//	out_i = Σ_j w_ij v_j / Σ_j w_ij,   w_ij = φ1(q_i)·φ2(k_j).
//
// # Usage
//
// First describe the map in a [randfeat.Spec], with kernel.Attention(d) as its kernel. A family with parameters,
// such as family.Adaptive, is fitted to the queries and keys of every head:
//
//	stats, err := linear.NewHeadStats[float32](spec, kvHeads)
//	err = stats.Add(q, k, nil, nil) // as many batches as you like; Merge joins statistics of other machines
//	specs, err := stats.Fit()       // without parameters to fit: linear.HeadSpecs(spec, kvHeads)
//
// Then draw the maps and run them:
//
//	maps, err := linear.NewMaps[float32](specs)
//	a := linear.Attention[float32]{Maps: maps, Visibility: attention.Visibility{Causal: true}}
//	report, err := a.Forward(out, q, k, v)
//
// Set Window and Sinks to give the nearest and the first keys their exact weights. [Attention.Backward] computes
// gradients.
//
// To decode token by token, make a [State] with [Attention.NewState], and pass the prompt and then every new token to
// Step. A State can be forked, merged and saved.
//
// On the heads of trained models, random features have large errors. Package attention/centroid has smaller errors at
// less cost, and package attention/choose compares the methods by measured errors (docs/attention.md).
//
// # Numerical stability
//
// The features of keys are stored relative to running maxima (references). The references are passed on to the queries,
// where one maximum per row is divided out (docs/theory.md §6). Nothing is added to features or denominators, so this
// introduces no bias.
//
// # Limits
//
// Only maps without signed features guarantee positive denominators; [attention.Report] counts the others. Gradients by
// the parameters of a family are not available together with Window or Sinks, and such states cannot be merged.
//
// # Other maps
//
// [Attention] and [State] accept any [randfeat.FeatureMap], and Backward any [randfeat.Differentiable]. The
// algorithms of this package then still run on the host.
//
// # Files
//
//	linear.go            Attention: settings and their validation
//	stream.go            stream: one packed sequence of one head; how positions are cut into segments and blocks
//	forward.go           Forward: which streams run alone, which are shared
//	relay.go             the pipeline that runs the segments of streams on all workers
//	memory.go            sums over keys at references; totals in float64
//	features.go          scaled features of keys and queries, raising of references
//	causal.go, read.go   queries: a chunk's triangle, reading from the sums, division
//	window.go            exact weights of windows and sinks
//	worker.go            scratch memory of one goroutine
//	state.go             State: decoding token by token; statecodec.go saves it
//	fit.go               HeadStats: fitting families per head
//	backward*.go         Backward: the same sweeps for gradients
package linear
