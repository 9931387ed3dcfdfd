package attention

import (
	"errors"

	"github.com/randfeat/randfeat/internal/seal"
)

// Report counts the rows of a call by outcome. For a state it counts all rows since it was made.
type Report struct {
	Rows     int64 // output rows
	Empty    int64 // rows whose query sees no key: zeros
	Negative int64 // rows with a negative denominator, used unchanged; only maps with signed features have any
	// Zero counts rows whose denominator is zero or whose quotient is not finite; their output is zeros. Maps without
	// signed features have none: where numbers are too large, linear.Attention.Forward returns an error.
	Zero int64
	// Raised counts how often references were raised after the first key. A large count means that the norms of the
	// keys differ widely, which costs time.
	Raised int64
	// Exact counts the exact keys of package centroid: sinks, windows and members of chosen clusters, summed over rows
	// and heads.
	Exact int64
	// Scored counts the residual scores that package centroid computed to choose exact keys.
	Scored int64
}

// Add adds the counts of o.
func (r *Report) Add(o Report) {
	r.Rows += o.Rows
	r.Empty += o.Empty
	r.Negative += o.Negative
	r.Zero += o.Zero
	r.Raised += o.Raised
	r.Exact += o.Exact
	r.Scored += o.Scored
}

// ErrMismatch marks a saved or merged state of another map, precision or shape; ErrCorrupt marks bytes that are not a
// saved state, or a damaged one. Packages linear and centroid return them.
var (
	ErrMismatch = errors.New("state of another map or shape")
	ErrCorrupt  = seal.ErrCorrupt
)
