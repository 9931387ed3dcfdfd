package centroid

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// State is causal attention over a growing sequence, for all heads of a layer. [Chunks] keeps every key and clusters
// old ones, [Slots] has constant memory, and [Compacted] goes on after a finished context. A State must not be used by
// two calls at the same time.
type State interface {
	// Step appends the keys and values of one or more tokens and writes the attention of their queries, each over all
	// tokens up to its own. Arguments are checked before the state changes. Outputs do not depend on how the tokens are
	// divided into steps.
	Step(out, q, k, v attention.Seq[float32]) error
	// Len returns the number of tokens seen.
	Len() int
	// Bytes returns the memory that the state holds: keys, values, sums and spare capacity.
	Bytes() int64
	// Report returns the counts of all steps.
	Report() attention.Report
	// Reset removes all tokens and sets the counts to zero.
	Reset()
	// Fork returns an independent copy, for example to continue one prompt in two ways.
	Fork() State
	// AppendBinary appends the saved state to b, with a checksum.
	AppendBinary(b []byte) ([]byte, error)
}

// layer holds the data that all states share: the shape of a layer, the number of tokens and the counts.
type layer struct {
	batch, qHeads, kvHeads int
	dim, valueDim          int
	length                 int
	unchecked              bool
	report                 attention.Report
}

func (l *layer) group() int { return l.qHeads / l.kvHeads }

// newLayer returns the layer of queries of shape q and values of shape v, whose lengths do not matter. All sizes must
// be positive, and query heads form whole groups.
func newLayer(q, v attention.Shape) (layer, error) {
	if q.Batch < 1 || q.Batch != v.Batch || v.Heads < 1 || q.Heads < 1 || q.Heads%v.Heads != 0 || q.Dim < 1 ||
		v.Dim < 1 {
		return layer{}, fmt.Errorf("queries %v and values %v; want sizes of at least 1, one batch size, and heads in whole groups: %w",
			q, v, dense.ErrShape)
	}
	return layer{batch: q.Batch, qHeads: q.Heads, kvHeads: v.Heads, dim: q.Dim, valueDim: v.Dim}, nil
}

// maxLen bounds the number of tokens of a state, because positions are int32.
const maxLen = 1<<31 - 2

// maxNear bounds the memory of the window. A larger window is probably a mistake.
const maxNear = 1 << 24

// checkStep validates the arguments of a Step, before the state changes.
func checkStep(l *layer, out, q, k, v attention.Seq[float32]) error {
	if l.batch == 0 {
		return fmt.Errorf("a state that was not made by NewChunks, NewSlots or NewCompacted: %w", attention.ErrMismatch)
	}
	for _, x := range [...]struct {
		name       string
		s          attention.Seq[float32]
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
