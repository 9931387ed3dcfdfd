package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogRVTrig returns the log relative variance of one trigonometric projection,
//
//	rv = cosh z² − 1 = ½ e^{z²} (1 − e^{−z²})² = 2 sinh²(z²/2).
//
// HRF Lemma 2.2; CRT §2.2; ORF Thm 1 with (1 − e^{−z²})² for the printed
// (1 − e^{−z²/2})².
func LogRVTrig(z2 float64) float64 { return logCoshMinus1(z2) }

// logCoshMinus1 is log(cosh t − 1) for t ≥ 0.
func logCoshMinus1(t float64) float64 {
	if math.IsInf(t, 1) {
		return t
	}
	return t - math.Ln2 + 2*special.Log1mExp(-t)
}

// LogVarRFF returns the log variance of p iid trigonometric features of the
// Gaussian kernel at distance z, log( (1 − e^{−z²})²/(2p) ). ORF Thm 1, corrected.
func LogVarRFF(p int, z float64) float64 {
	return 2*special.Log1mExp(-z*z) - math.Log(2*float64(p))
}
