package forms

// LogRVComplexExp returns the log relative variance of one complex exponential
// projection (HRF Lemma 2.4) with z = Ax + A^{−T}y in Cᵈ,
//
//	rv = ½ ( Re e^{Σ z_k²} + e^{Σ |z_k|²} ) − 1,
//
// the first sum without conjugation. Derived in docs/theory.md §5.1; A = I gives the
// positive map and A = iI the trigonometric one. For complex A the squares of HRF
// eqs 91–96 are bilinear.
func LogRVComplexExp(zc []complex128) float64 {
	var re2, im2, cross float64
	for _, z := range zc {
		re2 += real(z) * real(z)
		im2 += imag(z) * imag(z)
		cross += real(z) * imag(z)
	}
	return logHalfSumMinus1(complex(re2-im2, 2*cross), re2+im2, 2*re2)
}
