package coupling

import (
	"math/rand/v2"
)

// Hadamard draws blocks of n = 2^⌈log2 d⌉ orthogonal rows with O(n log n) products (SimRF B.2.2, eqs 89-90;
// docs/theory.md §4.6):
//
//	block = diag(c) (H D_1)(H D_2)…(H D_k), first d columns,  c_i ~ chi_n,
//
// H the orthonormal Hadamard matrix, D_i independent random signs. Rows have exactly mean 0 and covariance I_d,
// but are only nearly Gaussian. The relative bias of an estimate that depends on ω·z is
//
//	(−2/n)^k ((n+2) Σ z_l⁴ − 3|z|⁴)/24 + O(|z|⁶),
//
// largest along an axis: −(2/n)³ (n−1)|z|⁴/24 for three factors, −0.6 % of the Gaussian kernel at n = 32, |z| = 2, and
// n times smaller for dense z. One factor fails on sparse inputs for every n. For n < 32, where the bias is a matter
// of per cents, K = 0 draws the exact blocks of [Orthogonal] instead; an explicit K is taken as it is. [Excess] has
// the moments behind this.
//
// Norms are chi_n even when d < n. With chi_d norms the target would be 1F1(d/2; n/2; −z²/2) instead of
// exp(−z²/2). Under Sphere(r) all c_i = r, which needs d = n; otherwise Sample returns ErrLaw.
type Hadamard struct {
	K int `json:"k,omitempty"` // number of HD factors; 0 means 3, and exact blocks for n < 32
}

// Name is "hadamard".
func (Hadamard) Name() string { return "hadamard" }

func (c Hadamard) validate() error { return checkFactors(c.Name(), c.K) }

// exact reports whether exact blocks are drawn in dimension dim.
func (c Hadamard) exact(dim int) bool { return drawsExact(c.K, dim) }

// Sample draws m rows in blocks of n, with Omega.Fast set. For K = 0 and n < 32 it draws exact blocks of dim rows,
// without Omega.Fast.
func (c Hadamard) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	if c.exact(dim) {
		return Orthogonal{}.Sample(m, dim, l, src)
	}
	if err := checkPadding(c, dim, l); err != nil {
		return Omega{}, err
	}
	return sampleStructured(m, dim, factors(c.K), false, l, src), nil
}
