// Package coupling draws the projections ω_1, …, ω_m of a random feature map.
//
// A [Law] is the marginal distribution of one ω. A [Coupling] is the joint law of all rows given that marginal. As
// long as every row keeps its marginal, the estimator stays unbiased; the joint law changes only the variance.
// Couplings know nothing about kernels or feature maps.
//
// # Usage
//
// Choose a coupling by its value, or by its name with [Parse], and put it into a randfeat.Spec:
//
//	spec.Coupling = coupling.Orthogonal{}    // trigonometric features
//	spec.Coupling = coupling.Simplex{}       // positive features
//	c, err := coupling.Parse("hadamard")     // as on the command line; List names all
//
// Package randfeat calls Sample for you. theory.Warning says which combinations of family and coupling are known to
// hurt. [Pairs] and [Excess] describe the joint law of two rows; package theory computes variances and biases from
// them.
//
// # Blocks
//
// The structured couplings draw independent blocks of d (or n) rows. The last block may be partial: a full block is
// drawn and its first rows are kept, which leaves the law of every row and pair unchanged. If d = 1, a block is a
// single N(0,1) row, so every block coupling equals [IID]. Under [Sphere] the row is then ±radius.
//
// # Legend
//
// d is the dimension of ω, m the number of rows, n the next power of two ≥ d; chi_d is the law of the norm of an
// N(0, I_d) vector; S is the simplex matrix, R a rotation, H the Hadamard matrix, D random signs.
//
// Papers: CRT is arXiv:2205.15317 (Chefs' Random Tables), ORF is "Orthogonal Random Features: Explicit Forms and
// Sharp Inequalities", SimRF is arXiv:2301.13856 (Simplex Random Features), HRF is arXiv:2110.04367 (Hybrid Random
// Features).
//
// # Files
//
//	coupling.go, law.go                     Coupling and Law; checks common to all Sample methods
//	registry.go                             the table of couplings, JSON and names
//	iid.go, orthogonal.go, orfprime.go      independent rows, Haar blocks, fixed norms
//	hadamard.go, givens.go, structured.go   nearly Haar blocks
//	simplex.go, simplexplus.go, fastsimplex.go, optimised.go
//	couplednorms.go                         blocks with norms coupled in pairs
//	halton.go, sobol.go                     quasi-random points
//	pairs.go, rows.go                       facts for closed forms: pair laws, moments of rows
package coupling

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
)

// Coupling is the joint law of the rows, given their marginal. Implementations are immutable values.
type Coupling interface {
	// Name is the name used in specs and on the command line.
	Name() string
	// Sample draws m rows of dimension dim. All randomness comes from src.
	// It returns an error that wraps ErrLaw when the coupling is not defined for the marginal.
	Sample(m, dim int, l Law, src rand.Source) (Omega, error)
}

// Omega holds drawn projections, one per row.
type Omega struct {
	Rows dense.Matrix[float64] // m×d
	// Fast is nil, or the same rows as a structured transform with O(n log n) products.
	Fast *omega.Structured
}

// LawKind names a marginal distribution.
type LawKind int

// The marginals.
const (
	Normal    LawKind = iota // N(0, I_d)
	Sphere                   // uniform on the sphere of radius Param (ORF′)
	Poisson                  // independent Poisson(Param) coordinates
	Geometric                // independent coordinates, P(k) = p(1-p)^k for k ≥ 0, p = Param
	Student                  // multivariate t with Param degrees of freedom, the spectrum of Matérn kernels
	Cauchy                   // independent Cauchy coordinates, the spectrum of the Laplace kernel
)

// String is the name of the law.
func (k LawKind) String() string {
	switch k {
	case Normal:
		return "normal"
	case Sphere:
		return "sphere"
	case Poisson:
		return "poisson"
	case Geometric:
		return "geometric"
	case Student:
		return "student"
	case Cauchy:
		return "cauchy"
	}
	return fmt.Sprintf("LawKind(%d)", int(k))
}

// Law is the marginal distribution of one row. The zero value is N(0, I_d).
type Law struct {
	Kind  LawKind
	Param float64 // radius, λ, p or degrees of freedom; ignored by Normal and Cauchy

	coupled bool // norms of rows 2i and 2i+1 of a block at opposite quantiles
}

// ErrLaw is returned by Sample when a coupling is not defined for a marginal, for instance orthogonal
// Poisson vectors.
var ErrLaw = errors.New("coupling is not defined for this law")

// ErrSize is returned by Sample for m < 1 or dim < 1.
var ErrSize = errors.New("number of projections and dimension must be at least 1")

// errName is returned by Parse for a coupling without a name, or with one that no coupling has.
var errName = errors.New("unknown coupling")

// ErrParam marks invalid parameters of a coupling: out of range, or fields of JSON that are unknown, repeated or
// unreadable.
var ErrParam = errors.New("invalid coupling parameter")
