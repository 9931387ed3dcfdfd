package plan

import "github.com/randfeat/randfeat/dense"

// ExponentSums are derivatives of a loss by the exponents e_f(z) = w_f·z + q(z) of features. Let dE_if be the
// derivative by e_f(z_i), minus that of its mirror feature if there is one, and s_i the sum of the derivatives by all
// exponents of row i. Then
//
//	W = Σ_i dE_i ⊗ z_i,  Q = Σ_i s_i z_i z_iᵀ,  Lin = Σ_i s_i z_i.
type ExponentSums struct {
	W, Q dense.Matrix[float64]
	Lin  []float64
}
