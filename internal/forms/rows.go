package forms

import "math"

// RowCumulants returns k4/24 and k6/720 of the cumulants k4, k6 of ω·v, for rows ω = c r whose directions r are not
// quite uniform, as in HD and Givens products; c ~ chi_n. To sixth order in v the mean of an estimate over the kernel
// is
//
//	exp( k4/24 + k6/720 ),  with v = x+y, for exponential and hyperbolic shapes,
//	exp( k4/24 − k6/720 ),  with v = x−y, for trigonometric ones.
//
// fourth and sixth are the excesses of E Σ r_l⁴ and E Σ r_l⁶ over those of a uniform direction in dimension n, and v2,
// v4, v6 the sums Σ v_l², Σ v_l⁴, Σ v_l⁶:
//
//	k4 = (n+2)/(n−1) fourth ((n+2) v4 − 3 v2²),   k6 = n(n+2)(n+4) δE(r·v)⁶ − 15 v2 k4.
//
// δE(r·v)⁶ follows from the two excesses because the signs of the coordinates of r are free and any three coordinates
// are alike (the affine maps of the index group, and permutations, leave the two laws unchanged). Weights by |ω|², as
// in GERF, change nothing: the norms absorb them. Derived in docs/theory.md §4.6.
func RowCumulants(n int, fourth, sixth, v2, v4, v6 float64) (c4, c6 float64) {
	switch {
	case n < 1 || !(v2 >= 0):
		return math.NaN(), math.NaN()
	case n == 1 || fourth == 0 && sixth == 0:
		return 0, 0
	}
	d := float64(n)
	// Excesses of E r_i⁴, E r_i⁶, E r_i²r_j², E r_i⁴r_j² and E r_i²r_j²r_k², from Σ r² = 1.
	e4, e6 := fourth/d, sixth/d
	e22, e42, e222 := -e4/(d-1), (e4-e6)/(d-1), 0.0
	if n > 2 {
		e222 = (e22 - 2*e42) / (d - 2)
	}
	k4 := d * (d + 2) * (e4*v4 + 3*e22*(v2*v2-v4))
	m6 := e6*v6 + 15*e42*(v4*v2-v6) + 15*e222*(v2*v2*v2-3*v2*v4+2*v6)
	return k4 / 24, (d*(d+2)*(d+4)*m6 - 15*v2*k4) / 720
}

// RowError bounds the part that the expansion of RowCumulants leaves out, relative to the kernel, by measurement
// (TestRowBias of package theory): about the last term c6 and, for HD products, a term of eighth order in |v| with the
// later orders as an exponential. That term is largest if v lies in a few coordinates whose indices are closed under
// exclusive or. rotations means products of Givens rotations.
func RowError(t Term, n int, c6 float64, rotations bool) float64 {
	if rotations {
		return math.Abs(c6)
	}
	d, size := float64(n), 0.32
	if t.Shape == Trigonometric {
		size = 1
	}
	return size*t.V.Two*t.V.Two*t.V.Four/(d*d*d)*math.Exp(4*t.V.Two/d) + math.Abs(c6)
}
