package linear

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
)

// HeadStats collects the statistics of the queries and keys of every key/value head that fitting needs. It is
// streaming, in float64, and mergeable: the merged statistics of many batches or machines equal those of all their data
// (docs/theory.md §3.1). The queries of all heads that share a key/value head are pooled.
//
// A fitted key shift (the adaptive family) is part of the map and fixed before the first key. It is therefore exact in
// causal and streaming use too (docs/theory.md §6).
type HeadStats[T dense.Float] struct {
	spec  randfeat.Spec
	heads []*randfeat.Stats // one per key/value head; nil if the family has nothing to fit
}

// NewHeadStats returns empty statistics for maps of the given spec, one per key/value head.
func NewHeadStats[T dense.Float](spec randfeat.Spec, kvHeads int) (*HeadStats[T], error) {
	if spec.Family == nil {
		return nil, fmt.Errorf("no family: %w", randfeat.ErrSpec)
	}
	if kvHeads < 1 {
		return nil, fmt.Errorf("%d key/value heads, want at least 1: %w", kvHeads, dense.ErrShape)
	}
	s := &HeadStats[T]{spec: spec, heads: make([]*randfeat.Stats, kvHeads)}
	f, ok := spec.Family.(family.Fitter)
	if !ok {
		return s, nil
	}
	for h := range s.heads {
		var err error
		if s.heads[h], err = randfeat.NewStats(spec, f.Needs()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// made returns an error for the zero value, which has no spec.
func (s *HeadStats[T]) made() error {
	if s == nil || len(s.heads) == 0 {
		return fmt.Errorf("statistics without a spec, make them with NewHeadStats: %w", randfeat.ErrSpec)
	}
	return nil
}

// statRows is the number of rows converted to float64 at a time.
const statRows = 256

// Add records queries and keys. The masks are nil or have one entry per batch and position (batch major); false marks
// padding, which is ignored.
func (s *HeadStats[T]) Add(q, k attention.Seq[T], queryMask, keyMask []bool) error {
	if err := s.made(); err != nil {
		return err
	}
	if err := s.check("q", q, queryMask); err != nil {
		return err
	}
	if err := s.check("k", k, keyMask); err != nil {
		return err
	}
	if q.Heads%len(s.heads) != 0 {
		return fmt.Errorf("q has %d heads, want a multiple of %d: %w", q.Heads, len(s.heads), dense.ErrShape)
	}
	if k.Heads != len(s.heads) {
		return fmt.Errorf("k has %d heads, the statistics %d: %w", k.Heads, len(s.heads), dense.ErrShape)
	}
	// All or nothing: a bad number found halfway would leave some heads with data that others lack.
	if err := q.CheckVisible("q", queryMask); err != nil {
		return err
	}
	if err := k.CheckVisible("k", keyMask); err != nil {
		return err
	}
	group := q.Heads / len(s.heads)
	errs := make([]error, len(s.heads))
	par.For(len(s.heads), 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			if st := s.heads[h]; st != nil {
				for g := h * group; g < (h+1)*group && errs[h] == nil; g++ {
					errs[h] = addHead(st.AddQueries, q, g, queryMask)
				}
				if errs[h] == nil {
					errs[h] = addHead(st.AddKeys, k, h, keyMask)
				}
			}
		}
	})
	for h, err := range errs {
		if err != nil {
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

func (s *HeadStats[T]) check(name string, x attention.Seq[T], mask []bool) error {
	if err := x.Check(name); err != nil {
		return err
	}
	if x.Dim != s.spec.Dim {
		return fmt.Errorf("%s has %d columns, the spec %d: %w", name, x.Dim, s.spec.Dim, dense.ErrShape)
	}
	if mask != nil && len(mask) != x.Batch*x.Len {
		return fmt.Errorf("the mask of %s has %d entries for %d×%d positions: %w", name, len(mask), x.Batch, x.Len,
			dense.ErrShape)
	}
	return nil
}

// addHead passes the rows of one head that the mask keeps to add, in blocks of at most statRows rows.
func addHead[T dense.Float](add func(dense.Matrix[float64]) error, x attention.Seq[T], head int, mask []bool) error {
	block := dense.New[float64](min(statRows, x.Len), x.Dim)
	n := 0
	for b := range x.Batch {
		m := x.Head(b, head)
		for l := range m.Rows {
			if mask != nil && !mask[b*x.Len+l] {
				continue
			}
			row := block.Row(n)
			for c, v := range m.Row(l) {
				row[c] = float64(v)
			}
			if n++; n == block.Rows {
				if err := add(block); err != nil {
					return err
				}
				n = 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	return add(block.RowRange(0, n))
}

// Merge adds the statistics of other data. Both must have the same kernel, dimension and number of heads.
func (s *HeadStats[T]) Merge(o *HeadStats[T]) error {
	if err := s.made(); err != nil {
		return err
	}
	if err := o.made(); err != nil {
		return fmt.Errorf("merged: %w", err)
	}
	if len(s.heads) != len(o.heads) {
		return fmt.Errorf("statistics of %d and %d heads: %w", len(s.heads), len(o.heads), dense.ErrShape)
	}
	for h, st := range s.heads {
		if (st == nil) != (o.heads[h] == nil) {
			return fmt.Errorf("head %d: statistics of different families: %w", h, randfeat.ErrSpec)
		}
		if st == nil {
			continue
		}
		if err := st.Merge(o.heads[h]); err != nil {
			return fmt.Errorf("head %d: %w", h, err)
		}
	}
	return nil
}

// Fit returns one spec per key/value head: the spec of NewHeadStats with parameters fitted to the head and a seed of
// its own, as in [HeadSpecs]. A family without parameters stays unchanged.
func (s *HeadStats[T]) Fit() ([]randfeat.Spec, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	specs := HeadSpecs(s.spec, len(s.heads))
	f, ok := s.spec.Family.(family.Fitter)
	if !ok {
		return specs, nil
	}
	errs := make([]error, len(specs))
	par.For(len(specs), 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			if k, ok := f.(family.KernelFitter); ok {
				specs[h].Family, errs[h] = k.FitKernel(s.spec.Kernel.Kind, s.heads[h].Stats)
			} else {
				specs[h].Family, errs[h] = f.Fit(s.heads[h].Stats)
			}
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	return specs, nil
}

// Warning returns family.Warning for the head with the fewest rows: one sentence for all heads. It is empty if every
// head has enough rows, there is nothing to fit, or no rows were added.
func (s *HeadStats[T]) Warning() string {
	if s.made() != nil {
		return ""
	}
	f, ok := s.spec.Family.(family.Fitter)
	if !ok {
		return ""
	}
	rows := s.heads[0].Key.N()
	for _, st := range s.heads {
		rows = min(rows, st.Query.N(), st.Key.N())
	}
	if rows == 0 {
		return ""
	}
	return family.Warning(f, rows, s.spec.Kernel.Dim(s.spec.Dim))
}

// seedStep separates the seeds of heads: 2⁶⁴ divided by the golden ratio, so that redrawing with a seed nearby does not
// give head h the projections that head h+1 had.
const seedStep = 0x9e3779b97f4a7c15

// HeadSpecs returns copies of a spec for n heads, with independent projections: head h has the seed Seed + h·step with
// a fixed odd step, so head 0 has the seed of the spec. The result is empty if n is not positive.
func HeadSpecs(spec randfeat.Spec, n int) []randfeat.Spec {
	specs := make([]randfeat.Spec, max(n, 0))
	for h := range specs {
		specs[h] = spec
	}
	return redraw(specs, spec.Seed)
}

// redraw returns the specs with other projections and the same parameters: head h has the seed that HeadSpecs would
// give it. This is the only way projections change; nothing redraws them on its own.
func redraw(specs []randfeat.Spec, seed uint64) []randfeat.Spec {
	out := make([]randfeat.Spec, len(specs))
	for h, s := range specs {
		out[h] = s.WithSeed(seed + uint64(h)*seedStep)
	}
	return out
}

// NewMaps draws the map of every spec, for the field Maps of [Attention]. Specs are used as they are: two heads with
// the same seed have the same projections.
func NewMaps[T dense.Float](specs []randfeat.Spec) ([]randfeat.FeatureMap[T], error) {
	maps := make([]randfeat.FeatureMap[T], len(specs))
	errs := make([]error, len(specs))
	par.For(len(specs), 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			maps[h], errs[h] = randfeat.New[T](specs[h])
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	return maps, nil
}
