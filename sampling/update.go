package sampling

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Add adds classes, one per row, and returns their ids: those of removed classes first, then new ones.
func (s *Sampler[T]) Add(rows dense.Matrix[T]) ([]int, error) {
	if err := checkRows("classes", rows, s.classes.Cols); err != nil {
		return nil, err
	}
	if err := s.try(rows); err != nil {
		return nil, err
	}
	ids := make([]int, rows.Rows)
	for i := range ids {
		if n := len(s.free); n > 0 {
			ids[i] = s.free[n-1]
			s.free = s.free[:n-1]
			copy(s.classes.Row(ids[i]), rows.Row(i))
			s.dead[ids[i]] = false
			continue
		}
		ids[i] = s.classes.Rows
		s.classes.Data = append(s.classes.Data, rows.Row(i)...)
		s.classes.Rows++
		s.dead = append(s.dead, false)
		if s.classes.Rows > s.tree.n*s.block {
			s.tree.grow()
		}
	}
	return ids, s.refresh(ids)
}

// Set replaces classes: class ids[i] becomes row i. If an id occurs twice, the later row counts.
func (s *Sampler[T]) Set(ids []int, rows dense.Matrix[T]) error {
	if err := checkRows("classes", rows, s.classes.Cols); err != nil {
		return err
	}
	if rows.Rows != len(ids) {
		return fmt.Errorf("%d ids for %d rows: %w", len(ids), rows.Rows, dense.ErrShape)
	}
	if err := s.known(ids); err != nil {
		return err
	}
	if err := s.try(rows); err != nil {
		return err
	}
	for i, id := range ids {
		copy(s.classes.Row(id), rows.Row(i))
	}
	return s.refresh(ids)
}

// Remove removes classes. Their ids are reused by classes that are added later. At least one class must remain.
func (s *Sampler[T]) Remove(ids ...int) error {
	if err := s.known(ids); err != nil {
		return err
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(distinct) >= s.Len() {
		return fmt.Errorf("removing all %d classes would leave none: %w", s.Len(), ErrRequest)
	}
	for _, id := range distinct {
		s.dead[id] = true
		s.free = append(s.free, id)
	}
	return s.refresh(distinct)
}

// try maps rows that are to become classes, so that an error of the map leaves the sampler unchanged.
func (s *Sampler[T]) try(rows dense.Matrix[T]) error {
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	crew.Hire(1)
	w := crew.Workers[0]
	for lo := 0; lo < rows.Rows; lo += chunkRows {
		hi := min(lo+chunkRows, rows.Rows)
		w.keys = buf.Shaped(w.keys, hi-lo, s.m.OutDim())
		w.shift = buf.Zeroed(w.shift, hi-lo)
		if err := s.m.KeysScaled(w.keys, s.columns.key, w.shift, rows.RowRange(lo, hi), &w.ws); err != nil {
			return err
		}
	}
	return nil
}

// known returns ErrRequest for ids that do not exist or are removed.
func (s *Sampler[T]) known(ids []int) error {
	for _, id := range ids {
		if id < 0 || id >= s.classes.Rows || s.dead[id] {
			return fmt.Errorf("no class %d: %w", id, ErrRequest)
		}
	}
	return nil
}

// refresh recomputes the sums of the blocks of changed classes and of the nodes above them. Sums are never corrected by
// differences, which would accumulate rounding errors.
func (s *Sampler[T]) refresh(ids []int) error {
	if len(ids) == 0 {
		return nil
	}
	if s.changed += len(ids); s.changed >= s.Len() {
		return s.Rebuild()
	}
	var blocks []int
	for _, id := range ids {
		blocks = append(blocks, id/s.block)
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	crew.Hire(1)
	w := crew.Workers[0]
	nodes := make([]int, len(blocks))
	for i, b := range blocks {
		if err := s.sumBlocks(w, b, b+1); err != nil {
			return err
		}
		nodes[i] = int(s.tree.nodeOf[b])
		if s.columns.outgrown(s.tree.sum(nodes[i])) {
			return s.Rebuild()
		}
	}
	// A block that was added turned its neighbour's old leaf into an inner node, which is above the new leaf.
	s.tree.climb(nodes)
	if !s.m.Signed() && s.columns.sunk(s.tree.sum(1)) {
		return s.Rebuild()
	}
	return s.raise(w, ids)
}
