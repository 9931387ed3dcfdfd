package family

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Trig is the family of random Fourier features, F = 2m, signed:
//
//	φ(x) = m^{-1/2} e^{|x|²/2} ( sin ω_1·x, …, sin ω_m·x, cos ω_1·x, …, cos ω_m·x )
//
// so that φ(x)·φ(y) = e^{(|x|²+|y|²)/2} mean_i cos ω_i·(x-y). CRT §2.2, HRF eq 2, ORF eq 3. It is exact at x = y. With
// the Bessel kernel the projections lie on the unit sphere (ORF′). With a Matérn or Laplace kernel they follow its
// spectrum, a multivariate t law or Cauchy coordinates (docs/theory.md §1.5).
type Trig struct{}

// Name is "trig".
func (Trig) Name() string { return "trig" }

// Draws asks for the spectral law of the kernel: N(0, I) for the Gaussian and softmax kernels.
func (f Trig) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	d, err := normalDraw(f, kernel.Gaussian, dim, m)
	if err != nil {
		return nil, err
	}
	d[0].Law = spectrum(kind)
	return d, nil
}

// spectrum is the law of ω with E cos ω·z = κ(z). For the softmax kernel κ(z) is the Gaussian kernel.
func spectrum(kind kernel.Kind) coupling.Law {
	switch n := kind.Matern(); {
	case kind == kernel.Bessel:
		return coupling.Law{Kind: coupling.Sphere, Param: 1}
	case kind == kernel.Laplace:
		return coupling.Law{Kind: coupling.Cauchy}
	case n > 0:
		return coupling.Law{Kind: coupling.Student, Param: float64(n)}
	}
	return coupling.Law{}
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

// Form: relative variance 2 sinh²(z²/2), trigonometric pairs (HRF Lemma 2.2). Laplace and Matérn kernels have a form
// for independent rows only.
func (Trig) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if kind == kernel.Laplace || kind.Matern() > 0 {
		return spectralForm(kind, x, y), nil
	}
	z := forms.PowersOfSum(x, -1, y)
	form := forms.Simple(forms.Trigonometric, len(x), forms.LogRVTrig(z.Two), z)
	form.Terms[0].Cosine = true
	return form, nil
}

// spectralForm is the form of cos ω·(x−y) under a t or Cauchy law, relative to κ².
func spectralForm(kind kernel.Kind, x, y []float64) forms.Form {
	log := kernel.Kernel{Kind: kind}.Log(x, y)
	z := forms.PowersOfSum(x, -1, y)
	r, freedom := math.Sqrt(z.Two), kind.Matern()
	if kind == kernel.Laplace {
		r, freedom = -log, 1
	}
	_, a := kind.Decay(r)
	form := forms.Uncoupled(len(x), forms.LogVarMatern(freedom, a)-2*log)
	form.Terms[0].Shape, form.Terms[0].V, form.Terms[0].Cosine = forms.Trigonometric, z, true
	form.LogMass = -log // features of modulus 1 estimate κ
	return form
}
