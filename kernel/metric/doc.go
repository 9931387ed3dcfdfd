// Package metric learns the matrix M of a kernel κ(Mx/s, My/s) from a fitted function: the average of its gradients'
// outer products says along which directions the function changes, and a kernel that is short there and long elsewhere
// needs fewer rows (Radhakrishnan, Beaglehole, Pandit & Belkin 2024, "Mechanism for feature learning in neural networks
// and backpropagation-free machine learning models", Science 383, arXiv:2212.13881, recursive feature machines).
//
// [AGOP] is that average for kernel ridge regression, in closed form. [Matrix] makes a metric of it. Fit, AGOP, Matrix,
// and again with the new kernel: a few rounds are enough, and more rounds, or a choice by rows that the metric has
// seen, overfit. Package machine/tabular makes that choice by cross-fitting.
//
// A metric is a matrix like any other: [kernel.Kernel] takes it as M, for exact kernels, landmarks and random features
// of all families, and family.DARK takes it as its M, in place of the whitening that its fit computes (DARK §4.1 learns
// M by gradients).
package metric
