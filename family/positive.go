package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Positive is the family of positive random features (FAVOR+), F = m, positive:
//
//	φ_i(x) = m^{-1/2} exp( ω_i·x - |x|²/2 )
//
// CRT §2.2, SimRF eq 7, DARK eq 1. It is exact at x = -y.
type Positive struct{}

// Name is "positive".
func (Positive) Name() string { return "positive" }

// Draws asks for N(0, I).
func (f Positive) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Positive) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(positiveLeaf(omega[0])), dim), nil
}

func positiveLeaf(omega coupling.Omega) plan.Leaf {
	return plan.Leaf{Fn: plan.Exp, Omega: omega, Mix: plan.Scalar(1), Row: halfNorm(omega)}
}

// Form: relative variance e^{v²} - 1, exponential pairs (CRT §2.2, SimRF eq 11).
func (Positive) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	v := forms.PowersOfSum(x, 1, y)
	return forms.Simple(forms.Exponential, len(x), forms.LogRVPositive(v.Two), v), nil
}

// Hyperbolic is the family of hyperbolic positive features ("++"), F = 2m, positive:
//
//	φ(x) = (2m)^{-1/2} e^{-|x|²/2} ( e^{ω_1·x}, …, e^{ω_m·x}, e^{-ω_1·x}, …, e^{-ω_m·x} )
//
// HRF eq 3. It costs m projections for 2m features.
type Hyperbolic struct{}

// Name is "hyperbolic".
func (Hyperbolic) Name() string { return "hyperbolic" }

// Draws asks for N(0, I).
func (f Hyperbolic) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Hyperbolic) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(hyperbolicLeaf(omega[0])), dim), nil
}

func hyperbolicLeaf(omega coupling.Omega) plan.Leaf {
	row := halfNorm(omega)
	row.Const -= ln2 / 2
	return plan.Leaf{Fn: plan.ExpPM, Omega: omega, Mix: plan.Scalar(1), Row: row}
}

// Form: relative variance 2 sinh²(v²/2), hyperbolic pairs (HRF Lemma 2.2).
func (Hyperbolic) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	v := forms.PowersOfSum(x, 1, y)
	return forms.Simple(forms.Hyperbolic, len(x), forms.LogRVHyperbolic(v.Two), v), nil
}
