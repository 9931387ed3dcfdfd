package coupling

import (
	"math/rand/v2"
)

// FastSimplex is [Simplex] with the Haar matrix replaced by HD products, for O(n log n) products (SimRF section 3.3 and
// B.2.2; docs/theory.md §4.7 with 4.6):
//
//	block = diag(c) S (H D_1)(H D_2)…(H D_k), first d columns,  c_i ~ chi_n,  n = 2^⌈log2 d⌉.
//
// Angles are those of the simplex in dimension n. With k ≥ 2 rows have exactly mean 0 and covariance I_d, and are
// nearly Gaussian as for [Hadamard]. The last row of S is nearly a constant vector, which the first factor turns into a
// coordinate vector, so that row has the bias of k−1 factors. For n < 32, K = 0 draws the exact blocks of [Simplex]
// instead. For n = 1 a block is one N(0,1) row, the same as IID. Under Sphere(r) all c_i = r, which needs d = n;
// otherwise Sample returns ErrLaw.
type FastSimplex struct {
	K int `json:"k,omitempty"` // number of HD factors; 0 means 3, and exact blocks for n < 32
}

// Name is "fastsimplex".
func (FastSimplex) Name() string { return "fastsimplex" }

func (c FastSimplex) validate() error { return checkFactors(c.Name(), c.K) }

// exact reports whether exact blocks are drawn in dimension dim.
func (c FastSimplex) exact(dim int) bool { return drawsExact(c.K, dim) }

// Sample draws m rows in blocks of n, with Omega.Fast set and Simplex true in every block. For K = 0 and n < 32 it
// draws exact blocks of dim rows, without Omega.Fast.
func (c FastSimplex) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	if c.exact(dim) {
		return Simplex{}.Sample(m, dim, l, src)
	}
	if err := checkPadding(c, dim, l); err != nil {
		return Omega{}, err
	}
	return sampleStructured(m, dim, factors(c.K), true, l, src), nil
}
