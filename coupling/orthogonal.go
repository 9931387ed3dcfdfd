package coupling

import (
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
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
		omega.ScaleRows(block, l.norms(block.Rows, dim, src))
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
	q := omega.Orthonormalise(g)
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
