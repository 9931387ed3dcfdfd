package tabular

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// foldSums is the state of the pass over all rows: the sums of every fold. Models of all folds, and of all but one,
// are merged from it, so cross-validation with K folds costs one pass and K solutions, not K fits.
type foldSums struct {
	kind  machine.Kind
	setup machine.Setup // with projections, task, outputs and block
	deal  *dealer       // nil: rows are not added through add
	past  bool          // models learn from earlier folds only
	rows  int64         // rows added so far, which is the number of the next row
	parts []foldPart
	// leaves is set if a table has several units and there is one fold. With many folds, every level of the tree
	// would hold as many sums, and models of all folds but one would differ from those of package parts anyway.
	leaves *leafSums
}

// foldPart is one fold. Rows wait in x and y until there are setup.Block of them. So sums do not depend on the
// blocks in which rows are read, nor on where a checkpoint interrupts the pass: it stores the waiting rows. Products
// are also fastest on full blocks.
type foldPart struct {
	machine.Sums
	x, y dense.Matrix[float64]
	held int // number of waiting rows
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

// wait allocates room for the waiting rows.
func (p *foldPart) wait(setup machine.Setup) {
	p.x = dense.New[float64](setup.Block, setup.Spec.Dim)
	p.y = dense.New[float64](setup.Block, setup.TargetColumns())
}

// along makes s follow the tree of units of a table, if s has one fold.
func (s *foldSums) along(l *leaves) {
	if len(s.parts) == 1 && len(l.units) > 1 {
		s.leaves = newLeafSums(l, &s.parts[0])
	}
}

// add adds the next rows.
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

// flush adds the waiting rows, after the last row.
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

// merged returns the sum of the folds that a model which predicts fold without learns from; for −1, of all folds. It
// adds the other folds instead of subtracting one: this avoids cancellation if a fold outweighs the rest, and
// machine.Sums need no subtraction. Nothing precedes the first period of ordered rows: the later periods predict it,
// and it is not scored.
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
