package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// foldSums is the state of the pass over all rows: what the rows of every fold add up to. Models of all folds, and of
// all but one, are merged from it: cross-validation of K folds costs one pass and K solutions, not K fits.
type foldSums struct {
	kind  machine.Kind
	setup machine.Setup // with projections, task, outputs and block
	deal  *dealer       // nil: rows are not added through add
	past  bool          // models learn from earlier folds only
	rows  int64         // taken in so far: the next row has this number
	parts []foldPart
	// leaves is set for a table of several units if there is one fold: of many, every level of the tree would hold as
	// many sums, and models of all but one would not be those of parts anyway.
	leaves *leafSums
}

// foldPart is one fold. Rows wait in x and y until there are setup.Block of them, so that sums do not depend on the
// blocks in which rows were read, nor on where a checkpoint cut the pass: it holds the rows that wait. Full blocks are
// also what the products are fast on.
type foldPart struct {
	machine.Sums
	x, y dense.Matrix[float64]
	held int // rows that wait
}

func newFoldSums(kind machine.Kind, setup machine.Setup, folds int, deal *dealer) (*foldSums, error) {
	s := &foldSums{kind: kind, setup: setup, deal: deal, past: deal != nil && deal.ordered(), parts: make([]foldPart,
		folds)}
	for k := range s.parts {
		var err error
		if s.parts[k].Sums, err = machine.NewSums(kind, setup); err != nil {
			return nil, err
		}
		s.parts[k].wait(setup)
	}
	return s, nil
}

// wait makes room for the rows that wait.
func (p *foldPart) wait(setup machine.Setup) {
	p.x = dense.New[float64](setup.Block, setup.Spec.Dim)
	p.y = dense.New[float64](setup.Block, setup.TargetColumns())
}

// along makes s, which has one fold, follow the tree of a table.
func (s *foldSums) along(l *leaves) {
	if len(s.parts) == 1 && len(l.units) > 1 {
		s.leaves = newLeafSums(l, &s.parts[0])
	}
}

// add takes in the rows that follow those before.
func (s *foldSums) add(x, y dense.Matrix[float64]) error {
	for i := range x.Rows {
		if s.leaves != nil {
			if err := s.leaves.to(s.rows); err != nil {
				return err
			}
		}
		p := &s.parts[s.deal.of(s.rows, len(s.parts))]
		copy(p.x.Row(p.held), x.Row(i))
		if p.y.Cols > 0 {
			copy(p.y.Row(p.held), y.Row(i))
		}
		p.held++
		s.rows++
		if p.held == p.x.Rows {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush takes in the rows that wait, after the last row.
func (s *foldSums) flush() error {
	for k := range s.parts {
		if err := s.parts[k].flush(); err != nil {
			return err
		}
	}
	if s.leaves != nil {
		return s.leaves.end()
	}
	return nil
}

func (p *foldPart) flush() error {
	x, y := p.x.RowRange(0, p.held), p.y.RowRange(0, p.held)
	if p.held == 0 {
		return nil
	}
	p.held = 0
	return p.Add(x, y)
}

// merged is the sum of the folds that a model which predicts one learns from, in order; without −1: of all. It adds the
// others rather than subtract one from all: no cancellation where a fold outweighs the rest, and machine.Sums need not
// know how to subtract. What comes first in time has nothing before it: it is predicted by what follows, and not
// scored.
func (s *foldSums) merged(without int) (machine.Sums, error) {
	if len(s.parts) == 1 && without < 0 {
		return s.parts[0].Sums, nil
	}
	sum, err := machine.NewSums(s.kind, s.setup)
	if err != nil {
		return nil, err
	}
	for k := range s.parts {
		if k == without || s.past && without > 0 && k > without {
			continue
		}
		if err := sum.Merge(s.parts[k].Sums); err != nil {
			return nil, err
		}
	}
	return sum, nil
}
