// Package sampling draws classes with probabilities near a softmax, in time logarithmic in the number of classes.
//
// A [Sampler] holds class embeddings c and draws, for a query q, class i with a probability close to
//
//	exp(q·c_i/τ) / Σ_j exp(q·c_j/τ)
//
// The target is the kernel of a feature map: kernel.Softmax with Scale √τ for a softmax with temperature τ. The
// sampler sums the key features of blocks of classes in a balanced binary tree (Rawat et al. 2019, arXiv:1907.10747;
// Choromanski et al. 2022, arXiv:2110.04367, §4.2). At every node the query features times the two sums give the
// odds of the two branches, so a draw costs O(F log n). Features of single classes are never stored.
//
// The log probability that comes with a draw is exact: it is the probability of the procedure itself, rounding and
// clipping included, not an estimate of the softmax. So importance weights ([Draws.Weights]), the sampled-softmax
// loss ([Loss]) and rejection ([Sampler.Exact]) correct for the difference.
//
// # Usage
//
// Make a sampler of a map and the class embeddings, draw for a batch of queries, and update the classes that moved:
//
//	s, err := sampling.New(m, classes, sampling.Options{})
//	err = s.Draw(&draws, queries, sampling.Request{K: 40, Seed: 7})
//	err = sampling.Loss[float32]{Tau: tau}.Forward(loss, &grad, queries, classes, targets, &draws)
//	err = s.Set(moved, rows)
//
// Draws may run at the same time as each other, not at the same time as updates.
//
// # Signed features
//
// Features of signed families (trig, hybrids) give sums that may be negative. The sampler takes a negative estimate
// for zero, at nodes and, with [ByFeatures], at classes. If both branches of a node are zero, their numbers of
// classes decide. [Counts] says how often that happened.
//
// # Without replacement
//
// Distinct draws follow successive sampling: each draw takes one of the classes that are left, in proportion to
// their probabilities. The implementation perturbs log probabilities with Gumbel noise and takes the largest, top
// down (Kool, van Hoof and Welling 2019, arXiv:1903.06059), so nothing is rejected and nothing cancels.
//
// # Determinism
//
// Query i of a call has its own random stream of Request.Seed, so the same seed gives the same draws at any number
// of goroutines. After updates the tree has the same bits as one built anew with the same column scales.
//
// # Files
//
//	sampler.go, options.go   Sampler, its settings and requests
//	tree.go, columns.go      the tree of feature sums, and the scales of features
//	query.go                 one query: its features, odds of branches, laws inside blocks
//	draw.go, distinct.go     draws with and without replacement
//	exact.go                 draws from the softmax itself, by rejection
//	prob.go                  probabilities of given classes, the whole distribution
//	update.go                Add, Set, Remove
//	fixed.go, loss.go, weights.go, distance.go   baselines and uses of draws
package sampling
