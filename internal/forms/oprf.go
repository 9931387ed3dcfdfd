package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// LogRVOPRF returns the log relative variance of one OPRF projection (GERF with
// s = +1 and real A = (1 − 1/ρ)/8),
//
//	rv = exp( d log cosh(½ log ρ) + ρ v² ) − 1,  ρ > 0.
//
// CRT Thms 3.2 and 3.3. ρ = 1 is the positive map; ρ = RhoStar(d, v²) the optimum.
func LogRVOPRF(d int, rho, v2 float64) float64 {
	if d < 1 || !(rho > 0) || !(v2 >= 0) {
		return math.NaN()
	}
	return special.LogExpm1(float64(d)*special.LogCosh(math.Log(rho)/2) + rho*v2)
}

// RhoStar returns the ρ that minimises LogRVOPRF,
//
//	ρ* = 2d / ( √((2v²+d)² + 8dv²) + 2v² + d ),
//
// in (0, 1]. CRT Thm 3.3, eq 7 (the root covers only (2V+d)² + 8dV), in the form
// free of cancellation. v2 may be the mean of |x+y|² over the data.
func RhoStar(d int, v2 float64) float64 {
	if d < 1 || !(v2 >= 0) {
		return math.NaN()
	}
	n := float64(d)
	b := 2*v2 + n
	return 2 * n / (oprfRoot(n, v2) + b)
}

// AStar returns A = (1 − 1/ρ*)/8 ≤ 0 of the optimal OPRF, accurate also for small
// v², where it is −v²/(2d). CRT Thm 3.3.
func AStar(d int, v2 float64) float64 {
	if d < 1 || !(v2 >= 0) {
		return math.NaN()
	}
	// 1/ρ* − 1 = (root + 2v² − d)/(2d) and root − d = (12dv² + 4v⁴)/(root + d).
	n := float64(d)
	root := oprfRoot(n, v2)
	return -(v2*((12*n+4*v2)/(root+n)) + 2*v2) / (16 * n)
}

// oprfRoot is √((2V+d)² + 8dV); Hypot keeps V up to 1e307 from overflowing.
func oprfRoot(d, v2 float64) float64 {
	return math.Hypot(2*v2+d, math.Sqrt(8*d)*math.Sqrt(v2))
}
