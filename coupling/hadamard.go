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
// but are only nearly Gaussian: with k = 3 the bias of the Gaussian kernel at |x−y| = 1.4 is below 1 % for n = 16
// and not measurable for n = 64; k = 1 fails on sparse inputs (−50 %).
//
// Norms are chi_n even when d < n. With chi_d norms the target would be 1F1(d/2; n/2; −z²/2) instead of
// exp(−z²/2). Under Sphere(r) all c_i = r, which needs d = n; otherwise Sample returns ErrLaw.
type Hadamard struct {
	K int `json:"k,omitempty"` // number of HD factors; 0 means 3
}

// Name is "hadamard".
func (Hadamard) Name() string { return "hadamard" }

func (c Hadamard) validate() error { return checkFactors(c.Name(), c.K) }

// Sample draws m rows in blocks of n. Omega.Fast is set.
func (c Hadamard) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	if err := checkPadding(c, dim, l); err != nil {
		return Omega{}, err
	}
	return sampleStructured(m, dim, c.K, false, l, src), nil
}
