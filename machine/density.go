package machine

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Density sums what a kernel density needs: the score of x is log (1/n) Σ_j φ1(x)·φ2(x_j), the log mean kernel. For a
// Gaussian kernel of bandwidth s in d dimensions it is the log density plus d·log(s√(2π)). The map must be positive, or
// there would be no logarithm.
type Density struct{ sums *Smoother }

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
		return nil, fmt.Errorf("family %s has negative features, a density needs positive ones such as oprf: %w", s.Spec.Family.Name(), ErrSetup)
	}
	return &Density{sums}, nil
}

// Len is the number of rows added.
func (d *Density) Len() int64 { return d.sums.n }

// AddRows adds all rows; targets are not looked at.
func (d *Density) AddRows(rows Rows) error { return d.sums.AddRows(rows) }

// Add adds rows.
func (d *Density) Add(x dense.Matrix[float64]) error { return d.sums.Add(x, dense.Matrix[float64]{}) }

// Merge adds the rows of o.
func (d *Density) Merge(o *Density) error { return d.sums.Merge(o.sums) }

const (
	// quantiles are kept at steps of 1/1000 of probability.
	quantileSteps = 1000
	// maxScores bounds the memory of calibration: of more rows, every 2nd, 4th, … counts.
	maxScores = 1 << 20
)

// Model is the density of the rows so far. calibration are rows whose scores tell how common a score is: rows that were
// not added, since a row is close to itself. Nil leaves the model without quantiles.
func (d *Density) Model(calibration Rows) (*Model, error) {
	a := d.sums
	if a.n == 0 {
		return nil, fmt.Errorf("density of no rows: %w", ErrNoRows)
	}
	m := &Model{Kind: KindDensity, Task: Unsupervised, Outputs: 1, Spec: a.setup.Spec, Omega: a.setup.Omega, Rows: a.n,
		LogScale: slices.Clone(a.t), Mass: slices.Clone(a.sums.Data)}
	if calibration == nil {
		return m, nil
	}
	scores, err := d.scores(m, calibration)
	if err != nil {
		return nil, err
	}
	if len(scores) < 2 {
		return nil, fmt.Errorf("%d rows to calibrate with, want at least 2: %w", len(scores), ErrNoRows)
	}
	slices.Sort(scores)
	for i := range quantileSteps + 1 {
		at := float64(i) / quantileSteps * float64(len(scores)-1)
		lo := int(at)
		q := scores[lo]
		if part := at - float64(lo); part > 0 && !math.IsInf(q, -1) {
			q += part * (scores[lo+1] - q)
		}
		m.Quantiles = append(m.Quantiles, q)
	}
	// Interpolation may lose the order in the last bit.
	slices.Sort(m.Quantiles)
	return m, nil
}

func (d *Density) scores(m *Model, rows Rows) ([]float64, error) {
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
		scores []float64
		first  int64
		step   int64 = 1
	)
	err = rows.Each(d.sums.setup.Block, func(x, _ dense.Matrix[float64]) error {
		if err := finite("x", x, first); err != nil {
			return err
		}
		out = buf.Shaped(out, x.Rows, 1)
		if err := p.Predict(out, x, &ws); err != nil {
			return err
		}
		for i := range x.Rows {
			if at := first + int64(i); at%step == 0 {
				scores = append(scores, out.At(i, 0))
			}
			if len(scores) == maxScores {
				for j := range maxScores / 2 {
					scores[j] = scores[2*j]
				}
				scores, step = scores[:maxScores/2], 2*step
			}
		}
		first += int64(x.Rows)
		return nil
	})
	return scores, err
}
