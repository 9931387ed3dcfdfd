package forms

import (
	"math"

	"github.com/randfeat/randfeat/internal/special"
)

// The conformity of a coupling (SimRF eq 10) is the part of the coupled error that
// depends on the joint law of two projections of a block. Independent projections
// have conformity e^{v²} (SimRF Lemma 4.1).

// LogConformityOrthogonal returns log rho of orthogonal pairs,
//
//	rho = 1F1(d; d/2; v²/2).
//
// SimRF Thm 4.3, eq 23. It serves positive and hyperbolic features alike.
func LogConformityOrthogonal(d int, v2 float64) float64 {
	if d < 1 {
		return math.NaN()
	}
	return special.LogKummerPos(d, v2/2)
}

// LogConformityAngle returns the log conformity of pairs at a fixed angle with
// cosine c in [−1, 1],
//
//	rho = E_phi 1F1(d; d/2; (v²/2)(1 + c sin phi)),  density of phi ∝ sin^{d−1} on [0, π].
//
// SimRF Lemma 4.2, eq 21, with eq 24 (an alternating double series) replaced by
// quadrature of this all-positive integrand.
func LogConformityAngle(d int, v2, c float64) float64 {
	if d < 1 || !(v2 >= 0) || !(math.Abs(c) <= 1) {
		return math.NaN()
	}
	if v2 == 0 || math.IsInf(v2, 1) {
		return v2
	}
	if v2 <= angleFixedRule {
		return logConformityAngleSmall(d, v2, c)
	}
	power := float64(d - 1)
	h := func(phi float64) float64 {
		s := math.Sin(phi)
		return special.LogKummerPos(d, v2/2*(1+c*s)) + power*math.Log(s)
	}
	return special.LogIntegral(h, math.Pi/2) - special.LogSinPower(d)
}

// angleFixedRule is the largest v² whose integrand varies slowly enough for the
// fixed rule, which keeps relative accuracy of small logarithms.
const angleFixedRule = 4

func logConformityAngleSmall(d int, v2, c float64) float64 {
	s, w := special.SinPower(d)
	sum := 0.0
	for i := range s {
		sum += w[i] * math.Expm1(special.LogKummerPos(d, v2/2*(1+c*s[i])))
	}
	return math.Log1p(sum)
}

// simplexCos is the cosine between two rows of a simplex block, −1/(d−1).
func simplexCos(d int) float64 { return -1 / float64(d-1) }

// LogConformitySimplex returns log rho of simplex pairs for positive features.
// SimRF Thm 4.3, eq 24. d ≥ 2: one vector makes no simplex.
func LogConformitySimplex(d int, v2 float64) float64 {
	if d < 2 {
		return math.NaN()
	}
	return LogConformityAngle(d, v2, simplexCos(d))
}

// LogConformityCoshSimplex returns log rho″ of simplex pairs for hyperbolic
// features, the mean of the conformities at cosines ±1/(d−1). Derived in
// docs/theory.md §5.2; always above LogConformityOrthogonal for v > 0. d ≥ 2.
func LogConformityCoshSimplex(d int, v2 float64) float64 {
	if d < 2 {
		return math.NaN()
	}
	c := simplexCos(d)
	return special.LogSumExp(LogConformityAngle(d, v2, c), LogConformityAngle(d, v2, -c)) - math.Ln2
}

// ConformityRFFOrthogonal returns rho' of orthogonal pairs for trigonometric
// features, 1F1(d; d/2; −z²/2). SimRF Thm 4.5. Independent pairs have e^{−z²}.
func ConformityRFFOrthogonal(d int, z2 float64) float64 {
	if d < 1 {
		return math.NaN()
	}
	return special.KummerNeg(d, z2/2)
}

// ConformityRFFSimplex returns rho' of simplex pairs for trigonometric features,
// the mean of E_phi 1F1(d; d/2; −(z²/2)(1 ± sin(phi)/(d−1))) over both signs.
// Derived in docs/theory.md §5.2 (SimRF leaves it out). d ≥ 2.
func ConformityRFFSimplex(d int, z2 float64) float64 {
	if d < 2 || !(z2 >= 0) {
		return math.NaN()
	}
	return rffSimplex(d, z2).Value()
}

func rffSimplex(d int, z2 float64) special.Signed {
	s, w := special.SinPower(d)
	c := simplexCos(d)
	terms := make([]special.Signed, 0, 2*len(s))
	for i := range s {
		lw := math.Log(w[i] / 2)
		if math.IsInf(lw, -1) {
			continue
		}
		terms = append(terms,
			special.KummerNegLog(d, z2/2*(1+c*s[i])).Scale(lw),
			special.KummerNegLog(d, z2/2*(1-c*s[i])).Scale(lw))
	}
	return special.SumSigned(terms...)
}

// LogGapPRFOrthogonal returns log( e^{v²} − rho ), the advantage of orthogonal over
// independent pairs of positive features, from the all-positive series
//
//	e^{v²} − rho = Σ_{k≥2} (v^{2k}/k!) ( 1 − Π_{j<k} (1 − j/(d+2j)) ).
//
// SimRF Cor 4.4, eq 25 with the missing 2^k: v^{2k}/(2^k k!).
func LogGapPRFOrthogonal(d int, v2 float64) float64 {
	if d < 1 || !(v2 >= 0) {
		return math.NaN()
	}
	if v2 == 0 {
		return math.Inf(-1)
	}
	// Where the two are well apart their logarithms may be subtracted; the series is
	// for the rest, v² below about √d.
	if rho := LogConformityOrthogonal(d, v2); rho < v2-math.Ln2 || v2 > 600 {
		return special.LogSub(v2, rho)
	}
	dim := float64(d)
	sum, power, logProd := 0.0, 0.5, 0.0 // power = v^{2k−4}/k!
	for k := 2.0; ; k++ {
		logProd += math.Log1p(-(k - 1) / (dim + 2*(k-1)))
		term := power * -math.Expm1(logProd)
		sum += term
		power *= v2 / (k + 1)
		if k > v2 && power <= 1e-17*sum {
			break
		}
	}
	return math.Log(sum) + 2*math.Log(v2)
}

// LogGapPRFSimplex returns log( e^{v²} − rho ) of simplex pairs of positive
// features: the orthogonal gap plus the further gain rho_orthogonal − rho_simplex,
// both positive. d ≥ 2. SimRF Thm 4.3 and §5.1; it starts like v² mu²/(d(d−1)).
func LogGapPRFSimplex(d int, v2 float64) float64 {
	if d < 2 || !(v2 >= 0) {
		return math.NaN()
	}
	if v2 == 0 {
		return math.Inf(-1)
	}
	return special.LogSumExp(LogGapPRFOrthogonal(d, v2), logSimplexGain(d, v2))
}

// simplexGainSeries is the largest v² for which the series of logSimplexGain is
// preferred to a difference of logarithms, which loses digits like d/v².
const simplexGainSeries = 30

// logSimplexGain is log( rho_orthogonal − rho_simplex ).
func logSimplexGain(d int, v2 float64) float64 {
	if v2 > simplexGainSeries {
		return special.LogSub(LogConformityOrthogonal(d, v2), LogConformitySimplex(d, v2))
	}
	return math.Log(simplexGain(d, v2, 1)) + math.Log(v2)
}

// simplexGain is the part k ≥ from, over v², of the all-positive series
//
//	rho_orthogonal − rho_simplex = Σ_{k≥1} (v²/2)^k (d)_k/(k! (d/2)_k) E_phi[ 1 − (1 − sin(phi)/(d−1))^k ].
func simplexGain(d int, v2 float64, from int) float64 {
	s, w := special.SinPower(d)
	logStep := make([]float64, len(s))
	for i := range s {
		logStep[i] = math.Log1p(simplexCos(d) * s[i])
	}
	dim := float64(d)
	sum, coef := 0.0, 1.0 // coef is the k-th coefficient over v²
	for k := 1; coef > 1e-18*sum || k <= from; k++ {
		if k >= from {
			mean := 0.0
			for i := range w {
				mean -= w[i] * math.Expm1(float64(k)*logStep[i])
			}
			sum += coef * mean
		}
		coef *= v2 / 2 * (dim + float64(k)) / ((dim/2 + float64(k)) * float64(k+1))
	}
	return sum
}
