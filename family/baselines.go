package family

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// LFK is the learned feature kernel (DARK §6): the positive map with a trained matrix W in place of the projections.
// F is the number of rows of W, positive, no unbiasedness.
type LFK struct {
	W dense.Matrix[float64] `json:"w,omitzero"` // F×d
}

// Name is "lfk".
func (LFK) Name() string { return "lfk" }

// Draws asks for nothing: W is given and decides the number of features, m is not used.
func (f LFK) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if m >= 0 {
		m = 1
	}
	if err := checkSizes(f, kind, dim, m); err != nil {
		return nil, err
	}
	if f.W.Rows < 1 || f.W.Cols != dim {
		return nil, paramError(f, "W is %d×%d, want at least one row of %d columns, as the inputs have", f.W.Rows, f.W.Cols, dim)
	}
	return nil, nil
}

// Lower implements Family.
func (f LFK) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega); err != nil {
		return plan.Pair{}, err
	}
	w := coupling.Omega{Rows: f.W}
	if err := need(f, []coupling.Omega{w}, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(positiveLeaf(w)), dim), nil
}

// Form returns an error: the map estimates no given kernel.
func (LFK) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("learned feature kernel (not an estimator)")
}

// ReLU is the Performer-ReLU baseline, F = m, nonnegative: φ_i(x) = m^{-1/2} max(0, ω_i·x) + Eps. It estimates neither
// the Gaussian nor the softmax kernel; for Eps = 0 its mean is |x||y|(sin θ + (π-θ)cos θ)/(2π).
type ReLU struct {
	Eps  float64 `json:"eps,omitempty"`  // 0 means 1e-3
	Pure bool    `json:"pure,omitempty"` // no Eps at all
}

// Name is "relu".
func (ReLU) Name() string { return "relu" }

// eps is the effective Eps.
func (f ReLU) eps() float64 {
	switch {
	case f.Pure:
		return 0
	case f.Eps == 0:
		return 1e-3
	}
	return f.Eps
}

// Draws asks for N(0, I).
func (f ReLU) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if !(f.Eps >= 0) || !dense.IsFinite(f.Eps) {
		return nil, paramError(f, "eps = %v, want a number ≥ 0", f.Eps)
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family; the map is the same for every kernel.
func (f ReLU) Lower(_ kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	l := plan.Leaf{Fn: plan.ReLU, Omega: omega[0], Mix: plan.Scalar(1), Eps: f.eps()}
	l.Row.Const = rootM(omega[0])
	return symmetric(l), nil
}

// Form returns an error: the map estimates another kernel.
func (ReLU) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("ReLU baseline (estimates the arc-cosine kernel)")
}

// ELU is the linear-transformer baseline, F = d, positive, no projection: φ_l(x) = x_l + 1 for x_l > 0, else e^{x_l}.
type ELU struct{}

// Name is "elu".
func (ELU) Name() string { return "elu" }

// Draws asks for nothing; m is not used.
func (f ELU) Draws(kind kernel.Kind, dim, _ int) ([]Draw, error) {
	return nil, checkSizes(f, kind, dim, 1)
}

// Lower implements Family; the map is the same for every kernel.
func (f ELU) Lower(_ kernel.Kind, _ int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega); err != nil {
		return plan.Pair{}, err
	}
	return symmetric(plan.Leaf{Fn: plan.ELU}), nil
}

// Form returns an error: the map estimates no given kernel.
func (ELU) Form(kernel.Kind, []float64, []float64) (forms.Form, error) {
	return forms.Form{}, forms.NoForm("ELU baseline (not an estimator)")
}
