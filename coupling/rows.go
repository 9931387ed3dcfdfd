package coupling

import (
	"math"

	"github.com/randfeat/randfeat/internal/omega"
)

// rowExcess says how far the directions of the rows of a coupling are from uniform. For the unit direction r of a row
// in dimension Dim
//
//	Fourth = E Σ_l r_l⁴ − 3/(n+2),   Sixth = E Σ_l r_l⁶ − 15/((n+2)(n+4)),   n = Dim,
//
// averaged over the rows: zero for Haar directions. With random signs of the coordinates and the symmetries of the HD
// and Givens products, these two numbers determine all moments of r up to order six, and hence the leading bias of
// every estimator (docs/theory.md §4.6).
type rowExcess struct {
	Dim           int // d, or the padded n of HD products
	Fourth, Sixth float64
}

// Excess describes m rows of a coupling in dimension dim. ok is false if it is unknown: one factor of
// FastSimplex, whose rows do not even have covariance I, or a coupling of another package.
func Excess(c Coupling, dim, m int) (e rowExcess, ok bool) {
	switch c := c.(type) {
	case Hadamard:
		if c.exact(dim) {
			return rowExcess{Dim: dim}, true
		}
		n := omega.PaddedDim(dim)
		return hdExcess(n, factors(c.K), 1/float64(n), 1/(float64(n)*float64(n))), true
	case FastSimplex:
		if c.exact(dim) {
			return rowExcess{Dim: dim}, true
		}
		n := omega.PaddedDim(dim)
		fourth, sixth := simplexStart(n, m)
		return hdExcess(n, factors(c.K), fourth, sixth), factors(c.K) > 1
	case CoupledHadamard:
		return Excess(Hadamard(c), dim, m)
	case Givens:
		return givensExcess(dim, c.rotations(dim)), true
	}
	info := infoOf(c)
	return rowExcess{Dim: dim}, info.Exact || info.Replaces
}

// uniformMoments are E Σ r_l⁴ and E Σ r_l⁶ of a uniform direction.
func uniformMoments(n float64) (fourth, sixth float64) {
	return 3 / (n + 2), 15 / ((n + 2) * (n + 4))
}

// hdExcess follows E Σ r⁴ and E Σ r⁶ through the factors, from their values after the first one. Given the vector v,
// |v| = 1, each coordinate of H D v is n^{−1/2} Σ ±v_a, so that
//
//	E Σ r⁴ = (3 − 2 Σ v⁴)/n,   E Σ r⁶ = (15 − 30 Σ v⁴ + 16 Σ v⁶)/n².
//
// Uniform moments are the fixed point; the recursion is that of the differences.
func hdExcess(n, k int, fourth, sixth float64) rowExcess {
	dim := float64(n)
	a, b := uniformMoments(dim)
	e := rowExcess{Dim: n, Fourth: fourth - a, Sixth: sixth - b}
	for range k - 1 {
		e.Fourth, e.Sixth = -2*e.Fourth/dim, (16*e.Sixth-30*e.Fourth)/(dim*dim)
	}
	return e
}

// simplexStart is the mean over m rows of Σ w_l⁴ and Σ w_l⁶, w = H s_i, s_i row i of S: the moments after the first
// factor. With a, b, e of omega.SimplexCoefficients the coordinates of w are, up to signs,
//
//	i < n−1:  (a ± be)/√n, half of them each, but (a + be)/√n − be√n at l = 0;
//	i = n−1:  e/√n, but e(√n − 1/√n) at l = 0.
//
// The last row is nearly a coordinate vector: it is as if one factor were missing.
func simplexStart(n, m int) (fourth, sixth float64) {
	dim := float64(n)
	a, b, e := omega.SimplexCoefficients(n)
	root, be := math.Sqrt(dim), b*e
	plus, minus, zero := (a+be)/root, (a-be)/root, (a+be)/root-be*root
	last, lastZero := e/root, e*(root-1/root)
	share := float64(m/n) / float64(max(m, 1)) // share of the last rows of blocks among the m rows
	power := func(p float64) float64 {
		row := (dim/2-1)*math.Pow(plus, p) + dim/2*math.Pow(minus, p) + math.Pow(zero, p)
		lastRow := (dim-1)*math.Pow(last, p) + math.Pow(lastZero, p)
		return (1-share)*row + share*lastRow
	}
	return power(4), power(6)
}

// givensExcess follows Σ u⁴ and Σ u⁶ of a column u through T rotations of Kac's walk, from a coordinate vector. A
// rotation of the coordinates i, j replaces u_i⁴ + u_j⁴ by ¾(u_i²+u_j²)² and u_i⁶ + u_j⁶ by ⅝(u_i²+u_j²)³ on average,
// so that with p = 2/(d(d−1)) the excesses F and S of the two sums obey
//
//	F → f F,  f = 1 − 2/d + ¾(2/d − p),    S → s S + g F,  s = 1 − 2/d + ⅝(2/d − 3p),  g = 15p/8.
func givensExcess(d, rotations int) rowExcess {
	if d == 1 || d == 2 && rotations > 0 {
		return rowExcess{Dim: d}
	}
	n, t := float64(d), float64(rotations)
	a, b := uniformMoments(n)
	p := 2 / (n * (n - 1))
	f, s, g := 1-2/n+0.75*(2/n-p), 1-2/n+0.625*(2/n-3*p), 1.875*p
	ft, st := math.Pow(f, t), math.Pow(s, t)
	return rowExcess{Dim: d, Fourth: ft * (1 - a), Sixth: st*(1-b) + g*(1-a)*(ft-st)/(f-s)}
}
