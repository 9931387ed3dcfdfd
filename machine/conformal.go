package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// tailSteps is the number of steps of 1/1000 of probability, from 0 to ½, at which limits are kept.
const tailSteps = 500

// Residuals collects the differences between targets and out-of-fold predictions, in bounded memory. Their quantiles
// are the prediction intervals of a model. The zero value is ready.
type Residuals struct {
	kept    [][]float64 // per output: residuals of every step-th row
	weights []float64   // weights of the kept rows; nil means all 1
	step    int64
	rows    int64
}

// Len is the number of rows.
func (r *Residuals) Len() int64 { return r.rows }

// Add adds rows, of equal weight or of the given weights. With variances, residuals are in units of the standard
// deviation of their row: intervals then follow the model's variance, corrected by how overconfident it is. Once there
// are more than maxScores numbers, only every second row is kept, then every fourth, and so on.
func (r *Residuals) Add(y, pred, variance dense.Matrix[float64], weights []float64) {
	if r.kept == nil {
		r.kept, r.step = make([][]float64, pred.Cols), 1
	}
	for i := range pred.Rows {
		for k := 0; r.rows%r.step == 0 && k < pred.Cols; k++ {
			d := y.At(i, k) - pred.At(i, k)
			if variance.Cols > 0 {
				d /= math.Sqrt(variance.At(i, k))
			}
			r.kept[k] = append(r.kept[k], d)
			if weights != nil && k == 0 {
				r.weights = append(r.weights, weights[i])
			}
		}
		if r.rows++; len(r.kept[0])*len(r.kept) > maxScores && len(r.kept[0]) > 1 {
			for k, v := range r.kept {
				r.kept[k] = everySecond(v)
			}
			r.weights = everySecond(r.weights)
			r.step *= 2
		}
	}
}

// everySecond keeps elements 0, 2, 4, … in place.
func everySecond(v []float64) []float64 {
	n := (len(v) + 1) / 2
	for j := range n {
		v[j] = v[2*j]
	}
	return v[:n]
}

// Quantiles returns Model.Residuals, or an empty matrix without rows. They are split conformal limits (Vovk, Gammerman
// & Shafer 2005, "Algorithmic learning in a random world", §2.2). A new residual that is exchangeable with n others is
// below the i-th smallest with probability at most i/(n+1). The lower limit of a tail t is therefore the ⌊t(n+1)⌋-th
// smallest residual and the upper limit the ⌊t(n+1)⌋-th largest; both are infinite if ⌊t(n+1)⌋ is 0. Residuals from
// folds belong to models of fewer rows, so the limits are slightly too wide (Barber et al. 2021, "Predictive inference
// with the jackknife+", Ann. Statist. 49, §2.2).
//
// With weights, their sum replaces n, and a new row has weight 1 (Tibshirani et al. 2019, "Conformal prediction under
// covariate shift", §2.2, eq. 7). With weight 1/(rows of the group) for each row, the limits are for a row of a new
// group (Lee, Barber & Willett 2023, "Distribution-free inference with hierarchical data", arXiv:2306.06342, §3.1).
func (r *Residuals) Quantiles() dense.Matrix[float64] {
	if r.rows == 0 {
		return dense.Matrix[float64]{}
	}
	out := dense.New[float64](2*len(r.kept), tailSteps+1)
	for k, v := range r.kept {
		if len(r.weights) > 0 {
			r.weighted(out.Row(2*k), out.Row(2*k+1), v)
			continue
		}
		v = slices.Clone(v)
		slices.Sort(v)
		n := len(v)
		for j := range tailSteps + 1 {
			low, high := math.Inf(-1), math.Inf(1)
			// In integers: j/1000 is not a binary fraction, and rounding would shift the rank by one.
			if i := j * (n + 1) / (2 * tailSteps); i > 0 {
				i = min(i, n)
				low, high = v[i-1], v[n-i]
			}
			out.Set(2*k, j, low)
			out.Set(2*k+1, j, high)
		}
	}
	return out
}

// weighted writes the limits of residuals v for every tail t: the largest residual with less than t(W+1) − 1 of the
// total weight W below it, and the mirror image for the upper limit.
func (r *Residuals) weighted(low, high, v []float64) {
	order, total := make([]int, len(v)), 0.0
	for i := range order {
		order[i] = i
		total += r.weights[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(v[a], v[b]) })
	side := func(limits []float64, outermost float64) {
		below, at := 0.0, -1 // weight further out than order[at+1]
		for j := range limits {
			t := float64(j) / (2 * tailSteps) * (total + 1)
			for at+1 < len(order) && below+1 <= t*(1+1e-12) {
				at++
				below += r.weights[order[at]]
			}
			if limits[j] = outermost; at >= 0 {
				limits[j] = v[order[at]]
			}
		}
	}
	side(low, math.Inf(-1))
	slices.Reverse(order)
	side(high, math.Inf(1))
}

// Interval returns the limits between which a new observation of an output lies with probability coverage, as offsets
// from the prediction. For a Gaussian process they are multiples of the standard deviation of the prediction. A limit
// is infinite if too few rows were held out. A model without Residuals is [ErrSetup].
func (m *Model) Interval(output int, coverage float64) (low, high float64, err error) {
	switch {
	case m.Residuals.IsEmpty():
		return 0, 0, fmt.Errorf("the model has no prediction intervals: they come from rows that cross-validation holds out, "+
			"fit a regression with more than one fold: %w", ErrSetup)
	case !(coverage > 0 && coverage < 1):
		return 0, 0, fmt.Errorf("intervals that hold %g of observations, want a number between 0 and 1: %w", coverage,
			ErrSetup)
	}
	tail := tailOf(coverage)
	return m.Residuals.At(2*output, tail), m.Residuals.At(2*output+1, tail), nil
}

// tailOf is the step of the tail on either side of an interval; the small number makes up for coverages such as 0.9
// that are not binary fractions.
func tailOf(coverage float64) int { return int((1-coverage)/2*2*tailSteps + 1e-9) }

// validateResiduals checks task and shape of the limits, and their order.
func (m *Model) validateResiduals() error {
	r := m.Residuals
	if r.IsEmpty() {
		return nil
	}
	if m.Task != Regression {
		return fmt.Errorf("%s with residuals: %w", m.Task, ErrSetup)
	}
	if r.Rows != 2*m.Outputs || r.Cols != tailSteps+1 {
		return fmt.Errorf("residuals are %d×%d, want %d×%d: %w", r.Rows, r.Cols, 2*m.Outputs, tailSteps+1,
			dense.ErrShape)
	}
	return checkLimits(r)
}

// checkLimits checks that lower limits (even rows) rise and upper limits (odd rows) fall with the tail.
func checkLimits(r dense.Matrix[float64]) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("residuals: %w", err)
	}
	for i := range r.Rows {
		sign := float64(1 - 2*(i%2))
		for j, v := range r.Row(i) {
			if math.IsNaN(v) || math.IsInf(v, int(sign)) || j > 0 && sign*v < sign*r.At(i, j-1) {
				return fmt.Errorf("residuals: entry %d, %d is %g, which is out of order: %w", i, j, v, ErrSetup)
			}
		}
	}
	return nil
}

// checkInterval returns an error if the model has no finite interval with this coverage, for all rows or for some
// group.
func (m *Model) checkInterval(coverage float64) error {
	for k := range m.Outputs {
		low, high, err := m.Interval(k, coverage)
		if err != nil {
			return err
		}
		if math.IsInf(low, -1) || math.IsInf(high, 1) {
			most := 0.0
			for j := range tailSteps + 1 {
				if !math.IsInf(m.Residuals.At(2*k, j), -1) {
					most = 100 * float64(tailSteps-j) / tailSteps
					break
				}
			}
			return fmt.Errorf("too few rows were held out at the fit for intervals of %g %%: at most %g %% can be had: %w",
				100*coverage, most, ErrSetup)
		}
	}
	return m.checkGroups(coverage)
}
