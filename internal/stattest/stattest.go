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

// Moments accumulates draws and gives their mean, variance and the standard error of both.
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

// VarSE is the standard error of Var, from the empirical fourth central moment:
// Var(s²) ≈ (μ₄ − σ⁴)/n.
func (m *Moments) VarSE() float64 {
	mu, v := m.Mean(), m.Var()
	var s float64
	for _, x := range m.xs {
		d := x - mu
		s += d * d * d * d
	}
	n := float64(len(m.xs))
	return math.Sqrt(math.Max(0, s/n-v*v) / n)
}
