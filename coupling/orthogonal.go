package coupling

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// Orthogonal draws independent blocks of d mutually orthogonal rows (Yu et al. 2016, arXiv:1610.09072; ORF
// section 2; docs/theory.md §4.3):
//
//	block = diag(c_1, …, c_d) R,  R Haar on O(d),  c_i ~ chi_d independent.
//
// Each row is exactly N(0, I_d), so every estimator stays unbiased. Under Sphere(r) all c_i = r.
type Orthogonal struct{}

// Name is "orthogonal".
func (Orthogonal) Name() string { return "orthogonal" }

// Sample draws m rows in blocks of dim.
func (c Orthogonal) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		haarRows(block, src)
		scaleRows(block, l.norms(block.Rows, dim, src))
	})}, nil
}

// sampleBlocks fills an m×dim matrix block by block; a block has dim rows, the last one possibly fewer.
func sampleBlocks(m, dim int, draw func(block dense.Matrix[float64])) dense.Matrix[float64] {
	w := dense.New[float64](m, dim)
	for lo := 0; lo < m; lo += dim {
		draw(w.RowRange(lo, min(lo+dim, m)))
	}
	return w
}

// haarRows fills dst (r×d, r ≤ d) with the first r rows of a Haar matrix. Only r Gaussian vectors are drawn:
// Gram–Schmidt of the first r does not depend on the others, so a partial block costs O(d r²), not O(d³).
func haarRows(dst dense.Matrix[float64], src rand.Source) {
	g := dense.New[float64](dst.Cols, dst.Rows)
	col := make([]float64, dst.Cols)
	for j := range dst.Rows {
		rng.Normals(col, src)
		for i, v := range col {
			g.Set(i, j, v)
		}
	}
	q := qrPositive(g)
	for j := range dst.Rows {
		row := dst.Row(j)
		for i := range row {
			row[i] = q.At(i, j)
		}
	}
}

// haarMatrix is a Haar matrix of O(d).
func haarMatrix(d int, src rand.Source) dense.Matrix[float64] {
	r := dense.New[float64](d, d)
	haarRows(r, src)
	return r
}

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
	return qrPositive(g.Clone()), nil
}

// qrPositive overwrites g by its factor Q with the sign convention of HaarFromGaussian.
func qrPositive(g dense.Matrix[float64]) dense.Matrix[float64] {
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

// scaleRows multiplies row i by c[i].
func scaleRows(w dense.Matrix[float64], c []float64) {
	for i := range w.Rows {
		scale(w.Row(i), c[i])
	}
}
