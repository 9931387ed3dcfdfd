package omega

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/randfeat/randfeat/dense"
)

// HaarFromGaussian is the factor Q of G = QR with diag(R) > 0, the result of Gram–Schmidt on the columns of G
// (docs/theory.md §4.2). If G has independent N(0,1) entries, Q is Haar distributed. G must have at least as many rows
// as columns and is not modified.
//
// The sign condition is essential: LAPACK leaves the signs of diag(R) to the algorithm, and Q alone is then not
// Haar (its rows are not even symmetric), which biases positive features.
func HaarFromGaussian(g dense.Matrix[float64]) (dense.Matrix[float64], error) {
	if err := g.Check(); err != nil {
		return dense.Matrix[float64]{}, fmt.Errorf("coupling: G: %w", err)
	}
	if g.IsEmpty() || g.Rows < g.Cols {
		return dense.Matrix[float64]{}, fmt.Errorf("coupling: G is %d×%d, want rows ≥ columns ≥ 1: %w", g.Rows, g.Cols,
			dense.ErrShape)
	}
	return Orthonormalise(g.Clone()), nil
}

// Orthonormalise overwrites g by its factor Q with the sign convention of HaarFromGaussian.
func Orthonormalise(g dense.Matrix[float64]) dense.Matrix[float64] {
	a := blas64.General{Rows: g.Rows, Cols: g.Cols, Stride: g.Stride, Data: g.Data}
	tau := make([]float64, g.Cols)
	size := make([]float64, 1)
	lapack64.Geqrf(a, tau, size, -1) // workspace query
	work := make([]float64, int(size[0]))
	lapack64.Geqrf(a, tau, work, len(work))
	negative := make([]bool, g.Cols)
	for j := range negative {
		negative[j] = g.At(j, j) < 0
	}
	lapack64.Orgqr(a, tau, size, -1)
	if int(size[0]) > len(work) {
		work = make([]float64, int(size[0]))
	}
	lapack64.Orgqr(a, tau, work, len(work))
	for i := range g.Rows {
		row := g.Row(i)
		for j, neg := range negative {
			if neg {
				row[j] = -row[j]
			}
		}
	}
	return g
}

// ScaleRows multiplies row i by c[i].
func ScaleRows(w dense.Matrix[float64], c []float64) {
	for i := range w.Rows {
		Scale(w.Row(i), c[i])
	}
}

// Scale multiplies x by f in place.
func Scale(x []float64, f float64) {
	for i := range x {
		x[i] *= f
	}
}
