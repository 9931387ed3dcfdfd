package advise

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// An error is measured on some rows with some draws of the projections, and both are samples. The interval of a report
// is for R = √(E d²/E κ²): the root mean square error d of the map over pairs of fresh rows of the same source and over
// fresh draws, relative to the kernel κ (1 for relative errors). It holds R in nine of ten cases.
//
// The variance of log R² is a sum over folds, and in every fold over
//
//	draws: the variance of the draws' means, divided by their number
//	rows:  the jackknife over rows: a row is left out with all of its pairs
//	both:  the interaction of rows and draws, which each of the two contains once.
//
// It is draws + rows − both (Owen 2007, "The pigeonhole bootstrap"; Cameron, Gelbach and Miller 2011, eq 2.11). Pairs
// are not independent: of n rows there are n², so a variance over pairs would be far too small.
//
// The quantile is Student's. A variance estimated from n values of kurtosis k has a relative variance near (k−1)/n, as
// one with 2n/(k−1) degrees of freedom (Welch and Satterthwaite add them up): rows and draws with heavy tails tell less
// about their variance. Means of squares have a normal limit only if fourth moments exist, so there is no interval
// where [study.trusted] sees a tail index below 2. Landmarks have none either: all of their draws choose among the same
// training rows, whose part in the variance the draws do not show.

// nines is the share of cases that Low and High enclose.
const nines = 0.9

// widest is the largest factor between an error and the ends of its interval. A wider interval says nothing.
const widest = 2

// variation is an estimated variance and the variance of that estimate.
type variation struct{ value, noise float64 }

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

// plus is the variation of a sum of independent terms.
func (v variation) plus(w variation) variation {
	return variation{v.value + w.value, v.noise + w.noise}
}

// scaled is the variation of a multiple.
func (v variation) scaled(f float64) variation {
	f *= f
	return variation{v.value * f, v.noise * f * f}
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// ofMean is the variation of the mean of values.
func ofMean(values []float64) variation {
	n := float64(len(values))
	var second, fourth float64
	centre := mean(values)
	for _, v := range values {
		d := (v - centre) * (v - centre)
		second += d / n
		fourth += d * d / n
	}
	if n < 2 || second == 0 {
		return variation{}
	}
	v := second / (n - 1)
	return variation{v, v * v * max(fourth/second/second-1, 2*n/(n-1)) / n}
}

// interval returns the limits that hold the root mean square error of an entrant in nine of ten cases. ok is false if
// its tail forbids an interval, or if the interval says nothing.
func (s *study) interval(e *entrant) (low, high float64, ok bool) {
	f := e.rms()
	if f.value == 0 {
		return 0, 0, true
	}
	if s.Measure != measureRMS || e.landmarks || !s.trusted(e) {
		return 0, 0, false
	}
	v := s.uncertainty(e)
	wide := 1.0
	if v.value > 0 {
		t := distuv.StudentsT{Sigma: 1, Nu: max(1, 2*v.value*v.value/v.noise)}.Quantile((1 + nines) / 2)
		wide = math.Exp(t * math.Sqrt(v.value) / 2)
	}
	if !(wide <= widest) {
		return 0, 0, false
	}
	return f.value / wide, f.value * wide, true
}

// uncertainty returns the variation of log R² of an entrant.
func (s *study) uncertainty(e *entrant) (total variation) {
	squares := make([][]float64, len(s.folds)) // of draws, by fold
	for r, d := range e.draws {
		i := r % len(s.folds)
		squares[i] = append(squares[i], d.square)
	}
	n, all := float64(len(e.draws)), e.rms().value
	kernels := 0.0
	for _, f := range s.folds {
		kernels += sum(f.squares.x)
	}
	for i, f := range s.folds {
		if len(squares[i]) == 0 {
			continue
		}
		m := float64(len(squares[i]))
		share := m / n * mean(squares[i]) / (all * all)
		part := sum(f.squares.x) / kernels
		draws := ofMean(squares[i]).scaled(m / n / (all * all))
		rows, both := ofSide(e.sums[i].x, f.squares.x, share, part, e.sums[i].x2, squares[i], f.same)
		if !f.same {
			y, b := ofSide(e.sums[i].y, f.squares.y, share, part, e.sums[i].y2, squares[i], false)
			rows, both = rows.plus(y), both+b
		}
		v := draws.plus(rows)
		v.value = max(v.value-both, both) // the interaction is a part of the variance
		total = total.plus(v)
	}
	return total
}

// ofSide returns the variation of log R² over the rows of one side of a fold by the jackknife, and the part of it that
// is interaction with draws. The fold has the given share of all errors and part of all kernels. errors and kernels are
// summed by row, squares are the squares of what draws add to a row, and totals the means of the draws. In one set
// every pair belongs to two rows.
func ofSide(errors, kernels []float64, share, part, squares float64, totals []float64, same bool) (rows variation,
	both float64) {
	n, m, twice := float64(len(errors)), float64(len(totals)), 1.0
	if same {
		twice = 2
	}
	all, norm := sum(errors), sum(kernels)
	if !(all > 0) {
		return variation{}, 0
	}
	logs := make([]float64, len(errors))
	for i, e := range errors {
		// Without row i, the means over the other pairs: a fold of n rows keeps (n − twice)/n of its pairs.
		keep := n / (n - twice)
		left := 1 - share + share*keep*(1-twice*e/all)
		rest := 1 - part + part*keep*(1-twice*kernels[i]/norm)
		if !(left > 0 && rest > 0) {
			return variation{math.Inf(1), math.Inf(1)}, 0 // one row has all of the error
		}
		logs[i] = (n - 1) * math.Log(left/rest)
	}
	rows = ofMean(logs)
	if m < 2 || n < 2 {
		return rows, 0
	}
	var byRow, byDraw float64
	for _, e := range errors {
		byRow += e * e
	}
	for _, t := range totals {
		byDraw += t * t
	}
	byDraw *= all / mean(totals) * all / mean(totals) / (m * m) // in units of the sums by row
	residual := max(0, squares-byRow/m-byDraw/n+all*all/(n*m)) / ((n - 1) * (m - 1))
	return rows, residual * n * m / (all * all) * twice * twice * share * share
}
