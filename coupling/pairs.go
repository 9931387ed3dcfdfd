package coupling

import (
	"fmt"

	"github.com/randfeat/randfeat/internal/omega"
)

// PairKind names the joint law of two rows of one block.
type PairKind int

// The pair laws with closed forms, and the rest.
const (
	PairUnknown     PairKind = iota // no closed form
	PairIndependent                 // independent rows
	PairOrthogonal                  // independent norms, right angle
	PairSimplex                     // independent norms, cos θ = −1/(Dim−1)
)

// String is the name of the pair law.
func (k PairKind) String() string {
	switch k {
	case PairUnknown:
		return "unknown"
	case PairIndependent:
		return "independent"
	case PairOrthogonal:
		return "orthogonal"
	case PairSimplex:
		return "simplex"
	}
	return fmt.Sprintf("PairKind(%d)", int(k))
}

// PairLaw says which closed forms describe a coupling (docs/theory.md §5.2).
type PairLaw struct {
	Kind PairKind
	// Dim is the block size, which is also the dimension in the closed forms: dim, or the padded n of HD products.
	Dim int
	// Exact is false when rows have this law only nearly, as HD and Givens products do; see [Excess].
	Exact bool
}

// Pairs is the pair law of a coupling in dimension dim. A nil coupling is IID. Simplex-type couplings whose blocks
// have one row (d = 1) are independent.
func Pairs(c Coupling, dim int) PairLaw {
	dim = max(dim, 1)
	switch c := c.(type) {
	case nil, IID:
		return PairLaw{Kind: PairIndependent, Dim: dim, Exact: true}
	case Orthogonal, ORFPrime:
		return PairLaw{Kind: PairOrthogonal, Dim: dim, Exact: true}
	case Givens:
		return PairLaw{Kind: PairOrthogonal, Dim: dim, Exact: dim <= 2}
	case Hadamard:
		if c.exact(dim) {
			return PairLaw{Kind: PairOrthogonal, Dim: dim, Exact: true}
		}
		n := omega.PaddedDim(dim)
		return PairLaw{Kind: PairOrthogonal, Dim: n, Exact: n == 1}
	case Simplex:
		return simplexPairs(dim, true)
	case FastSimplex:
		if c.exact(dim) {
			return simplexPairs(dim, true)
		}
		return simplexPairs(omega.PaddedDim(dim), false)
	case SimplexPlus, Optimised:
		if dim == 1 {
			return simplexPairs(1, true)
		}
	}
	return PairLaw{Kind: PairUnknown, Dim: dim}
}

func simplexPairs(n int, exact bool) PairLaw {
	if n == 1 {
		return PairLaw{Kind: PairIndependent, Dim: 1, Exact: true}
	}
	return PairLaw{Kind: PairSimplex, Dim: n, Exact: exact}
}
