package omega

import (
	"math"

	"github.com/randfeat/randfeat/dense"
)

// SimplexCoefficients are a = √(d/(d−1)), b = (√d+1)/(d−1) and e = (d−1)^{−1/2}: S x has the coordinates
//
//	y_d = e Σ_{i<d} x_i,   y_i = a x_i − b y_d.
func SimplexCoefficients(d int) (a, b, e float64) {
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
	a, b, e := SimplexCoefficients(len(x))
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

// SimplexRows overwrites the d×d matrix R by S R: SimplexInPlace on all columns at once.
func SimplexRows(r dense.Matrix[float64]) {
	last := r.Rows - 1
	if last < 1 {
		return
	}
	a, b, e := SimplexCoefficients(r.Rows)
	yd := r.Row(last)
	clear(yd)
	for i := range last {
		for j, v := range r.Row(i) {
			yd[j] += v
		}
	}
	Scale(yd, e)
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
	SimplexRows(s)
	return s
}
