// Package krr solves kernel ridge regression of more rows than a factorisation can have: (K + λI)A + 1bᵀ = Y by
// conjugate gradients. Products with K are those of float32 tiles, held in memory while they fit and computed again
// where they do not (tiles.go). The preconditioner knows K by landmarks and its diagonal exactly (precondition.go).
// Residuals are checked, and corrected, in float64 (solve.go). margins.go does the same for squared hinge losses.
//
// Nothing depends on GOMAXPROCS: every tile adds to places of its own, in an order that the number of tiles sets.
package krr
