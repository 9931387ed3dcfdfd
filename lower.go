package randfeat

import (
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/plan"
)

// Lower turns a spec and its projections, one Omega per draw of the family in the order of its Draws, into the plan
// that backends execute: the plan of the family after the kernel's embedding (bandwidth, matrix). Spec.M and Spec.Seed
// are not used: the first Omega determines the number of projections. Plans are an internal type, for the backends of
// this repository; their Eval defines their meaning.
func Lower(s Spec, omega []coupling.Omega) (plan.Pair, error) {
	if len(omega) > 0 {
		s.M = omega[0].Rows.Rows
	}
	draws, err := s.draws()
	if err != nil {
		return plan.Pair{}, err
	}
	if err := fits(s, draws, omega); err != nil {
		return plan.Pair{}, err
	}
	pair, err := s.Family.Lower(s.Kernel.Kind, s.Kernel.Dim(s.Dim), omega)
	if err != nil {
		return plan.Pair{}, err
	}
	if g := s.Kernel.Gain(); !s.Kernel.M.IsEmpty() {
		pair = pair.Compose(plan.Scalar(g).Compose(plan.Linear{Dense: s.Kernel.M}, s.Dim), s.Dim)
	} else if g != 1 {
		pair = pair.Compose(plan.Scalar(g), s.Dim)
	}
	return pair, nil
}

// fits checks that given projections have the shapes that the family draws.
func fits(s Spec, draws []family.Draw, omega []coupling.Omega) error {
	if len(omega) != len(draws) {
		return fmt.Errorf("family %s: %d sets of projections, want %d: %w",
			s.Family.Name(), len(omega), len(draws), dense.ErrShape)
	}
	for i, d := range draws {
		o := omega[i]
		if err := o.Rows.Check(); err != nil {
			return fmt.Errorf("projections %d: %w", i, err)
		}
		if o.Rows.Rows != d.Rows || o.Rows.Cols != d.Dim {
			return fmt.Errorf("family %s: projections %d are %d×%d, want %d×%d: %w",
				s.Family.Name(), i, o.Rows.Rows, o.Rows.Cols, d.Rows, d.Dim, dense.ErrShape)
		}
		if f := o.Fast; f != nil && (f.Rows != d.Rows || f.Dim != d.Dim) {
			return fmt.Errorf("family %s: the fast form of projections %d is %d×%d, want %d×%d: %w",
				s.Family.Name(), i, f.Rows, f.Dim, d.Rows, d.Dim, dense.ErrShape)
		}
	}
	return nil
}
