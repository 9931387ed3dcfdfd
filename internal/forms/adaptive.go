package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogRVAdaptive returns the log relative variance of one adaptive positive
// projection, which applies OPRF with its own ρ_i in every direction u_i,
//
//	rv = exp( Σ_i [ log cosh(½ log ρ_i) + ρ_i v_i² ] ) − 1,  v = Uᵀ(x' + y'),
//
// after re-embedding and key shift. Derived in docs/theory.md §2.18; equal ρ_i give CRT
// Thm 3.3. rho and v must have the same length.
func LogRVAdaptive(rho, v []float64) float64 {
	if len(rho) != len(v) {
		panic("forms: len(rho) != len(v)")
	}
	sum := 0.0
	for i, r := range rho {
		if !(r > 0) {
			return math.NaN()
		}
		sum += special.LogCosh(math.Log(r)/2) + r*v[i]*v[i]
	}
	return special.LogExpm1(sum)
}
