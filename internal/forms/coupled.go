package forms

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/special"
)

// Shape is the dependence of an estimator on a projection, which decides the pair
// covariance.
type Shape int

const (
	// Exponential: positive, OPRF, DARK, and every GERF with s = +1; t is v².
	Exponential Shape = iota
	// Trigonometric: trig and every GERF with s = −1; t is z².
	Trigonometric
	// Hyperbolic: the "++" map; t is v².
	Hyperbolic
)

// String is the name of the shape.
func (s Shape) String() string {
	switch s {
	case Exponential:
		return "exponential"
	case Trigonometric:
		return "trigonometric"
	case Hyperbolic:
		return "hyperbolic"
	}
	return fmt.Sprintf("Shape(%d)", int(s))
}

// pairForm is the closed form of one pair law: a file for each, orthogonal.go, simplex.go and couplednorms.go.
type pairForm interface {
	// kappa is the relative covariance of two projections of one block, for d ≥ 2 and t > 0.
	kappa(shape Shape, d int, t float64) special.Signed
}

// jointForm is a pairForm of pairs that are all alike.
type jointForm interface {
	// jointMSE returns the log relative error of m projections of the plain map of the shape. ok is false where its two
	// parts, variance and covariance, do not cancel and need not be expanded together.
	jointMSE(shape Shape, d, m int, t float64) (logMSE float64, ok bool)
}

// pairForms are the closed forms by the pair law of two rows. Independent rows have no covariance and need none.
func pairForms() map[coupling.PairKind]pairForm {
	return map[coupling.PairKind]pairForm{
		coupling.PairIndependent: nil,
		coupling.PairOrthogonal:  orthogonalPairs{},
		coupling.PairSimplex:     simplexPairs{},
		coupling.PairCoupled:     coupledPairs{},
	}
}

// PairFraction returns pf, the number of ordered pairs of distinct projections that
// share a block, over m². With m = qd + r, 0 ≤ r < d:
//
//	pf = ( q d(d−1) + r(r−1) ) / m²,
//
// which is (m−1)/m for m ≤ d. It is 0 for m < 1 or d < 1.
func PairFraction(m, d int) float64 {
	return blockPairs(m, d) / float64(max(m, 1))
}

// blockPairs is m·pf, the mean number of block mates of a projection.
func blockPairs(m, d int) float64 {
	if m < 1 || d < 1 {
		return 0
	}
	q, r, n := float64(m/d), float64(m%d), float64(d)
	return (q*n*(n-1) + r*(r-1)) / float64(m)
}

// Kappa returns the relative covariance of two projections of one block, as a sign
// and log|kappa|:
//
//	Exponential    e^{−v²} rho − 1    ≤ 0
//	Trigonometric  e^{z²} rho' − 1    either sign
//	Hyperbolic     e^{−v²} rho″ − 1  either sign
//
// with the conformities of this package. For GERF it does not depend on A (derived,
// docs/theory.md §5.2), so a coupling gains the same absolute error for PRF and OPRF.
// With coupled norms it is the covariance of two partners, and only of plain features.
// Sign 0 means no covariance: independent projections, or t = 0. With d = 1 no
// block holds a pair and the error is ErrNoClosedForm.
func Kappa(shape Shape, law coupling.PairKind, d int, t float64) (sign int, logAbs float64, err error) {
	form, err := checkPair(shape, law, d, t)
	switch {
	case err != nil:
		return 0, math.NaN(), err
	case form == nil || t == 0:
		return 0, math.Inf(-1), nil
	case d == 1:
		return 0, math.NaN(), &NoClosedFormError{
			fmt.Sprintf("the covariance of %v pairs in dimension 1: no block holds a pair", law)}
	}
	k := form.kappa(shape, d, t)
	return k.Sign, k.Log, nil
}

// checkPair checks the arguments and returns the closed form of the pair law.
func checkPair(shape Shape, law coupling.PairKind, d int, t float64) (pairForm, error) {
	form, ok := pairForms()[law]
	switch {
	case shape < Exponential || shape > Hyperbolic:
		return nil, DomainError("shape", shape, "a known Shape")
	case !ok:
		return nil, DomainError("law", law, "a pair law with a closed form")
	case d < 1:
		return nil, DomainError("d", d, "d ≥ 1")
	case !(t >= 0) || math.IsInf(t, 1):
		return nil, DomainError("t", t, "0 ≤ t < ∞")
	}
	return form, nil
}

// LogRelMSE returns the log relative mean squared error of m coupled projections,
//
//	log( rv/m + pf(m,d) kappa(t) ),
//
// SimRF Thm 3.2 with partial and repeated blocks (docs/theory.md §5.2). logRV is the log
// relative variance of one projection of the map used, and t is v² or z² according
// to shape. Where rv and kappa nearly cancel (trigonometric and hyperbolic features
// with m = d and small t) the combination is expanded jointly. logRV = +Inf gives
// +Inf. ErrDomain names logRV if it is too small to belong to the shape.
func LogRelMSE(shape Shape, law coupling.PairKind, d, m int, logRV, t float64) (float64, error) {
	form, err := checkPair(shape, law, d, t)
	if err != nil {
		return math.NaN(), err
	}
	if m < 1 {
		return math.NaN(), DomainError("m", m, "m ≥ 1")
	}
	if math.IsNaN(logRV) {
		return math.NaN(), DomainError("logRV", logRV, "a log relative variance")
	}
	if c, ok := form.(coupledPairs); ok {
		return c.logMSE(shape, d, m, logRV, t)
	}
	iid := logRV - math.Log(float64(m))
	if form == nil || d == 1 || m == 1 || t == 0 || math.IsInf(logRV, 1) || kappaIsNegligible(shape, d, logRV, t) {
		return iid, nil
	}
	if base, ok := form.(jointForm).jointMSE(shape, d, m, t); ok {
		// rv = rv₀ + (rv − rv₀), where rv₀ of the plain map is part of base.
		if diff := logRV - plainRV(shape, t); math.Abs(diff) < 0.05 {
			return base + math.Log1p(math.Exp(iid-diff-base)*math.Expm1(diff)), nil
		}
	}
	k := form.kappa(shape, d, t)
	ratio := float64(k.Sign) * blockPairs(m, d) * math.Exp(k.Log-logRV)
	if !(ratio > -1) {
		return math.NaN(), DomainError("logRV", logRV, fmt.Sprintf("a variance that %v pairs can have at t = %v", law,
			t))
	}
	return iid + math.Log1p(ratio), nil
}

// plainRV is the log relative variance of the plain map of a shape.
func plainRV(shape Shape, t float64) float64 {
	if shape == Exponential {
		return LogRVPositive(t)
	}
	return logCoshMinus1(t)
}

// kappaIsNegligible spares the evaluation of kappa far out. For exponential shapes
// |kappa| ≤ 1. For trigonometric ones with z² > 1000 and d > z²/20 the modulus of rho'
// is below e^{−z²/8} (Laguerre bound e^{−z²/4} for even d), so kappa is below e^{−100}
// of rv; for z² > 1e7 rho' is at most 3 z^{−6}, below rounding.
func kappaIsNegligible(shape Shape, d int, logRV, t float64) bool {
	switch shape {
	case Exponential:
		return logRV > 80
	case Trigonometric:
		return t > 1000 && logRV > 0.98*t && (t > 1e7 || float64(d) > t/20)
	}
	return false
}
