package centroid

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// State is causal attention over a growing sequence, for all heads of a layer. [Cache] keeps every key, [Slots] has
// constant memory, and [Chunks] clusters keys chunk by chunk. A State must not be used by two calls at the same time.
type State[T dense.Float] interface {
	// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
	// tokens up to its own. Arguments are checked before the state changes. Outputs do not depend on how the tokens are
	// divided into steps.
	Step(out, q, k, v attention.Seq[T]) error
	// Len returns the number of tokens seen.
	Len() int
	// Bytes returns the memory that the state holds: keys, values, sums and spare capacity.
	Bytes() int64
	// Report returns the counts of all steps.
	Report() attention.Report
	// Reset removes all tokens and sets the counts to zero.
	Reset()
	// Fork returns an independent copy, for example to continue one prompt in two ways.
	Fork() State[T]
	// Join appends the tokens of another state of the same type, specs, centres and shape; see the Merge methods.
	// Chunks do not support it.
	Join(o State[T]) error
	// AppendBinary appends the saved state to b, with a checksum.
	AppendBinary(b []byte) ([]byte, error)
}

// layer holds the data that all states share: the shape of a layer, the number of tokens and the counts.
type layer struct {
	batch, qHeads, kvHeads int
	dim, valueDim          int
	length                 int
	joined                 int // tokens that came by Join
	unchecked              bool
	report                 attention.Report
}

func (l *layer) group() int { return l.qHeads / l.kvHeads }

// newLayer returns an error unless all sizes are positive and query heads form whole groups.
func newLayer(batch, qHeads, kvHeads, dim, valueDim int) (layer, error) {
	if batch < 1 || kvHeads < 1 || qHeads < 1 || qHeads%kvHeads != 0 || dim < 1 || valueDim < 1 {
		return layer{}, fmt.Errorf("batch %d, %d query heads, %d key/value heads, dimensions %d and %d; want at least 1 and heads in whole groups: %w",
			batch, qHeads, kvHeads, dim, valueDim, dense.ErrShape)
	}
	return layer{batch: batch, qHeads: qHeads, kvHeads: kvHeads, dim: dim, valueDim: valueDim}, nil
}

// maxLen bounds the number of tokens of a state, because positions are int32.
const maxLen = 1<<31 - 2

// maxNear bounds the memory of the window. A larger window is probably a mistake.
const maxNear = 1 << 24

// checkStep validates the arguments of a Step, before the state changes.
func checkStep[T dense.Float](l *layer, out, q, k, v attention.Seq[T]) error {
	if l.batch == 0 {
		return fmt.Errorf("a state that was not made by NewCache, NewSlots or NewChunks: %w", attention.ErrMismatch)
	}
	for _, x := range [...]struct {
		name       string
		s          attention.Seq[T]
		heads, dim int
	}{{"q", q, l.qHeads, l.dim}, {"k", k, l.kvHeads, l.dim}, {"v", v, l.kvHeads, l.valueDim},
		{"out", out, l.qHeads, l.valueDim}} {
		if err := x.s.Check(x.name); err != nil {
			return err
		}
		if want := (attention.Shape{Batch: l.batch, Heads: x.heads, Len: q.Len, Dim: x.dim}); x.s.Shape != want {
			return fmt.Errorf("%s is %v, want %v: %w", x.name, x.s.Shape, want, dense.ErrShape)
		}
		if x.name != "out" && !l.unchecked {
			if err := x.s.CheckFinite(x.name); err != nil {
				return err
			}
		}
	}
	if q.Len > maxLen-l.length {
		return fmt.Errorf("%d tokens after %d, want at most %d: %w", q.Len, l.length, maxLen, dense.ErrShape)
	}
	return nil
}

func sizeOf[T dense.Float]() int64 {
	if T(0x1p-149)/2 != 0 {
		return 8
	}
	return 4
}
