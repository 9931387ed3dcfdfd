package machine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// density holds the [Sums] of a kernel density. The score of x is the log mean kernel log (1/n) Σ_j φ1(x)·φ2(x_j). For
// a Gaussian kernel of bandwidth s in d dimensions it is the log density plus d·log(s√(2π)). The map must be positive;
// otherwise the logarithm is undefined.
type density struct{ sums *smoother }

// newDensity returns the density of no rows; Setup.Outputs is 0 and Setup.Task may be empty.
func newDensity(s Setup) (*density, error) {
	s.Task = cmp.Or(s.Task, Unsupervised)
	if s.Task != Unsupervised {
		return nil, fmt.Errorf("density for task %q, want %s: %w", s.Task, Unsupervised, ErrSetup)
	}
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	sums, err := newSums(s)
	if err != nil {
		return nil, err
	}
	if !sums.keys.m.Positive() {
		return nil, fmt.Errorf("family %s has negative features, a density needs positive ones such as oprf: %w",
			s.Spec.Family.Name(), ErrSetup)
	}
	return &density{sums}, nil
}

// Len is the number of rows added.
func (d *density) Len() int64 { return d.sums.n }

// Add adds rows. It ignores targets but uses weights.
func (d *density) Add(x, y dense.Matrix[float64]) error {
	if !d.sums.setup.Weighted {
		y = dense.Matrix[float64]{}
	}
	return d.sums.Add(x, y)
}

// Merge adds the rows of o, a density.
func (d *density) Merge(o Sums) error {
	other, ok := o.(*density)
	if !ok {
		return otherSums(d, o)
	}
	return d.sums.Merge(other.sums)
}

// Model is the density of the rows so far, without quantiles. It has no penalty, so λ is ignored.
func (d *density) Model(float64) (*Model, error) {
	a := d.sums
	if a.n == 0 || !(a.total > 0) {
		return nil, fmt.Errorf("density of no rows, or of none that has a weight: %w", ErrNoRows)
	}
	mass := slices.Clone(a.sums.Data)
	if a.setup.Weighted {
		a.tab.Scale(mass, float64(a.n)/a.total) // a model divides by its rows: scale to mean weight 1
	}
	return &Model{Kind: KindDensity, Task: Unsupervised, Outputs: 1, Spec: a.setup.Spec, Omega: a.setup.Omega,
		Rows:     a.n,
		LogScale: slices.Clone(a.t), Mass: mass}, nil
}
