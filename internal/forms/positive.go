package forms

import "github.com/randfeat/randfeat/internal/special"

// LogRVPositive returns the log relative variance of one positive projection,
//
//	rv = e^{v²} − 1.
//
// CRT §2.2. With v² = |M(x+y)|² it is the DARK map of DARK §4.1, relative to
// exp(2 xᵀMᵀMy).
func LogRVPositive(v2 float64) float64 { return special.LogExpm1(v2) }
