package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// simplexPairs are two rows of independent norms towards corners of a simplex, at an angle with cosine −1/(d−1).
type simplexPairs struct{}

func (simplexPairs) kappa(shape Shape, d int, t float64) special.Signed {
	series := func(u float64) special.Signed {
		return special.SignedOf(pairSeries(d, u) + simplexExcess(d, u)).Scale(2 * math.Log(math.Abs(u)))
	}
	switch {
	case shape == Exponential:
		return special.Signed{Sign: -1, Log: LogGapPRFSimplex(d, t) - t}
	case shape == Trigonometric && t <= seriesLimit:
		return series(t / 2)
	case shape == Trigonometric:
		return minusOne(rffSimplex(d, t).Scale(t))
	case t <= 1 || t <= seriesLimit && d >= 8:
		// In few dimensions 1/(d−1) stretches the argument of the series, whose terms
		// then cancel; the conformity is also further from e^t there.
		return series(-t / 2)
	}
	return minusOne(special.Signed{Sign: 1, Log: LogConformityCoshSimplex(d, t) - t})
}

func (simplexPairs) jointMSE(shape Shape, d, m int, t float64) (logMSE float64, ok bool) {
	switch {
	case shape == Exponential && t <= 1:
		return logSimplexMSE(d, m, t), true
	case shape == Trigonometric && t <= seriesLimit:
		return logCoshMSE(shape, d, m, t, simplexExcess(d, t/2)), true
	case shape == Hyperbolic && t <= seriesLimit:
		return logCoshMSE(shape, d, m, t, simplexExcess(d, -t/2)), true
	}
	return 0, false
}

// simplexExcess returns (kappa_simplex − kappa_orthogonal)/u² of trigonometric
// (u > 0) or hyperbolic (u < 0) features. With q = sin(phi)/(d−1),
//
//	E_phi[ cosh(2uq) − 1 ] + Σ_{k≥2} g_k u^k E_phi[ ½ Σ_± (1±q)^k e^{∓2uq} − 1 ].
func simplexExcess(d int, u float64) float64 {
	s, w := special.SinPower(d)
	n := len(s)
	q, up, down := make([]float64, n), make([]float64, n), make([]float64, n)
	sum := 0.0
	for i := range s {
		q[i] = s[i] / float64(d-1)
		up[i], down[i] = math.Log1p(q[i]), math.Log1p(-q[i])
		sh := q[i] * sinhc(u*q[i])
		sum += w[i] * 2 * sh * sh
	}
	last := math.Inf(1)
	pairTerms(d, u, func(k, h float64) bool {
		mean := 0.0
		for i := range w {
			mean += w[i] * (math.Expm1(k*up[i]-2*u*q[i]) + math.Expm1(k*down[i]+2*u*q[i])) / 2
		}
		sum += h * mean
		done := negligible(h*mean, last, sum)
		last = h * mean
		return !done && k < maxSeries
	})
	return sum
}

// sinhc is sinh(x)/x.
func sinhc(x float64) float64 {
	if math.Abs(x) < 1e-4 {
		return 1 + x*x/6
	}
	return math.Sinh(x) / x
}

// logSimplexMSE is log( (e^t − 1)/m + pf kappa ) for positive features with simplex
// blocks and t ≤ 1. The linear term t·SimplexSmallV/m, 1/(2d) of its parts at m = d,
// is taken out exactly; with N = m·pf and q = sin(phi)/(d−1) what remains is
//
//	(e^t − 1 − t) + N t E[q] (1 − e^{−t}) − N e^{−t} (orthogonal gap + simplex gain of k ≥ 2).
func logSimplexMSE(d, m int, t float64) float64 {
	n := blockPairs(m, d)
	meanQ := math.Exp(2*special.LogHalfRatio(float64(d)/2)) / float64(d-1)
	gap := math.Exp(LogGapPRFOrthogonal(d, t)-math.Log(t)) + simplexGain(d, t, 2)
	rest := real(expm1ResidueOver(complex(t, 0), t)) - n*meanQ*math.Expm1(-t) - n*math.Exp(-t)*gap
	return math.Log((SimplexSmallV(d, m)+rest)/float64(m)) + math.Log(t)
}
