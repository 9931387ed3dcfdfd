// Package stattest holds the statistics of tests that compare Monte Carlo with a closed form.
//
// Seeds are fixed, so a test cannot flake; the bound counts the comparisons, so nearly any seed would pass.
package stattest

import "math"

// Bound is the two-sided z bound that keeps the probability of any false alarm among n independent
// comparisons below alpha.
func Bound(alpha float64, n int) float64 {
	return math.Sqrt2 * math.Erfinv(1-alpha/float64(n))
}

// Z is the z-score of a mean over n draws with standard deviation sd. Zero sd: 0 if equal, else +Inf.
func Z(got, want, sd float64, n int) float64 {
	d := got - want
	se := sd / math.Sqrt(float64(n))
	if se == 0 {
		if math.Abs(d) <= 1e-12*math.Max(math.Abs(got), math.Abs(want)) {
			return 0
		}
		return math.Inf(1)
	}
	return d / se
}

// Moments accumulates draws and gives their mean, variance and a z-score of the variance.
type Moments struct{ xs []float64 }

// Add records one draw.
func (m *Moments) Add(x float64) { m.xs = append(m.xs, x) }

// N is the number of draws.
func (m *Moments) N() int { return len(m.xs) }

// Mean is the sample mean.
func (m *Moments) Mean() float64 {
	var s float64
	for _, x := range m.xs {
		s += x
	}
	return s / float64(len(m.xs))
}

// Var is the unbiased sample variance.
func (m *Moments) Var() float64 {
	mu := m.Mean()
	var s float64
	for _, x := range m.xs {
		s += (x - mu) * (x - mu)
	}
	return s / float64(len(m.xs)-1)
}

// VarZ is the z-score of the sample variance against the variance want of the theory; see [VarianceZ].
func (m *Moments) VarZ(want float64) float64 {
	mu, v := m.Mean(), m.Var()
	var s float64
	for _, x := range m.xs {
		d := x - mu
		s += d * d * d * d
	}
	n := float64(len(m.xs))
	return VarianceZ(v/want, math.Sqrt(math.Max(2, s/n/(v*v)-1)/n))
}

// VarianceZ is the z-score of a ratio of sample variance to predicted variance:
//
//	z = 3 (ratio^{1/3} − 1) / se
//
// se is the standard error of the sample variance relative to its expectation, √((κ−1)/n) with κ the kurtosis: at least
// 3, and estimated from the standardised sample, which a wrong scale does not change. So a sample variance far from the
// prediction cannot widen its own error bar. The cube root is that of Wilson and Hilferty: for normal draws z is a
// chi-square test with tails accurate on both sides; a plain difference would be skewed to the right, a logarithm to
// the left.
func VarianceZ(ratio, se float64) float64 { return 3 * (math.Cbrt(ratio) - 1) / se }

// Clusters accumulates standardised deviations u = (estimate − mean)/sd of several pairs of points that share their
// random draws. Under the theory each has mean 0 and variance 1. Draws are independent, pairs of one draw need not be:
// standard errors come from the spread over draws, and are never below those of independent normal pairs.
type Clusters struct{ draws [][]float64 }

// Add records the deviations of all pairs of one draw; their number must always be the same.
func (c *Clusters) Add(u []float64) { c.draws = append(c.draws, u) }

// Mean is the mean deviation and its standard error.
func (c *Clusters) Mean() (mean, se float64) {
	pairs := float64(len(c.draws[0]))
	var m Moments
	for _, u := range c.draws {
		var s float64
		for _, v := range u {
			s += v
		}
		m.Add(s / pairs)
	}
	return m.Mean(), math.Sqrt(math.Max(1/pairs, m.Var()) / float64(m.N()))
}

// Variance is the ratio of the sample variance to that of the theory, and its relative standard error, both for
// [VarianceZ].
func (c *Clusters) Variance() (ratio, se float64) {
	n, pairs := float64(len(c.draws)), float64(len(c.draws[0]))
	centre := make([]float64, len(c.draws[0]))
	for _, u := range c.draws {
		for i, v := range u {
			centre[i] += v / n
		}
	}
	var m Moments
	for _, u := range c.draws {
		var s float64
		for i, v := range u {
			s += (v - centre[i]) * (v - centre[i])
		}
		m.Add(s / pairs * n / (n - 1))
	}
	r := m.Mean()
	return r, math.Sqrt(math.Max(2/pairs, m.Var()/(r*r)) / n)
}
