package attention

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// Linear is attention with the weights φ1(q_i)·φ2(k_j) of a feature map in O(L·F·d) time and, besides its arguments,
// memory that does not depend on L; with a Window, 16 bytes per query row of the heads under way. The zero value of every
// field but Maps is useful. A Linear may be used by many goroutines.
//
// Outputs have the same bits at any GOMAXPROCS. An output depends on what its query sees only, up to rounding: with
// Causal a later key never changes the outputs of earlier chunks by a bit, and in its own chunk by rounding alone.
//
// A query that sees no key gets zeros. With positive maps every other denominator is positive. Maps with signed features
// give no such guarantee: a negative denominator is used as it is, one that is zero gives zeros, and the Report counts
// both.
type Linear[T dense.Float] struct {
	Visibility
	Maps []randfeat.FeatureMap[T] // one for all heads, or one per key/value head
	// Window > 0 gives the nearest keys their exact weights κ(q, k) of Spec.Target, and features to all others, with one
	// common normaliser: the last Window keys if Causal, else those less than Window positions away on either side.
	Window    int
	Chunk     int  // rows handled together; 0: chosen
	Unchecked bool // values are known to be finite

	pool pool[T]
}

// Rows handled together: many keep kernels busy, but their features should stay in the second-level cache. A causal chunk
// has a triangle that grows with it, and reads the sums once.
const (
	minRows, maxRows = 32, 256
	causalRows       = 64
	featureBlock     = 1 << 16 // features of a block
)

// maxChunk bounds scratch memory, which is quadratic in the chunk.
const maxChunk = 1 << 12

// Forward writes the attention of queries q over keys k and values v into out. Query heads are a multiple of the
// key/value heads; out has the heads and positions of q and the columns of v. It must not share memory with the others.
func (a *Linear[T]) Forward(out, q, k, v Seq[T]) (Report, error) {
	if err := a.check(out, q, k, v); err != nil {
		return Report{}, err
	}
	c := a.pool.get()
	defer a.pool.put(c)
	return c.forward(a, out, q, k, v)
}

// check validates the settings and arguments of Forward.
func (a *Linear[T]) check(out, q, k, v Seq[T]) error {
	if err := checkSeqs(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	return a.checkMaps(k.Heads, q.Dim)
}

// checkMaps validates what does not depend on the length of sequences.
func (a *Linear[T]) checkMaps(kvHeads, dim int) error {
	if len(a.Maps) != 1 && len(a.Maps) != kvHeads {
		return fmt.Errorf("%d maps for %d key/value heads, want 1 or %d: %w", len(a.Maps), kvHeads, kvHeads, dense.ErrShape)
	}
	for i, m := range a.Maps {
		if err := randfeat.CheckMap(m); err != nil {
			return fmt.Errorf("map %d: %w", i, err)
		}
		if m.InDim() != dim {
			return fmt.Errorf("map %d takes %d columns, queries and keys have %d: %w", i, m.InDim(), dim, dense.ErrShape)
		}
		if a.Window > 0 {
			if err := checkWindow(m.Target()); err != nil {
				return fmt.Errorf("map %d: %w", i, err)
			}
		}
	}
	if a.Window < 0 {
		return fmt.Errorf("window = %d, want at least 0: %w", a.Window, dense.ErrShape)
	}
	if a.Chunk < 0 || a.Chunk > maxChunk {
		return fmt.Errorf("chunk = %d, want 0 to %d: %w", a.Chunk, maxChunk, dense.ErrShape)
	}
	return nil
}

// rows is how many rows of a map are handled together.
func (a *Linear[T]) rows(m randfeat.FeatureMap[T], causal bool) int {
	if a.Chunk > 0 {
		return a.Chunk
	}
	n := min(max(featureBlock/max(1, m.OutDim()), minRows), maxRows)
	if causal {
		n = min(n, causalRows)
	}
	return n
}

// mapOf is the map of a key/value head.
func (a *Linear[T]) mapOf(h int) randfeat.FeatureMap[T] {
	if len(a.Maps) == 1 {
		return a.Maps[0]
	}
	return a.Maps[h]
}

// sumSegment adds the keys at positions lo to hi−1 to sums.
func (w *worker[T]) sumSegment(s *stream[T], part *sums[T], lo, hi int) error {
	w.look = w.phiK.Rows
	for c := lo; c < hi; c += w.phiK.Rows {
		k, v, _ := w.keyRows(s, c, min(c+w.phiK.Rows, hi))
		if err := w.absorb(part, k, v); err != nil {
			return err
		}
	}
	return nil
}

// serial computes a stream on one goroutine.
func (w *worker[T]) serial(s *stream[T], mem *memory[T]) error {
	switch {
	case s.window > 0:
		return w.windowed(s, mem)
	case s.causal:
		return w.sweep(s, mem)
	}
	n := s.segments()
	for i := range n {
		if err := w.sumSegment(s, &mem.part, i*segment, min((i+1)*segment, s.k.Rows)); err != nil {
			return err
		}
		if n > 1 {
			mem.flush()
		}
	}
	view := mem.view(w, true)
	return w.answer(s, &view, mem.seen(), dense.Matrix[T]{}, nil, s.off, s.off+s.lenQ())
}

// sweep runs all queries of a causal stream on one goroutine.
func (w *worker[T]) sweep(s *stream[T], mem *memory[T]) error {
	if err := w.before(s, mem); err != nil {
		return err
	}
	n := s.segments()
	for i := range n {
		if err := w.causalSegment(s, mem, i*segment, min((i+1)*segment, s.positions())); err != nil {
			return err
		}
		if i < n-1 {
			mem.flush()
		}
	}
	return w.after(s, mem)
}

// before answers the queries before the first key, after those behind the last.
func (w *worker[T]) before(s *stream[T], mem *memory[T]) error { return w.beside(s, mem, s.off, 0) }

func (w *worker[T]) after(s *stream[T], mem *memory[T]) error {
	return w.beside(s, mem, s.positions(), s.lenQ()+s.off)
}

func (w *worker[T]) beside(s *stream[T], mem *memory[T], p0, p1 int) error {
	if p0 >= p1 {
		return nil
	}
	view := mem.view(w, p1-p0 > fewQueries)
	return w.answer(s, &view, mem.seen(), dense.Matrix[T]{}, nil, p0, p1)
}
