package coupling

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
)

// Simplex draws blocks of d rows that point to the corners of a randomly rotated simplex (SimRF eqs 8-9,
// docs/theory.md §4.7):
//
//	block = diag(c) S R,  c_i ~ chi_d independent,  R Haar,  s_i·s_j = −1/(d−1).
//
// Each row is exactly N(0, I_d). Among couplings whose directions do not depend on the norms it has the
// least variance for positive features (SimRF section 3), but it is worse than [Orthogonal] for hyperbolic and (small
// |x−y|) trigonometric ones. d = 1: a block is one N(0,1) row, so Simplex is then the same as IID. Under Sphere(r) all
// c_i = r.
type Simplex struct{}

// Name is "simplex".
func (Simplex) Name() string { return "simplex" }

// Sample draws m rows in blocks of dim.
func (c Simplex) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		r := haarMatrix(dim, src)
		simplexRows(r)
		for i := range block.Rows {
			copy(block.Row(i), r.Row(i))
		}
		scaleRows(block, l.norms(block.Rows, dim, src))
	})}, nil
}

// simplexCoefficients are a = √(d/(d−1)), b = (√d+1)/(d−1) and e = (d−1)^{−1/2}: S x has the coordinates
//
//	y_d = e Σ_{i<d} x_i,   y_i = a x_i − b y_d.
func simplexCoefficients(d int) (a, b, e float64) {
	n := float64(d)
	return math.Sqrt(n / (n - 1)), (math.Sqrt(n) + 1) / (n - 1), 1 / math.Sqrt(n-1)
}

// SimplexMultiply is S x in O(d) (SimRF Alg 1). The rows of S are unit vectors with pairwise products −1/(d−1) and
// zero sum. The last coordinate of x does not matter. For d = 1, where no simplex exists, S = 1.
func SimplexMultiply(x []float64) []float64 {
	y := append([]float64(nil), x...)
	SimplexInPlace(y)
	return y
}

// SimplexInPlace overwrites x by S x.
func SimplexInPlace[T dense.Float](x []T) {
	last := len(x) - 1
	if last < 1 {
		return
	}
	a, b, e := simplexCoefficients(len(x))
	var sum T
	for _, v := range x[:last] {
		sum += v
	}
	yd := T(e) * sum
	ta, shift := T(a), T(b)*yd
	for i, v := range x[:last] {
		x[i] = ta*v - shift
	}
	x[last] = yd
}

// simplexRows overwrites the d×d matrix R by S R: SimplexInPlace on all columns at once.
func simplexRows(r dense.Matrix[float64]) {
	last := r.Rows - 1
	if last < 1 {
		return
	}
	a, b, e := simplexCoefficients(r.Rows)
	yd := r.Row(last)
	clear(yd)
	for i := range last {
		for j, v := range r.Row(i) {
			yd[j] += v
		}
	}
	scale(yd, e)
	for i := range last {
		row := r.Row(i)
		for j, v := range yd {
			row[j] = a*row[j] - b*v
		}
	}
}

// simplexMatrix is S itself (SimRF eq 9).
func simplexMatrix(d int) dense.Matrix[float64] {
	s := dense.Identity[float64](d)
	simplexRows(s)
	return s
}
