package linear

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// Attention computes linear attention with the weights φ1(q_i)·φ2(k_j) of a feature map, in O(L·F·d) time. Besides its
// arguments it needs memory that does not depend on L; with a Window or Sinks, 16 bytes per query row of the heads in
// progress. Only Maps must be set. Many goroutines may use an Attention at the same time.
//
// Outputs are bit-identical at any GOMAXPROCS. An output depends only on the keys its query sees, up to rounding. With
// Causal, a later key never changes a bit of the outputs of earlier chunks; within its own chunk it changes rounding
// only.
//
// A query that sees no key gets zeros. With positive maps every other denominator is positive. Signed features give no
// such guarantee: a negative denominator is used unchanged, a zero denominator gives zeros, and the Report counts both.
type Attention[T dense.Float] struct {
	attention.Visibility
	Maps []randfeat.FeatureMap[T] // one for all heads, or one per key/value head
	// Window > 0 gives the nearest keys their exact weights κ(q, k) of Spec.Target; all other keys are estimated, under
	// one common normaliser. The nearest keys are the last Window keys if Causal, otherwise those less than Window
	// positions away on either side.
	Window int
	// Sinks > 0 also gives the first Sinks unmasked keys of a sequence their exact weights, for every query. The first
	// tokens of a text receive much attention, whatever they are (Xiao et al. 2023, arXiv:2309.17453).
	Sinks int
	Chunk int // rows handled together; 0 chooses by the number of features. It changes rounding
	// Unchecked skips the search for NaN and infinities. Set it only if the values are known to be finite.
	Unchecked bool

	calls, backs par.Pool[any] // of *call and *backCall; as types, Forward would link gradients
}

// Rows handled together.
const (
	// Many rows at a time keep the kernels busy, but their features should stay in the second-level cache. A causal
	// chunk is smaller: its triangle of scores grows with the square of its rows, while the sums are read only once per
	// chunk.
	minRows, maxRows = 32, 256
	causalRows       = 64
	blockFeatures    = 1 << 16 // target for rows × features of a block
)

// maxChunk bounds scratch memory, which is quadratic in the chunk.
const maxChunk = 1 << 12

// check validates the settings and arguments of Forward.
func (a *Attention[T]) check(out, q, k, v attention.Seq[T]) error {
	if err := attention.CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	return a.checkMaps(k.Heads, q.Dim)
}

// checkMaps validates the maps and the settings: everything that does not depend on the length of sequences.
func (a *Attention[T]) checkMaps(kvHeads, dim int) error {
	if len(a.Maps) != 1 && len(a.Maps) != kvHeads {
		return fmt.Errorf("%d maps for %d key/value heads, want 1 or %d: %w", len(a.Maps), kvHeads, kvHeads,
			dense.ErrShape)
	}
	for i, m := range a.Maps {
		if err := randfeat.CheckMap(m); err != nil {
			return fmt.Errorf("map %d: %w", i, err)
		}
		if m.InDim() != dim {
			return fmt.Errorf("map %d takes %d columns, queries and keys have %d: %w", i, m.InDim(), dim,
				dense.ErrShape)
		}
		if a.exact() {
			if err := checkWindow(m.Target()); err != nil {
				return fmt.Errorf("map %d: %w", i, err)
			}
		}
	}
	if a.Window < 0 {
		return fmt.Errorf("window = %d, want at least 0: %w", a.Window, dense.ErrShape)
	}
	if a.Sinks < 0 {
		return fmt.Errorf("sinks = %d, want at least 0: %w", a.Sinks, dense.ErrShape)
	}
	if a.Chunk < 0 || a.Chunk > maxChunk {
		return fmt.Errorf("chunk = %d, want 0 to %d: %w", a.Chunk, maxChunk, dense.ErrShape)
	}
	return nil
}

// exact reports whether some keys have exact weights.
func (a *Attention[T]) exact() bool { return a.Window > 0 || a.Sinks > 0 }

// rows is the number of rows of a map that are handled together. It must not depend on the number of workers, because
// chunks determine rounding.
func (a *Attention[T]) rows(m randfeat.FeatureMap[T], causal bool) int {
	if a.Chunk > 0 {
		return a.Chunk
	}
	n := min(max(blockFeatures/max(1, m.OutDim()), minRows), maxRows)
	if causal {
		n = min(n, causalRows)
	}
	return n
}

// mapOf is the map of key/value head h.
func (a *Attention[T]) mapOf(h int) randfeat.FeatureMap[T] {
	if len(a.Maps) == 1 {
		return a.Maps[0]
	}
	return a.Maps[h]
}

// checkWindow refuses kernels whose exact weights are not exponentials: windows are combined in the log domain.
func checkWindow(k kernel.Kernel) error {
	if !k.Kind.Exponential() {
		return fmt.Errorf("exact weights need a gaussian or softmax kernel, not %v: %w", k.Kind, kernel.ErrKernel)
	}
	return nil
}
