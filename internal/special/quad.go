package special

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
)

const ruleSize = 96

var unitRule = sync.OnceValues(func() (x, w []float64) {
	x, w = make([]float64, ruleSize), make([]float64, ruleSize)
	quad.Legendre{}.FixedLocations(x, w, 0, 1)
	return x, w
})

// SinPower returns nodes s_i = sin φ_i and weights (sum 1) of the expectation over
// φ in [0, π] with density proportional to sin^{d−1} φ, for d ≥ 1 (SimRF eq 21).
// The integrand must be smooth on the scale 1/√d.
func SinPower(d int) (s, weight []float64) {
	x, w := unitRule()
	s, weight = make([]float64, ruleSize), make([]float64, ruleSize)
	// φ = π/2 − ψ, even in ψ; past ψ = 10/√d the density is below e^{−50} of its peak.
	reach := math.Min(math.Pi/2, 10/math.Sqrt(float64(d)))
	sum := 0.0
	for i := range x {
		s[i] = math.Cos(reach * x[i])
		weight[i] = w[i] * math.Pow(s[i], float64(d-1))
		sum += weight[i]
	}
	for i := range weight {
		weight[i] /= sum
	}
	return s, weight
}

// LogSinPower returns log ∫_0^{π/2} sin^{d−1} φ dφ = log( √π Γ(d/2) / (2 Γ((d+1)/2)) ).
func LogSinPower(d int) float64 {
	x := float64(d) / 2
	return math.Log(math.Pi/(4*x))/2 - LogHalfRatio(x)
}

// peakDrop is the depth below the peak, in log, past which an integrand is ignored.
const peakDrop = 45

// LogIntegral returns log ∫_0^top e^{h(x)} dx for a unimodal h, however sharp its
// peak and however close to 0: the peak and the points where h has dropped by 45
// are found on a logarithmic scale, and the range between gets Gauss–Legendre.
func LogIntegral(h func(x float64) float64, top float64) float64 {
	g := func(y float64) float64 { return h(math.Exp(y)) }
	lo, hi := -745.0, math.Log(top)
	peak := goldenMax(g, lo, hi)
	best := g(peak)
	left := math.Exp(dropPoint(g, peak, lo, best-peakDrop))
	right := math.Exp(dropPoint(g, peak, hi, best-peakDrop))

	x, w := unitRule()
	terms := make([]float64, len(x))
	for i := range x {
		terms[i] = math.Log(w[i]*(right-left)) + h(left+(right-left)*x[i])
	}
	return LogSumExp(terms...)
}

// goldenMax returns the maximiser of a unimodal g on [a, b].
func goldenMax(g func(float64) float64, a, b float64) float64 {
	const ratio = 0.6180339887498949
	x1, x2 := b-ratio*(b-a), a+ratio*(b-a)
	g1, g2 := g(x1), g(x2)
	for b-a > 1e-6 {
		// Ties are plateaus of rounding at the far left, where h may be −Inf.
		if g1 > g2 {
			b, x2, g2 = x2, x1, g1
			x1 = b - ratio*(b-a)
			g1 = g(x1)
		} else {
			a, x1, g1 = x1, x2, g2
			x2 = a + ratio*(b-a)
			g2 = g(x2)
		}
	}
	return (a + b) / 2
}

// dropPoint returns a point between peak and end at or past which g ≤ level, or end
// if g stays above.
func dropPoint(g func(float64) float64, peak, end, level float64) float64 {
	if g(end) > level {
		return end
	}
	inside, outside := peak, end
	for math.Abs(outside-inside) > 1e-3 {
		mid := (inside + outside) / 2
		if g(mid) > level {
			inside = mid
		} else {
			outside = mid
		}
	}
	return outside
}
