package tabular

import (
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// leaves are the leaves of the tree over the units of a table (package internal/par). Rows are summed along this tree,
// so a fit in one process has the same sums, bit for bit, as a fit in parts. The reader runs ahead of the summing
// goroutine and records where units begin.
type leaves struct {
	units []data.Unit
	group int // units per leaf

	mu     sync.Mutex
	starts []int64 // number of the first row of each unit that the reader has reached
}

func newLeaves(src data.Source) *leaves {
	units := data.UnitsOf(src)
	return &leaves{units: units, group: par.LeafUnits(len(units))}
}

// begins reports whether unit i begins at or before the given row, which has been read.
func (l *leaves) begins(i int, row int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return i < len(l.starts) && l.starts[i] <= row
}

// come records that the reader has reached unit u at the given row. Units before it that were not seen have no rows.
func (l *leaves) come(u data.Unit, row int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := len(l.starts); n < len(l.units) && (n == 0 || l.units[n-1] != u); n++ {
		l.starts = append(l.starts, row)
	}
}

// source returns the table with a reader that records its units.
func (l *leaves) source(src data.Source) data.Source { return leafSource{src, l} }

type leafSource struct {
	data.Source
	l *leaves
}

// Unwrap returns the table itself.
func (s leafSource) Unwrap() data.Source { return s.Source }

func (s leafSource) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &leafReader{Reader: r, l: s.l}, nil
}

type leafReader struct {
	data.Reader
	l    *leaves
	rows int64
}

func (r *leafReader) Read(b *data.Block, most int) error {
	if err := r.Reader.Read(b, most); err != nil {
		return err
	}
	r.l.come(b.Unit, r.rows)
	r.rows += int64(b.Rows)
	return nil
}

// leafSums sums the leaves of a table of several units. p holds the leaf that is being read.
type leafSums struct {
	of   *leaves
	p    *foldPart
	unit int // unit being read; the number of units once all are merged
	tree par.Tree[machine.Sums]
	free []machine.Sums
}

func newLeafSums(of *leaves, p *foldPart) *leafSums {
	s := &leafSums{of: of, p: p}
	s.tree.Merge = func(into, from machine.Sums) error {
		err := into.Merge(from)
		if again, ok := from.(interface{ Reset() }); ok {
			again.Reset()
			s.free = append(s.free, from)
		}
		return err
	}
	return s
}

// to finishes the units that end before the given row.
func (s *leafSums) to(row int64) error {
	for s.of.begins(s.unit+1, row) {
		if err := s.p.flush(); err != nil {
			return err
		}
		if s.unit++; s.unit%s.of.group > 0 {
			continue
		}
		if err := s.tree.Add(s.p.Sums); err != nil {
			return err
		}
		if n := len(s.free); n > 0 {
			s.p.Sums, s.free = s.free[n-1], s.free[:n-1]
			continue
		}
		var err error
		if s.p.Sums, err = s.p.Like(); err != nil {
			return err
		}
	}
	return nil
}

// end merges all leaves, after the last row.
func (s *leafSums) end() error {
	if s.unit == len(s.of.units) {
		return nil
	}
	s.unit = len(s.of.units)
	err := s.tree.Add(s.p.Sums)
	if err == nil {
		s.p.Sums, _, err = s.tree.Root()
	}
	s.free = nil
	return err
}
