package tabular

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// intervals returns the residuals for prediction intervals: those of rows left out with the final settings. They are
// too small, because the settings were chosen on the same rows: with 60 rows, the out-of-fold error of the best of
// many settings is a fifth smaller than that on new rows. So they are widened by the ratio to the residuals of
// nested folds, which chose without their rows.
func (s *scored) intervals(j *job, left *leftOut) *machine.Residuals {
	if left == nil {
		return &s.residuals
	}
	var variance dense.Matrix[float64]
	truth := j.original(variance, left.y.ColRange(0, j.outputs), left.pred, left.variance)
	weights := shares(left.weights)
	if j.deal.marks != nil {
		weights = groupShares(j.deal.marks.Keep(left.rows), weights)
	}
	of := spread{}
	of.add(truth, left.pred, left.variance, weights)
	for k := range j.outputs {
		if by := s.spread.mean(k) / of.mean(k); by > 1 && !math.IsInf(by, 1) {
			for i := range truth.Rows {
				p := left.pred.At(i, k)
				truth.Set(i, k, p+by*(truth.At(i, k)-p))
			}
		}
	}
	out := new(machine.Residuals)
	out.Add(truth, left.pred, left.variance, weights)
	for i, group := range left.groups {
		var w []float64
		if weights != nil {
			w = weights[i : i+1]
		}
		s.groups.add(group, truth.RowRange(i, i+1), left.pred.RowRange(i, i+1), rowOf(left.variance, i), w)
	}
	return out
}

// spread sums absolute residuals, divided by the standard deviation if there are variances.
type spread struct {
	sum    []float64 // by output
	weight float64
}

func (s *spread) add(y, pred, variance dense.Matrix[float64], weights []float64) {
	if s.sum == nil {
		s.sum = make([]float64, pred.Cols)
	}
	for i := range pred.Rows {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		s.weight += w
		for k, p := range pred.Row(i) {
			d := math.Abs(y.At(i, k) - p)
			if variance.Cols > 0 {
				d /= math.Sqrt(variance.At(i, k))
			}
			s.sum[k] += w * d
		}
	}
}

func (s *spread) mean(k int) float64 {
	if s.sum == nil {
		return 0
	}
	return s.sum[k] / s.weight
}
