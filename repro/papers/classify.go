package papers

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// voter classifies by kernel regression with random features (CRT §5.2): the class of x maximises φ1(x)·Σ_{i in
// class} φ2(x_i). The denominator is the same for all classes and left out, so features may be signed.
type voter struct {
	sums dense.Matrix[float64] // one row per class
	m    *randfeat.Map[float64]
	ws   randfeat.Workspace[float64]
}

// newVoter sums the features of the training rows. conjugated flips the imaginary half of complex features as CRT eq
// 1 prints it: Re(f1 f2*) instead of Re(f1 f2).
func newVoter(m *randfeat.Map[float64], train dense.Matrix[float64], y []int, classes int, conjugated bool) (*voter,
	error) {
	v := &voter{sums: dense.New[float64](classes, m.OutDim()), m: m}
	v.ws.Workers = 1
	const block = 512
	phi := dense.New[float64](block, m.OutDim())
	for at := 0; at < train.Rows; at += block {
		n := min(block, train.Rows-at)
		if err := m.Keys(phi.RowRange(0, n), nil, train.RowRange(at, at+n), &v.ws); err != nil {
			return nil, err
		}
		for i := range n {
			sum := v.sums.Row(y[at+i])
			for f, p := range phi.Row(i) {
				sum[f] += p
			}
		}
	}
	if conjugated {
		for c := range classes {
			half := v.sums.Row(c)[m.OutDim()/2:]
			if m.Spec().Family.Name() == "trig" { // its sines come first
				half = v.sums.Row(c)[:m.OutDim()/2]
			}
			for f := range half {
				half[f] = -half[f]
			}
		}
	}
	return v, nil
}

// accuracy returns the share of rows that are classified correctly. The first class wins a tie, and a NaN wins over
// everything, as with NumPy's argmax.
func (v *voter) accuracy(x dense.Matrix[float64], y []int) (float64, error) {
	phi := dense.New[float64](x.Rows, v.m.OutDim())
	if err := v.m.Queries(phi, nil, x, &v.ws); err != nil {
		return 0, err
	}
	right := 0
	for i := range x.Rows {
		best, at := math.Inf(-1), 0
		for c := range v.sums.Rows {
			vote := dense.Dot(phi.Row(i), v.sums.Row(c))
			if math.IsNaN(vote) {
				at = c
				break
			}
			if vote > best {
				best, at = vote, c
			}
		}
		if at == y[i] {
			right++
		}
	}
	return float64(right) / float64(x.Rows), nil
}

// exactAccuracy is accuracy with the exact Gaussian kernel, computed with logarithms.
func exactAccuracy(train *table, x dense.Matrix[float64], y []int, sigma float64) float64 {
	right := 0
	votes := make([]float64, train.classes)
	logs := make([]float64, train.x.Rows)
	for i := range x.Rows {
		top := math.Inf(-1)
		for j := range train.x.Rows {
			z := 0.0
			for k, v := range train.x.Row(j) {
				z += (v - x.Row(i)[k]) * (v - x.Row(i)[k])
			}
			logs[j] = -sigma * sigma * z / 2
			top = max(top, logs[j])
		}
		clear(votes)
		for j, v := range logs {
			votes[train.y[j]] += math.Exp(v - top)
		}
		at := 0
		for c, v := range votes {
			if v > votes[at] {
				at = c
			}
		}
		if at == y[i] {
			right++
		}
	}
	return float64(right) / float64(x.Rows)
}
