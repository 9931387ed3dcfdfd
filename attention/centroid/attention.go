package centroid

import (
	"fmt"
	"sync"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Attention computes centroid attention. It implements attention.Attention[attention.Seq[T]]. Set Specs before the
// first call; causal attention also wants Centres from [Fit].
type Attention[T dense.Float] struct {
	attention.Visibility
	// Scale multiplies q·k in the logits. 0 means 1/√d.
	Scale float64
	// Specs has one entry for all key/value heads, or one per head.
	Specs []Spec
	// Centres, one per key/value head, decide the cluster of each key. If nil, every call fits centres to its own keys.
	// Causal calls then fit them to the first keys of the sequence only.
	Centres []*Centres
	// Unchecked skips the check for NaN and infinities. Set it only if the values are known to be finite.
	Unchecked bool
	// Workers limits the goroutines of a call; 0 means GOMAXPROCS. Results are bit-identical for any value.
	Workers int

	once  sync.Once
	pools any // *pools[T] after the first call; see poolsOf
}

// pools keep the memory of calls.
type pools[T dense.Float] struct {
	calls    par.Pool[call[T]]
	causals  par.Pool[causalCall[T]]
	chunks   par.Pool[chunkCall[T]]
	prefixes par.Pool[prefixCall[T]]
}

// poolsOf returns the pools of a. The field has no type of its own, and most functions of this file could be methods
// but are not: a package that mentions a generic type compiles its methods and those of its fields again.
func poolsOf[T dense.Float](a *Attention[T]) *pools[T] {
	a.once.Do(func() { a.pools = new(pools[T]) })
	return a.pools.(*pools[T])
}

// chunked says that keys are clustered in chunks: all heads, or none.
func chunked[T dense.Float](a *Attention[T]) bool { return len(a.Specs) > 0 && a.Specs[0].Chunk > 0 }

// forwardChunked computes all rows, or the wanted ones, of causal attention with chunks.
func forwardChunked[T dense.Float](a *Attention[T], wanted []int, out, q, k, v attention.Seq[T]) (attention.Report,
	error) {
	if a.Specs[0].prefixed() {
		return forwardPrefix(a, wanted, out, q, k, v)
	}
	if a.Specs[0].Share > 0 {
		all, err := replays(a, q, k, v)
		if err != nil {
			return attention.Report{}, err
		}
		return forwardReplay(a, all, wanted, out)
	}
	return forwardChunks(a, wanted, out, q, k, v)
}

// Forward writes the attention of q over k and v to out. out has the heads and length of q and the dimension of v.
func (a *Attention[T]) Forward(out, q, k, v attention.Seq[T]) (attention.Report, error) {
	if a.Workers > 0 {
		return par.Result(a.Workers, func() (attention.Report, error) { return forwardAll(a, out, q, k, v) })
	}
	return forwardAll(a, out, q, k, v)
}

func forwardAll[T dense.Float](a *Attention[T], out, q, k, v attention.Seq[T]) (attention.Report, error) {
	if err := out.Check("out"); err != nil {
		return attention.Report{}, err
	}
	if err := checkArguments(a, out.Shape, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if a.Causal {
		if err := checkValues(a, q, k, v); err != nil {
			return attention.Report{}, err
		}
		if chunked(a) {
			return forwardChunked(a, nil, out, q, k, v)
		}
		return forwardCausal(a, out, q, k, v)
	}
	return forwardWhole(a, nil, out, q, k, v)
}

// At computes the output rows of Forward at the query positions rows, for every batch and head, with the same bits. out
// has len(rows) positions; rows may be in any order, without repetitions. The cost is that of clustering plus these
// rows. Causal attention without Spec.Chunk computes all rows and copies the wanted ones.
func (a *Attention[T]) At(out attention.Seq[T], rows []int, q, k, v attention.Seq[T]) error {
	if err := checkAt(a, out, rows, q, k, v); err != nil {
		return err
	}
	if a.Causal {
		if err := checkValues(a, q, k, v); err != nil {
			return err
		}
		if chunked(a) {
			if rows == nil {
				return nil
			}
			_, err := forwardChunked(a, rows, out, q, k, v)
			return err
		}
		return causalAt(a, out, rows, q, k, v)
	}
	if rows == nil {
		return nil
	}
	_, err := forwardWhole(a, rows, out, q, k, v)
	return err
}

// checkAt is checkArguments for the rows of At.
func checkAt[T dense.Float](a *Attention[T], out attention.Seq[T], rows []int, q, k, v attention.Seq[T]) error {
	if out.Len != len(rows) {
		return fmt.Errorf("out has %d positions for %d rows: %w", out.Len, len(rows), dense.ErrShape)
	}
	if err := checkRows(rows, q.Len); err != nil {
		return err
	}
	if err := out.Check("out"); err != nil {
		return err
	}
	whole := out.Shape
	whole.Len = q.Len
	return checkArguments(a, whole, q, k, v)
}

// checkRows refuses rows that are not among length queries, and repeated ones.
func checkRows(rows []int, length int) error {
	seen := make([]bool, length)
	for _, l := range rows {
		if l < 0 || l >= length {
			return fmt.Errorf("row %d of %d queries: %w", l, length, dense.ErrShape)
		}
		if seen[l] {
			return fmt.Errorf("row %d is wanted twice, give every row once: %w", l, dense.ErrShape)
		}
		seen[l] = true
	}
	return nil
}

// causalAt is At for causal attention without chunks. It computes all rows: the clusters of a row depend on every
// earlier position.
func causalAt[T dense.Float](a *Attention[T], out attention.Seq[T], rows []int, q, k, v attention.Seq[T]) error {
	all := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	if _, err := forwardCausal(a, all, q, k, v); err != nil {
		return err
	}
	for b := range q.Batch {
		for h := range q.Heads {
			for i, l := range rows {
				copy(out.Head(b, h).Row(i), all.Head(b, h).Row(l))
			}
		}
	}
	return nil
}

// forwardWhole computes all rows, or the wanted ones, of bidirectional attention.
func forwardWhole[T dense.Float](a *Attention[T], wanted []int, out, q, k, v attention.Seq[T]) (attention.Report,
	error) {
	c := poolsOf(a).calls.Get()
	defer poolsOf(a).calls.Put(c)
	defer c.forget()
	if err := c.start(a, out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if !a.Unchecked {
		if err := checkFinite(c.tab, q, k, v, c.seen); err != nil {
			return attention.Report{}, err
		}
	}
	c.wanted = wanted
	return c.run(), nil
}

// checkArguments validates the shapes of Forward and the fields of a.
func checkArguments[T dense.Float](a *Attention[T], out attention.Shape, q, k, v attention.Seq[T]) error {
	if err := checkInputs(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	if err := checkSpecs(a.Specs, k.Heads); err != nil {
		return err
	}
	for h := range a.Specs {
		switch s := &a.Specs[h]; {
		case !a.Causal && (s.Keys > 0 && s.Together == 0 || s.Spread || s.Shared || s.Chunk > 0):
			return fmt.Errorf("head %d: keys, spread, shared and chunk are of causal attention, leave them out: %w", h,
				ErrSpec)
		case !a.Causal && s.Together > 0 && (s.Window > 0 || s.Block > 0):
			return fmt.Errorf("head %d: window %d and block %d with together %d, whose queries are no neighbours: %w", h,
				s.Window, s.Block, s.Together, ErrSpec)
		case !a.Causal && s.Together > 0 && s.Keys == 0:
			return fmt.Errorf("head %d: together %d without keys in bidirectional attention, set keys and leave out top: %w", h,
				s.Together, ErrSpec)
		case a.Causal && s.Together > 0 && s.Chunk == 0:
			return fmt.Errorf("head %d: together %d without a chunk in causal attention, set chunk: %w", h, s.Together,
				ErrSpec)
		case (s.Chunk > 0) != (a.Specs[0].Chunk > 0):
			return fmt.Errorf("head %d: some heads have chunks and others do not, use two attentions: %w", h, ErrSpec)
		case s.prefixed() != a.Specs[0].prefixed():
			return fmt.Errorf("head %d: some heads have chunks with keys and others with top, use two attentions: %w", h,
				ErrSpec)
		case (s.Share > 0) != (a.Specs[0].Share > 0):
			return fmt.Errorf("head %d: some heads have share and others do not, use two attentions: %w", h, ErrSpec)
		case s.Chunk > 0 && a.Centres != nil:
			return fmt.Errorf("head %d: chunks of keys have clusters of their own, leave out Centres: %w", h, ErrSpec)
		}
	}
	if _, err := logitScale(a.Scale, q.Dim); err != nil {
		return err
	}
	if a.Centres != nil && len(a.Centres) != k.Heads {
		return fmt.Errorf("centres of %d heads, k has %d: %w", len(a.Centres), k.Heads, dense.ErrShape)
	}
	for h, c := range a.Centres {
		switch {
		case c == nil && specOf(a.Specs, h).Clusters > 0:
			return fmt.Errorf("head %d has no centres: %w", h, dense.ErrShape)
		case c == nil:
		case c.Dim() != k.Dim:
			return fmt.Errorf("head %d: centres of dimension %d, keys of %d: %w", h, c.Dim(), k.Dim, dense.ErrShape)
		case c.ValueDim() != 0 && c.ValueDim() != v.Dim:
			return fmt.Errorf("head %d: centres of values of dimension %d, values of %d: %w", h, c.ValueDim(), v.Dim,
				dense.ErrShape)
		}
	}
	return nil
}

// checkValues looks for NaN and infinities unless the caller knows better.
func checkValues[T dense.Float](a *Attention[T], q, k, v attention.Seq[T]) error {
	if a.Unchecked {
		return nil
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return err
	}
	return checkFinite(tab, q, k, v, a.SeenKeys(nil, q.Batch, q.Len, k.Len))
}
