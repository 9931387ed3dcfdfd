// Package metric learns the matrix M of a kernel κ(Mx/s, My/s) from a fitted function. The average gradient outer
// product (AGOP) of the function shows in which directions it changes. A kernel that is short in these directions and
// long in the others needs fewer rows: recursive feature machines (Radhakrishnan, Beaglehole, Pandit & Belkin 2024,
// "Mechanism for feature learning in neural networks and backpropagation-free machine learning models", Science 383,
// arXiv:2212.13881).
//
// # Usage
//
// Fit kernel ridge regression with coefficients alpha, then repeat for a few rounds:
//
//	g, err := metric.AGOP(k, x, alpha, x, true)    // average gradient outer product at the rows x
//	k.M, err = metric.Matrix(metric.FullRoot, g)   // the metric of the next fit
//	                                               // fit again with k
//
// The resulting matrix works for exact kernels, landmarks and random features of all families (the field M of
// [kernel.Kernel]). family.DARK takes it as its M, instead of the whitening that its fit computes (DARK §4.1 learns M
// by gradients).
//
// # Limits
//
// A few rounds are enough. More rounds overfit, and so does choosing a metric on rows that it was learned from. Package
// machine/tabular chooses by cross-fitting.
package metric
