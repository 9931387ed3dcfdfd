package calc

import (
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// kernelEntries are docs/theory.md §1.
func kernelEntries() []Entry {
	return []Entry{
		formula("kernel.bessel", "ORF Thm 2 eq 8: j_{d/2-1}(z)", special.BesselJ, dimension("d"), nonnegative("z")),
		{
			Name: "kernel.log_mahalanobis", Reference: "DARK 4.1: xᵀMᵀM y",
			Inputs: []Input{vector("x"), vector("y"), matrix("M_")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "x", "y", "M_"); err != nil {
					return nil, err
				}
				return (kernel.Kernel{Kind: kernel.Softmax, M: in.mat("M_")}).Log(in.vec("x"), in.vec("y")), nil
			},
		},
	}
}
