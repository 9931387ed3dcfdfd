package coupling

import (
	"fmt"

	"github.com/randfeat/randfeat/internal/omega"
)

// PairKind names the joint law of two rows of one block.
type PairKind int

// The pair laws.
const (
	pairUnknown     PairKind = iota // any other law
	PairIndependent                 // independent rows
	PairOrthogonal                  // independent norms, right angle
	PairSimplex                     // independent norms, cos θ = −1/(Dim−1)
	PairCoupled                     // right angle, norms of rows 2i and 2i+1 at opposite quantiles, others independent
	PairZeroSum                     // rows of a block that sum to nearly zero
)

// pairKinds describes the pair laws, in the order of the constants.
var pairKinds = [...]struct {
	name   string
	closed bool                    // there is a closed form for the error of features
	cos    func(n float64) float64 // cosine of the angle between two rows in a block of n; nil if it is random
}{
	{name: "unknown"},
	{name: "independent", closed: true},
	{name: "orthogonal", closed: true, cos: func(float64) float64 { return 0 }},
	{name: "simplex", closed: true, cos: func(n float64) float64 { return -1 / (n - 1) }},
	{name: "coupled norms", closed: true, cos: func(float64) float64 { return 0 }},
	{name: "zero-sum"},
}

func (k PairKind) valid() bool { return k >= 0 && int(k) < len(pairKinds) }

// String is the name of the pair law.
func (k PairKind) String() string {
	if !k.valid() {
		return fmt.Sprintf("PairKind(%d)", int(k))
	}
	return pairKinds[k].name
}

// Closed reports whether the error of features under the pair law has a closed form.
func (k PairKind) Closed() bool { return k.valid() && pairKinds[k].closed }

// PairLaw says which closed forms describe a coupling (docs/theory.md §5.2).
type PairLaw struct {
	Kind PairKind
	// Dim is the block size, which is also the dimension in the closed forms: dim, or the padded n of HD products.
	Dim int
	// Exact is false when rows have this law only nearly, as HD and Givens products do; see [Excess].
	Exact bool
}

// Cos is the cosine of the angle between two rows of a block. ok is false if the angle is random.
func (p PairLaw) Cos() (cos float64, ok bool) {
	if !p.Kind.valid() || pairKinds[p.Kind].cos == nil {
		return 0, false
	}
	return pairKinds[p.Kind].cos(float64(p.Dim)), true
}

// Pairs is the pair law of a coupling in dimension dim. A nil coupling is IID. Simplex-type couplings whose blocks
// have one row (d = 1) are independent.
func Pairs(c Coupling, dim int) PairLaw {
	dim = max(dim, 1)
	switch c := c.(type) {
	case Givens:
		return PairLaw{Kind: PairOrthogonal, Dim: dim, Exact: dim <= 2}
	case Hadamard:
		if !c.exact(dim) {
			n := omega.PaddedDim(dim)
			return PairLaw{Kind: PairOrthogonal, Dim: n, Exact: n == 1}
		}
	case FastSimplex:
		if !c.exact(dim) {
			return blockPairs(PairSimplex, omega.PaddedDim(dim), false)
		}
	case CoupledHadamard:
		law := Pairs(Hadamard(c), dim)
		return blockPairs(PairCoupled, law.Dim, law.Exact)
	}
	kind := infoOf(c).Pairs
	switch kind {
	case PairSimplex, PairZeroSum, PairCoupled:
		return blockPairs(kind, dim, kind.Closed())
	}
	return PairLaw{Kind: kind, Dim: dim, Exact: kind.Closed()}
}

// blockPairs is the pair law of blocks of n rows; a block of one row has no pair.
func blockPairs(kind PairKind, n int, exact bool) PairLaw {
	if n == 1 {
		return PairLaw{Kind: PairIndependent, Dim: 1, Exact: true}
	}
	return PairLaw{Kind: kind, Dim: n, Exact: exact}
}
