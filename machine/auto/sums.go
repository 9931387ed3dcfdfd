package auto

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// foldSums is the state of the pass over all rows: what the rows of every fold add up to. Models of all folds, and of all
// but one, are merged from it.
type foldSums struct {
	kind  machine.Kind
	setup machine.Setup // with projections, task, outputs and block
	seed  uint64
	rows  int64 // taken in so far: the next row has this number
	parts []foldPart
}

// foldPart is one fold. Rows wait in x and y until there are setup.Block of them, so that sums do not depend on the blocks
// in which rows were read.
type foldPart struct {
	ridge    *machine.Ridge    // KindRidge, KindGP
	smoother *machine.Smoother // KindSmoother
	density  *machine.Density  // KindDensity
	gp       bool
	x, y     dense.Matrix[float64]
	held     int // rows that wait
}

func newFoldSums(kind machine.Kind, setup machine.Setup, folds int, seed uint64) (*foldSums, error) {
	s := &foldSums{kind: kind, setup: setup, seed: seed, parts: make([]foldPart, folds)}
	for k := range s.parts {
		p := &s.parts[k]
		p.gp = kind == machine.KindGP
		var err error
		switch kind {
		case machine.KindRidge, machine.KindGP:
			p.ridge, err = machine.NewRidge(setup)
		case machine.KindSmoother:
			p.smoother, err = machine.NewSmoother(setup)
		case machine.KindDensity:
			p.density, err = machine.NewDensity(setup)
		default:
			err = fmt.Errorf("sums of a %s model: %w", kind, machine.ErrSetup)
		}
		if err != nil {
			return nil, err
		}
		p.x = dense.New[float64](setup.Block, setup.Spec.Dim)
		p.y = dense.New[float64](setup.Block, targetColumns(setup.Task, setup.Outputs))
	}
	return s, nil
}

// targetColumns is the number of columns of y: a class index, or numbers.
func targetColumns(task machine.Task, outputs int) int {
	switch task {
	case machine.Classification:
		return 1
	case machine.Unsupervised:
		return 0
	}
	return outputs
}

// add takes in the rows that follow those before.
func (s *foldSums) add(x, y dense.Matrix[float64]) error {
	for i := range x.Rows {
		p := &s.parts[fold(s.seed, s.rows, len(s.parts))]
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
	return nil
}

func (p *foldPart) flush() error {
	x, y := p.x.RowRange(0, p.held), p.y.RowRange(0, p.held)
	if p.held == 0 {
		return nil
	}
	p.held = 0
	return p.add(x, y)
}

// add adds rows at once.
func (p *foldPart) add(x, y dense.Matrix[float64]) error {
	switch {
	case p.ridge != nil:
		return p.ridge.Add(x, y)
	case p.smoother != nil:
		return p.smoother.Add(x, y)
	}
	return p.density.Add(x)
}

// model is that of the sums, with penalty λ where there is one.
func (p *foldPart) model(lambda float64) (*machine.Model, error) {
	switch {
	case p.ridge != nil && p.gp:
		return p.ridge.GP(lambda, nil)
	case p.ridge != nil:
		return p.ridge.Solve(lambda)
	case p.smoother != nil:
		return p.smoother.Model()
	}
	return p.density.Model(nil)
}

// merged is the sum of all folds but one, in order; without −1: of all.
func (s *foldSums) merged(without int) (foldPart, error) {
	var sum foldPart
	empty, err := newFoldSums(s.kind, s.setup, 1, s.seed)
	if err != nil {
		return sum, err
	}
	sum = empty.parts[0]
	for k := range s.parts {
		if k == without {
			continue
		}
		p := &s.parts[k]
		switch {
		case sum.ridge != nil:
			err = sum.ridge.Merge(p.ridge)
		case sum.smoother != nil:
			err = sum.smoother.Merge(p.smoother)
		default:
			err = sum.density.Merge(p.density)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}
