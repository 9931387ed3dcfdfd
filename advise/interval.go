package advise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// An error is measured on some rows with some draws of the projections, and both are samples. The interval of a report
// covers both: it is where the error on other rows of the same source with other draws lies, in nine of ten cases.
//
// The variance of the logarithm of the root mean square R = Σd²/Σκ² (κ² is 1 for relative errors) has two parts:
//
//	draws: the variance of the draws' means, divided by their number
//	rows:  the jackknife over rows, fold by fold: a row is left out with all of its pairs
//
// Their sum counts the interaction of rows and draws twice, which is on the safe side (Owen 2007, "The pigeonhole
// bootstrap"; Cameron, Gelbach and Miller 2011, eq 2.11). Pairs are not independent: of n rows there are n², so a
// variance over pairs would be far too small.

// spread is an error with the variance of its logarithm from draws and from rows.
type spread struct {
	value       float64
	draws, rows float64
	freedom     float64 // degrees of freedom of the larger part
}

// nines is the share of cases that Low and High enclose.
const nines = 0.9

// heavySpread multiplies the standard deviation over draws if a heavy tail makes up the error: few draws show
// too little of it.
const heavySpread = 2

// interval returns the limits that enclose the error in nine of ten cases.
func (p spread) interval() (low, high float64) {
	if p.value == 0 {
		return 0, 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: max(1, p.freedom)}.Quantile((1 + nines) / 2)
	wide := math.Exp(t * math.Sqrt(p.draws+p.rows))
	return p.value / wide, p.value * wide
}

// spread measures the ranked error of an entrant, with its variance from draws and rows.
func (s *study) spread(e *entrant) spread {
	f := s.figure(e)
	p := spread{value: f.value, draws: f.sd * f.sd, freedom: float64(len(e.draws) - 1)}
	if !s.trusted(e) {
		p.draws *= heavySpread * heavySpread
	}
	// The typical error of relative errors is a median. It varies less over rows than the mean, whose variance
	// is used instead: on the safe side.
	var total, squares float64
	n := float64(len(s.folds))
	for i := range s.folds {
		if ratio, _ := s.jackknife(e, i); ratio > 0 {
			total += ratio / n
		}
	}
	if total == 0 {
		return p
	}
	for i := range s.folds {
		ratio, v := s.jackknife(e, i)
		v *= ratio / n / total * (ratio / n / total)
		p.rows += v
		squares += v * v / max(1, float64(min(s.folds[i].x.Rows, s.folds[i].y.Rows)-1))
	}
	if p.rows > p.draws && squares > 0 {
		p.freedom = p.rows * p.rows / squares // Welch and Satterthwaite
	}
	return p
}

// jackknife returns the mean squared error of a fold relative to the kernel's mean square, and the variance
// over rows of the logarithm of its root.
func (s *study) jackknife(e *entrant, fold int) (ratio, variance float64) {
	f := s.folds[fold]
	draws := 0.0
	for r := range e.draws {
		if r%len(s.folds) == fold {
			draws++
		}
	}
	if draws == 0 || e.sums == nil || e.sums[fold].x == nil {
		return 0, 0
	}
	sum := func(v []float64) (t float64) {
		for _, x := range v {
			t += x
		}
		return t
	}
	errors, kernels := sum(e.sums[fold].x)/draws, sum(f.squares.x)
	if !(errors > 0 && kernels > 0) {
		return 0, 0
	}
	// The logarithm without each row. In one set, a row is on both sides and is left out of both.
	without := func(d, k []float64) float64 {
		var logs []float64
		for i := range d {
			left, norm := errors-d[i]/draws, kernels-k[i]
			if !(left > 0 && norm > 0) {
				return math.Inf(1) // one row has all of the error
			}
			logs = append(logs, math.Log(left/norm)/2)
		}
		n := float64(len(logs))
		mean, v := sum(logs)/n, 0.0
		for _, l := range logs {
			v += (l - mean) * (l - mean) * (n - 1) / n
		}
		return v
	}
	d, k := e.sums[fold], f.squares
	if f.same {
		both := func(a, b []float64) []float64 {
			out := slices.Clone(a)
			for i, v := range b {
				out[i] += v
			}
			return out
		}
		return errors / kernels, without(both(d.x, d.y), both(k.x, k.y))
	}
	return errors / kernels, without(d.x, k.x) + without(d.y, k.y)
}
