package coupling

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/rng"
)

// Structured is a stack of blocks diag(c) (S) H D_1 H D_2 … H D_k that multiplies a vector in O(n log n) per
// block. It describes the same rows as Omega.Rows; see [Apply].
type Structured struct {
	Dim, N int // inputs have Dim coordinates and are padded with zeros to N = 2^⌈log2 Dim⌉
	Rows   int // total number of rows; the last block may be cut
	Blocks []HDBlock
}

// HDBlock is one block of N rows.
type HDBlock struct {
	Signs   [][]float64 // Signs[i] is the diagonal of D_{i+1}; the last is applied first
	Norms   []float64   // c_i, N of them
	Simplex bool        // rows are S R instead of R
}

// Apply writes Ω x into dst: dst[i] is the product of row i of Omega.Rows with x. It needs O(k n log n) operations
// per block of n rows and allocates nothing. len(dst) must be s.Rows, len(x) s.Dim and len(scratch) at least s.N;
// wrong lengths panic. The contents of scratch are overwritten; it must not overlap dst or x.
//
// The k Hadamard transforms are left unnormalised; the common factor n^{−k/2} is applied once, with the norms.
func Apply[T dense.Float](s *Structured, dst, x, scratch []T) {
	if len(dst) != s.Rows || len(x) != s.Dim || len(scratch) < s.N {
		panic(fmt.Sprintf("coupling: Apply with len(dst) = %d, len(x) = %d, len(scratch) = %d, want %d, %d, ≥ %d",
			len(dst), len(x), len(scratch), s.Rows, s.Dim, s.N))
	}
	buf := scratch[:s.N]
	for i := range s.Blocks {
		b := &s.Blocks[i]
		copy(buf, x)
		clear(buf[s.Dim:])
		f := hdInPlace(buf, b.Signs)
		if b.Simplex {
			SimplexInPlace(buf)
		}
		lo := i * s.N
		out := dst[lo:min(lo+s.N, s.Rows)]
		for j := range out {
			out[j] = T(b.Norms[j]*f) * buf[j]
		}
	}
}

// hdInPlace overwrites x by g·H D_1 … H D_k x, H orthonormal, and returns the factor 1/g still to be applied.
func hdInPlace[T dense.Float](x []T, signs [][]float64) float64 {
	// Without a rescale |x| grows by √n per transform. The limit keeps float32 far from overflow for any k.
	const limit = 1 << 40
	growth := 1.0
	for i := len(signs) - 1; i >= 0; i-- {
		for j, v := range signs[i][:len(x)] {
			x[j] *= T(v)
		}
		kern.FWHT(x)
		growth *= math.Sqrt(float64(len(x)))
		if growth > limit {
			f := T(1 / growth)
			for j := range x {
				x[j] *= f
			}
			growth = 1
		}
	}
	return 1 / growth
}

// HDProduct is (H D_1)(H D_2)…(H D_k) x (SimRF eq 89) with signs[i] the diagonal of D_{i+1}, so that the last
// one is applied first; H is the orthonormal Hadamard matrix in Sylvester order and x is padded with zeros to the
// power of two n.
func HDProduct(signs [][]float64, x []float64, n int) ([]float64, error) {
	if n < 1 || n&(n-1) != 0 {
		return nil, fmt.Errorf("coupling: n = %d is not a power of two: %w", n, dense.ErrShape)
	}
	if len(x) > n {
		return nil, fmt.Errorf("coupling: x has %d coordinates, n is %d: %w", len(x), n, dense.ErrShape)
	}
	for i, s := range signs {
		if len(s) != n {
			return nil, fmt.Errorf("coupling: signs[%d] has %d entries, n is %d: %w", i, len(s), n, dense.ErrShape)
		}
	}
	y := make([]float64, n)
	copy(y, x)
	scale(y, hdInPlace(y, signs))
	return y, nil
}

// paddedDim is n, the least power of two ≥ d.
func paddedDim(d int) int { return 1 << bits.Len(uint(d-1)) }

// defaultFactors is the number k of HD factors when K is 0. One factor fails on sparse inputs, two leave a bias of
// a few per cent at n = 16; three are within 1 % everywhere measured (docs/theory.md §4.6).
const defaultFactors = 3

// maxFactors bounds K: beyond a handful of factors nothing improves, and a typo should not fill the memory.
const maxFactors = 64

func checkFactors(name string, k int) error {
	if k < 0 || k > maxFactors {
		return fmt.Errorf("coupling %s: K (\"k\") is %d, want 1 to %d, or 0 for %d", name, k, maxFactors, defaultFactors)
	}
	return nil
}

// sampleStructured draws the blocks of Hadamard and FastSimplex. Norms are those of dimension n, not d: only then
// is the restriction of a row to d coordinates (nearly) N(0, I_d).
func sampleStructured(m, dim, k int, simplex bool, l Law, src rand.Source) Omega {
	if k == 0 {
		k = defaultFactors
	}
	n := paddedDim(dim)
	s := &Structured{Dim: dim, N: n, Rows: m, Blocks: make([]HDBlock, (m+n-1)/n)}
	for i := range s.Blocks {
		signs := make([][]float64, k)
		for j := range signs {
			signs[j] = make([]float64, n)
			rng.Signs(signs[j], src)
		}
		s.Blocks[i] = HDBlock{Signs: signs, Norms: l.norms(n, n, src), Simplex: simplex}
	}
	return Omega{Rows: s.dense(), Fast: s}
}

// dense multiplies the unit vectors, so that the dense rows are the fast ones by construction.
func (s *Structured) dense() dense.Matrix[float64] {
	w := dense.New[float64](s.Rows, s.Dim)
	x, col, scratch := make([]float64, s.Dim), make([]float64, s.Rows), make([]float64, s.N)
	for j := range s.Dim {
		x[j] = 1
		Apply(s, col, x, scratch)
		x[j] = 0
		for i, v := range col {
			w.Set(i, j, v)
		}
	}
	return w
}

// checkPadding refuses fixed norms when inputs are padded: the first d coordinates of a vector uniform on the
// sphere of R^n are not uniform on a sphere of R^d.
func checkPadding(c Coupling, dim int, l Law) error {
	if l.Kind == Sphere && dim != paddedDim(dim) {
		return fmt.Errorf("coupling %s with %v marginals in dimension %d, which is not a power of two: %w", c.Name(), l, dim, ErrLaw)
	}
	return nil
}
