// Package krr solves kernel ridge regression, (K + λI)A + 1bᵀ = Y, by conjugate gradients, for more rows than a
// factorisation can handle.
//
// Use it in this order:
//
//	k, err := krr.NewKernels(kernel, x, hold)   // tiles of K; at most hold bytes stay in memory
//	sketch, err := krr.NewSketch(k, m, seed)    // landmarks, once per kernel, for every λ
//	fit, result, err := krr.Solve(k, sketch, y, lambda, nil, options)
//	k.Predict(dst, z, fit)
//
// [Margins] replaces [Solve] for squared hinge losses. Pass an earlier fit as start to solve for another λ faster.
//
// Numerics: products with K use float32 tiles, which are kept in memory as far as they fit and recomputed otherwise
// (tiles.go). The preconditioner approximates K by landmarks and has its exact diagonal (precondition.go). Residuals
// are computed in float64, and the system is solved again for the residual until it is small (solve.go).
//
// Determinism: results do not depend on GOMAXPROCS. Every tile adds to its own rows, in an order fixed by the number of
// tiles.
package krr
