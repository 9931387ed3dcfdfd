package forms

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
)

// The covariance of two partners. d = 2, where F⁻¹(u) = −2 log(1−u), by mpmath in 40 digits:
//
//	exp(-s*t)*2*quad(lambda u: hyp0f1(1, -s*t*(log(u)+log1p(-u))/2), [0, 1e-12, 1e-4, .05, .5]) - 1
//
// and d > 2 by SciPy's chi2.ppf, chi2.isf, hyp0f1 and quad. At t = 1e-8 a plain evaluation has no digits left.
func TestCoupledNormsReference(t *testing.T) {
	for _, c := range []struct {
		d                          int
		t, exponential, trig, rtol float64
	}{
		{2, 1e-8, -2.0561675748610696e-17, -2.0561675922594965e-17, 1e-14},
		{2, .25, -0.011567622929444679, -0.014292312014733217, 1e-13},
		{2, 1, -0.13596705052315247, -0.31633064955058968, 1e-13},
		{2, 3.9, -0.71173473768750578, -17.287877189984709, 1e-13},
		{2, 4.1, -0.73678777974067634, -20.806630569509661, 1e-13},
		{2, 16, -0.99931571959400744, 1535082.543724481, 1e-11},
		{3, 1, -0.1208678616488, -0.2522799734983, 1e-12},
		{3, 16, -0.9992754391851, 100047.1749639, 1e-9},
		{8, 1, -0.07527515933713, -0.1163994882507, 1e-12},
		{8, 16, -0.9984517998025, -8168.64596883, 1e-9},
		{64, 1, -0.01438290187746, -0.01554798036899, 1e-12},
		{64, 16, -0.9179884378657, -0.9911297362498, 1e-9},
	} {
		for shape, want := range map[Shape]float64{Exponential: c.exponential, Hyperbolic: c.exponential,
			Trigonometric: c.trig} {
			sign, log, err := Kappa(shape, coupling.PairCoupled, c.d, c.t)
			if got := float64(sign) * math.Exp(log); err != nil || !(math.Abs(got/want-1) <= c.rtol) {
				t.Errorf("d = %d, t = %v, %v: %v, want %v (%v)", c.d, c.t, shape, got, want, err)
			}
		}
	}
}

// Small t, past those whose square underflows, have one limit.
func TestCoupledNormsSmall(t *testing.T) {
	for _, d := range []int{2, 16, 64} {
		want := math.NaN()
		for _, x := range []float64{1e-4, 1e-8, 1e-99, 1e-101, 1e-300} {
			c := relMSE(t, Trigonometric, coupling.PairCoupled, d, d, plainRV(Trigonometric, x), x)
			o := relMSE(t, Trigonometric, coupling.PairOrthogonal, d, d, plainRV(Trigonometric, x), x)
			if got := math.Exp(c - o); math.Abs(got-want) > 1e-3 || !(got > .6 && got < .8) {
				t.Errorf("d = %d, t = %v: ratio to orthogonal rows %v, before %v", d, x, got, want)
			} else {
				want = got
			}
		}
	}
}

// Both evaluations of the covariance meet, for all dimensions.
func TestCoupledNormsContinuity(t *testing.T) {
	for _, d := range []int{2, 3, 5, 64, 4096} {
		for _, shape := range shapes {
			low := coupledPairs{}.kappa(shape, d, smallCoupled).Value()
			high := coupledPairs{}.kappa(shape, d, math.Nextafter(smallCoupled, 5)).Value()
			if math.Abs(high/low-1) > 1e-10 {
				t.Errorf("d = %d, %v: %v at t = 4, %v just above", d, shape, low, high)
			}
		}
	}
}
