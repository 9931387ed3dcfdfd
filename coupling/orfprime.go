package coupling

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// ORFPrime is the ORF′ of the ORF paper (section 2, Thm 2; docs/theory.md §4.4): blocks of d orthogonal rows of one
// fixed norm, 1 by default.
//
// It changes the target: whatever law is asked for, Normal or Sphere, rows are uniform on the sphere of radius 1
// (or √d), so trigonometric features estimate the Bessel kernel
//
//	j_{d/2−1}(z) = 0F1(; d/2; −z²/4),  z = |x − y|   (z → √d·z with SqrtDim)
//
// and not the Gaussian one. For orthogonal rows of any other radius use [Orthogonal] with the Sphere law.
type ORFPrime struct {
	SqrtDim bool `json:"sqrtDim,omitempty"` // norm √d, close to the typical norm of N(0, I_d)
}

// Name is "orfprime".
func (ORFPrime) Name() string { return "orfprime" }

// Radius is the norm of the rows in dimension dim.
func (c ORFPrime) Radius(dim int) float64 {
	if c.SqrtDim {
		return math.Sqrt(float64(dim))
	}
	return 1
}

// Sample draws m rows of norm Radius(dim) in orthogonal blocks of dim.
func (c ORFPrime) Sample(m, dim int, l Law, src rand.Source) (Omega, error) {
	if err := checkSample(c, m, dim, l, directionalLaws()); err != nil {
		return Omega{}, err
	}
	fixed := Law{Kind: Sphere, Param: c.Radius(dim)}
	return Omega{Rows: sampleBlocks(m, dim, func(block dense.Matrix[float64]) {
		haarRows(block, src)
		omega.ScaleRows(block, fixed.norms(block.Rows, dim, src))
	})}, nil
}
