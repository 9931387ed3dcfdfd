package machine

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Density holds the [Sums] of a kernel density. The score of x is the log mean kernel log (1/n) Σ_j φ1(x)·φ2(x_j). For
// a Gaussian kernel of bandwidth s in d dimensions it is the log density plus d·log(s√(2π)). The map must be positive;
// otherwise the logarithm is undefined.
type Density struct{ sums *smoother }

// NewDensity returns the density of no rows; Setup.Outputs is 0 and Setup.Task may be empty.
func NewDensity(s Setup) (*Density, error) {
	if s.Task == "" {
		s.Task = Unsupervised
	}
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
	return &Density{sums}, nil
}

// Len is the number of rows added.
func (d *Density) Len() int64 { return d.sums.n }

// AddRows adds all rows and ignores targets.
func (d *Density) AddRows(rows Rows) error { return d.sums.AddRows(rows) }

// Add adds rows. It ignores targets but uses weights.
func (d *Density) Add(x, y dense.Matrix[float64]) error {
	if !d.sums.setup.Weighted {
		y = dense.Matrix[float64]{}
	}
	return d.sums.Add(x, y)
}

// Merge adds the rows of o, a Density.
func (d *Density) Merge(o Sums) error {
	other, ok := o.(*Density)
	if !ok {
		return otherSums(d, o)
	}
	return d.sums.Merge(other.sums)
}

// Model is the density of the rows so far, without quantiles. It has no penalty, so λ is ignored.
func (d *Density) Model(float64) (*Model, error) {
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

// Calibrated returns Model with the quantiles of the scores of rows, which show how common a score is. Use rows that
// were not added: a row raises the density at its own place.
func (d *Density) Calibrated(rows Rows) (*Model, error) {
	m, err := d.Model(0)
	if err != nil {
		return nil, err
	}
	if err := d.sums.setup.checkRows(rows); err != nil {
		return nil, err
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	var (
		ws     Workspace[float64]
		out    dense.Matrix[float64]
		scores Calibration
	)
	err = rows.Each(d.sums.setup.Block, func(x, _ dense.Matrix[float64]) error {
		if err := finite("x", x, scores.rows); err != nil {
			return err
		}
		out = buf.Shaped(out, x.Rows, 1)
		if err := p.Predict(out, x, &ws); err != nil {
			return err
		}
		for i := range x.Rows {
			scores.Add(out.At(i, 0))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.Quantiles = scores.Quantiles(); m.Quantiles == nil {
		return nil, fmt.Errorf("%d rows to calibrate with, want at least 2: %w", scores.rows, ErrNoRows)
	}
	return m, nil
}
