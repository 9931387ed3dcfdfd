package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
	"github.com/randfeat/randfeat/theory/forms"
)

// Trig is the family of random Fourier features, F = 2m, signed:
//
//	φ(x) = m^{-1/2} e^{|x|²/2} ( sin ω_1·x, …, sin ω_m·x, cos ω_1·x, …, cos ω_m·x )
//
// so that φ(x)·φ(y) = e^{(|x|²+|y|²)/2} mean_i cos ω_i·(x-y). CRT §2.2, HRF eq 2, ORF eq 3.
// It is exact at x = y. With the Bessel kernel the projections lie on the unit sphere (ORF′).
type Trig struct{}

// Name is "trig".
func (Trig) Name() string { return "trig" }

// Draws asks for N(0, I), or for unit vectors with the Bessel kernel.
func (f Trig) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if kind == kernel.Bessel {
		d, err := normalDraw(f, kernel.Gaussian, dim, m)
		if err == nil {
			d[0].Law = coupling.Law{Kind: coupling.Sphere, Param: 1}
		}
		return d, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Trig) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(trigLeaf(omega[0])), dim), nil
}

// trigLeaf is the softmax form.
func trigLeaf(omega coupling.Omega) plan.Leaf {
	row := plan.Norm2(0.5)
	row.Const = rootM(omega)
	return plan.Leaf{Fn: plan.SinCos, Omega: omega, MixIm: plan.Scalar(1), Row: row}
}

// Form: relative variance 2 sinh²(z²/2), trigonometric pairs (HRF Lemma 2.2).
func (Trig) Form(_ kernel.Kind, x, y []float64) (theory.Form, error) {
	z := theory.PowersOfSum(x, -1, y)
	form := theory.Simple(forms.Trigonometric, len(x), forms.LogRVTrig(z.Two), z)
	form.Terms[0].Cosine = true
	return form, nil
}
