package coupling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// String is the law with its parameter, for messages.
func (l Law) String() string {
	if l.Kind == Normal || l.Kind == Cauchy {
		return l.Kind.String()
	}
	return fmt.Sprintf("%v(%g)", l.Kind, l.Param)
}

// Validate reports a parameter outside the domain of the law: a radius that is not positive, λ < 0, p outside
// (0, 1], degrees of freedom that are not positive, or any of them not finite. λ = 0 and p = 1 are the degenerate laws
// "all zeros". An unknown kind is ErrLaw.
func (l Law) Validate() error {
	finite := dense.IsFinite(l.Param)
	switch l.Kind {
	case Normal, Cauchy:
		return nil
	case Student:
		if !finite || l.Param <= 0 {
			return fmt.Errorf("student law: degrees of freedom (Param) are %v, want a finite number > 0", l.Param)
		}
	case Sphere:
		if !finite || l.Param <= 0 {
			return fmt.Errorf("sphere law: radius (Param) is %v, want a finite number > 0", l.Param)
		}
	case Poisson:
		if !finite || l.Param < 0 {
			return fmt.Errorf("poisson law: λ (Param) is %v, want a finite number ≥ 0", l.Param)
		}
	case Geometric:
		if !finite || l.Param <= 0 || l.Param > 1 {
			return fmt.Errorf("geometric law: p (Param) is %v, want 0 < p ≤ 1", l.Param)
		}
	default:
		return fmt.Errorf("%v: %w", l.Kind, ErrLaw)
	}
	return nil
}

// The laws couplings are defined for. Functions, so that no caller can change a shared slice.
func allLaws() []LawKind         { return []LawKind{Normal, Sphere, Poisson, Geometric, Student, Cauchy} }
func directionalLaws() []LawKind { return []LawKind{Normal, Sphere, Student} }
func quantileLaws() []LawKind    { return []LawKind{Normal, Poisson, Geometric, Cauchy} }

// validator is implemented by couplings that have fields.
type validator interface{ validate() error }

// valid checks the fields of a coupling; an error wraps ErrParam.
func valid(c Coupling) error {
	if v, ok := c.(validator); ok {
		if err := v.validate(); err != nil {
			return fmt.Errorf("%w: %w", err, ErrParam)
		}
	}
	return nil
}

// checkSample holds the checks common to all Sample methods.
func checkSample(c Coupling, m, dim int, l Law, laws []LawKind) error {
	if m < 1 || dim < 1 {
		return fmt.Errorf("coupling %s: m = %d, dim = %d: %w", c.Name(), m, dim, ErrSize)
	}
	if err := valid(c); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("coupling %s: %w", c.Name(), err)
	}
	if !slices.Contains(laws, l.Kind) {
		return fmt.Errorf("coupling %s with %v marginals: %w", c.Name(), l, ErrLaw)
	}
	return nil
}

// norm draws the length of one row whose direction is uniform in dimension dim.
func (l Law) norm(dim int, src rand.Source) float64 {
	switch l.Kind {
	case Sphere:
		return l.Param
	case Student:
		return rng.Chi(dim, src) * l.widen(src)
	}
	return rng.Chi(dim, src)
}

// widen draws the factor √(ν/χ²_ν) that turns an N(0, I) vector into a t vector with ν degrees of freedom. All
// coordinates share it, so the first coordinates of a longer t vector are a t vector with the same degrees of freedom:
// padding is allowed.
func (l Law) widen(src rand.Source) float64 {
	for {
		// Zero has positive probability in floating point where ν is small.
		if g := (distuv.Gamma{Alpha: l.Param / 2, Beta: 0.5, Src: src}).Rand(); g > 0 {
			return math.Sqrt(l.Param / g)
		}
	}
}

// norms draws the lengths of count rows.
func (l Law) norms(count, dim int, src rand.Source) []float64 {
	c := make([]float64, count)
	for i := range c {
		switch {
		case !l.coupled || l.Kind == Sphere:
			c[i] = l.norm(dim, src)
			continue
		case i%2 == 0:
			u := rng.Open(src) // the pair shares one draw: a long row beside a short one
			c[i] = chiQuantile(dim, u)
			if i+1 < count {
				c[i+1] = chiQuantile(dim, 1-u)
			}
		}
		if l.Kind == Student {
			c[i] *= l.widen(src)
		}
	}
	return c
}

// chiQuantile is the length of an N(0, I_d) row that is exceeded with probability u.
func chiQuantile(d int, u float64) float64 {
	return math.Sqrt(2 * mathext.GammaIncRegCompInv(float64(d)/2, u))
}

// quantile is the inverse distribution function of one coordinate, for 0 < u < 1. The laws with independent
// coordinates have one: Normal, Poisson, Geometric and Cauchy.
func (l Law) quantile(u float64) float64 {
	switch l.Kind {
	case Normal:
		return mathext.NormalQuantile(u)
	case Poisson:
		return poissonQuantile(u, l.Param)
	case Geometric:
		return geometricQuantile(u, l.Param)
	case Cauchy:
		return math.Tan(math.Pi * (u - 0.5))
	}
	panic("coupling: no quantile function for " + l.Kind.String())
}

// geometricQuantile is floor(log(1−u)/log(1−p)), the inverse of P(k) = p(1−p)^k, k ≥ 0 (docs/theory.md §2.6).
func geometricQuantile(u, p float64) float64 {
	if p == 1 {
		return 0
	}
	return math.Floor(math.Log1p(-u) / math.Log1p(-p))
}

// poissonQuantile is the least k with P(X ≤ k) ≥ u for X ~ Poisson(λ).
//
// It starts from the Cornish–Fisher expansion, evaluates the distribution function there by the incomplete gamma
// function P(X ≤ k) = Q(k+1, λ), and walks the few remaining steps. (The rejection sampler of gonum's
// distuv.Poisson loses part of the mass at k = 0 for λ ≥ 10, so it is not used even for iid draws.)
func poissonQuantile(u, lambda float64) float64 {
	if lambda == 0 {
		return 0
	}
	if lambda < 10 {
		return poissonFromZero(u, lambda)
	}
	z := mathext.NormalQuantile(u)
	k := math.Max(0, math.Floor(lambda+z*math.Sqrt(lambda)+(z*z-1)/6))
	if lambda > 1e12 {
		// The error of the expansion is O(λ^{-1/2}) counts; beyond 2^53 counts are not even representable.
		return k
	}
	// Above the median compare upper tails, which keep their relative accuracy there.
	below := func(k float64) bool { return mathext.GammaIncRegComp(k+1, lambda) < u }
	if u > 0.5 {
		below = func(k float64) bool { return mathext.GammaIncReg(k+1, lambda) > 1-u }
	}
	for below(k) {
		k++
	}
	for k > 0 && !below(k-1) {
		k--
	}
	return k
}

// poissonFromZero sums the probabilities from 0 upwards.
func poissonFromZero(u, lambda float64) float64 {
	p := math.Exp(-lambda)
	sum, k := p, 0.0
	// The sum may stop growing a few ulps below u ≈ 1: then p has underflowed relative to the sum.
	for sum < u && p > 1e-18 {
		k++
		p *= lambda / k
		sum += p
	}
	return k
}
