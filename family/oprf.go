package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// OPRF is the family of optimal positive features (FAVOR++), F = m, positive:
//
//	φ_i(x) = m^{-1/2} (1-4A)^{d/4} exp( A|ω_i|² + √(1-4A) ω_i·x - |x|²/2 )
//
// CRT Thm 3.3. It is the positive map under importance sampling from N(0, (1-4A) I): A < 0 draws wider than the
// kernel needs and down-weights the tails. The zero value is Positive; Fit chooses A.
type OPRF struct {
	A float64 `json:"a"` // < 1/8
}

// Name is "oprf".
func (OPRF) Name() string { return "oprf" }

func (f OPRF) gerf() GERF { return GERF{A: Complex(complex(f.A, 0)), S: 1} }

func (f OPRF) validate() error {
	if !(f.A < 0.125) || f.A-f.A != 0 {
		return paramError(f, "A = %v: the variance is infinite unless A < 1/8", f.A)
	}
	return nil
}

// Draws asks for N(0, I).
func (f OPRF) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f OPRF) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(); err != nil {
		return plan.Pair{}, err
	}
	return f.gerf().Lower(kind, dim, omega)
}

// Form: relative variance expm1( d logcosh(½ log ρ) + ρv² ), ρ = 1/(1-8A) (CRT Thms 3.2, 3.3).
func (f OPRF) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := f.validate(); err != nil {
		return forms.Form{}, err
	}
	v := forms.PowersOfSum(x, 1, y)
	form := forms.Simple(forms.Exponential, len(x), forms.LogRVOPRF(len(x), 1/(1-8*f.A), v.Two), v)
	form.Terms[0].Radial = f.A != 0
	return form, nil
}

// Needs asks for no costly statistics.
func (OPRF) Needs() Options { return Options{} }

// Fit sets A = (1-1/ρ*)/8 with ρ* at the mean of |x+y|² (CRT Thm 3.3, eq 8; eq 7 as corrected in eq 22).
func (OPRF) Fit(s *Stats) (Family, error) {
	if err := s.ready(OPRF{}); err != nil {
		return nil, err
	}
	return OPRF{A: forms.AStar(s.Query.Dim(), s.MeanNorm2(+1))}, nil
}
