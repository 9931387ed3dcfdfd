package family

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// Residual is the low-order-exact family (docs/theory.md §2.19, beyond the papers), F = 1 + d + m, signed:
//
//	φ(x) = ( 1, x, m^{-1/2} g(ω_i, x) ),  g(ω,x) = exp(ω·x - |x|²/2) - 1 - ω·x
//
// E g(ω,x) g(ω,y) = e^{x·y} - 1 - x·y by Hermite orthogonality, so the terms of degree 0 and 1 are exact. The family is
// very accurate for logits below about 1 and useless for large ones.
type Residual struct {
	// L is the factor of a Gaussian proposal, as in Importance; empty means the identity.
	L dense.Matrix[float64] `json:"l,omitzero"`
	// Shrink in [0,1] multiplies the random part of the estimate by 1-Shrink, which trades bias for variance. 1 is
	// first-order linear attention.
	Shrink float64 `json:"shrink,omitempty"`
}

// Name is "residual".
func (Residual) Name() string { return "residual" }

func (f Residual) validate(dim int) error {
	if !(f.Shrink >= 0 && f.Shrink <= 1) {
		return paramError(f, "shrink = %v, want 0 ≤ shrink ≤ 1", f.Shrink)
	}
	if _, err := (Importance{L: f.L}).factor(dim); err != nil {
		return paramError(f, "proposal factor: %v", err)
	}
	return nil
}

// Draws asks for N(0, I).
func (f Residual) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(dim); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Residual) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(dim); err != nil {
		return plan.Pair{}, err
	}
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	leaf := plan.Leaf{Fn: plan.Residual, Omega: omega[0], Mix: plan.Scalar(1), Row: plan.Norm2(-0.5)}
	if f.L.IsEmpty() {
		leaf.Bias = make([]float64, omega[0].Rows.Rows)
	} else {
		leaf.Mix = plan.Linear{Dense: plan.Transpose(f.L)}
		leaf.Bias = halfLogWeight(f.L, omega[0])
	}
	scale := rootM(omega[0]) + math.Log(1-f.Shrink)/2
	for i := range leaf.Bias {
		leaf.Bias[i] += scale
	}
	return finish(kind, symmetric(leaf), dim), nil
}

// Form: the variance of g(ω,x) g(ω,y) by Gaussian tilting, for the plain proposal; unknown for another.
func (f Residual) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := f.validate(len(x)); err != nil {
		return forms.Form{}, err
	}
	if !f.L.IsEmpty() {
		return forms.Form{}, forms.NoForm("residual family with a proposal")
	}
	xy := dense.Dot(x, y)
	logRV, err := forms.LogRVResidual(dense.Norm2(x), dense.Norm2(y), xy)
	if err != nil || f.Shrink == 0 {
		form := forms.Uncoupled(len(x), logRV)
		form.LogMass = residualMass(x, y)
		return form, err
	}
	// Mean 1 + xy + (1-s)(e^{xy} - 1 - xy) = (1-s)e^{xy} + s(1+xy), variance times (1-s)².
	logKeep := math.Log(1 - f.Shrink)
	mean := special.SumSigned(special.Signed{Sign: 1, Log: logKeep + xy}, special.SignedOf(f.Shrink*(1+xy)))
	if mean.Sign <= 0 {
		return forms.Form{}, forms.NoForm("the shrunk residual family where its mean is not positive")
	}
	ratio := mean.Log - xy
	form := forms.Uncoupled(len(x), logRV+2*logKeep-2*ratio)
	form.LogRatio, form.LogMass = ratio, residualMass(x, y)-ratio
	return form, nil
}

// residualMass bounds log(1 + Σ|x_l y_l| + E|g(ω,x) g(ω,y)|) relative to the kernel, by the Cauchy–Schwarz inequality.
func residualMass(x, y []float64) float64 {
	low := 1.0
	for l, v := range x {
		low += math.Abs(v * y[l])
	}
	rest := (special.LogExpm1(dense.Norm2(x)) + special.LogExpm1(dense.Norm2(y))) / 2 // E g² = e^{|x|²} - 1 - |x|²
	return special.LogSumExp(math.Log(low), rest) - dense.Dot(x, y)
}
