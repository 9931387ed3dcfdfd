package forms

// LogRVHyperbolic returns the log relative variance of one hyperbolic ("++")
// projection, which yields two features:
//
//	rv = ½ e^{v²} (1 − e^{−v²})² = 2 sinh²(v²/2).
//
// HRF Lemma 2.2, whose m counts projections.
func LogRVHyperbolic(v2 float64) float64 { return logCoshMinus1(v2) }
