// Package forms holds every printed formula of the papers, and those derived here, as plain functions of plain
// numbers: the calculator ("randfeat eval") evaluates them and families describe their error with them. It never
// samples. Its names follow the papers and may change in any release; users of the library ask package theory.
//
// # Notation
//
//	xx, yy, xy   |x|², |y|², x·y
//	v2, z2       v² = |x+y|², z² = |x−y|²
//	d, m         dimension, number of projections ω (p in ORF)
//	K, SM        Gaussian kernel e^{−z²/2}, softmax kernel e^{x·y}
//	rv           relative variance: variance of one projection over kernel²
//	pf           PairFraction, the share of ordered pairs inside a block
//	rho_c        conformity of a coupling (SimRF eq 10)
//	kappa        relative covariance of two projections of one block
//
// The relative variance of an estimator is the same for K and SM. With m coupled
// projections the relative mean squared error is rv/m + pf·kappa.
//
// Papers: CRT (arXiv:2205.15317), HRF (arXiv:2110.04367), ORF (Orthogonal Random
// Features: Explicit Forms and Sharp Inequalities), SimRF (arXiv:2301.13856),
// DARK (Data-Aware Random Feature Kernel for Transformers). Corrections to printed
// formulas are named where they apply.
//
// # Numbers
//
// Functions whose name starts with Log return natural logarithms and stay finite
// where the value would overflow; −Inf is an exact zero and +Inf an infinite
// variance. As in package math, a function without an error result gives NaN for
// arguments outside its domain and only for those. The others return ErrDomain,
// naming the argument, or ErrNoClosedForm.
package forms
