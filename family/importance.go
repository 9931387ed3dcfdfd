package family

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Importance is the importance-weighted positive family with the Gaussian proposal ψ = N(0, LLᵀ) (DARK eq 2,
// Lemma 3.1), F = m, positive. With ω_i = L g_i, g_i ~ N(0, I),
//
//	φ_i(x) = m^{-1/2} (p/ψ)(ω_i)^{1/2} exp( ω_i·x - |x|²/2 ),  log(p/ψ)(ω) = log|det L| - (|ω|²-|g|²)/2
//
// It is unbiased for the softmax kernel whatever L. The zero value is Positive; Fit gives the optimal proposal
// Σ* = (I+2Λ)(I-2Λ)^{-1} of DARK Thm 3.2, which exists only if every eigenvalue of Λ is below 1/2.
type Importance struct {
	L dense.Matrix[float64] `json:"l,omitzero"` // d×d, invertible; empty: the identity
}

// Name is "importance".
func (Importance) Name() string { return "importance" }

func (f Importance) factor(dim int) (dense.Matrix[float64], error) {
	if f.L.IsEmpty() {
		return dense.Identity[float64](dim), nil
	}
	if err := checkSquare(f, "L", f.L, dim); err != nil {
		return f.L, err
	}
	if _, err := invert(f.L); err != nil {
		return f.L, paramError(f, "L is singular: the proposal has no density")
	}
	return f.L, nil
}

// Draws asks for N(0, I): the proposal is applied by the map.
func (f Importance) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if _, err := f.factor(dim); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Importance) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	l, err := f.factor(dim)
	if err != nil {
		return plan.Pair{}, err
	}
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	leaf := plan.Leaf{Fn: plan.Exp, Omega: omega[0], Mix: plan.Linear{Dense: plan.Transpose(l)}, Row: halfNorm(omega[0])}
	leaf.Bias = halfLogWeight(l, omega[0])
	return finish(kind, symmetric(leaf), dim), nil
}

// halfLogWeight is ½ log(p/ψ)(L g) for every row g: both sides of the map carry the square root of the weight.
func halfLogWeight(l dense.Matrix[float64], g coupling.Omega) []float64 {
	logDet := toMatLogDet(l)
	w := plan.Mul(g.Rows, plan.Transpose(l))
	out := make([]float64, g.Rows.Rows)
	for i := range out {
		out[i] = (logDet - (dense.Norm2(w.Row(i))-dense.Norm2(g.Rows.Row(i)))/2) / 2
	}
	return out
}

func toMatLogDet(l dense.Matrix[float64]) float64 {
	values, _ := eigSym(plan.Mul(l, plan.Transpose(l)))
	var s float64
	for _, v := range values {
		s += math.Log(v) / 2
	}
	return s
}

// Form: a Gaussian proposal with variances s_i along its axes is an OPRF per direction with ρ_i = 1/(2s_i-1), so
// the relative variance is expm1 Σ( logcosh(½ log ρ_i) + ρ_i v_i² ), infinite unless every s_i > ½.
func (f Importance) Form(_ kernel.Kind, x, y []float64) (theory.Form, error) {
	l, err := f.factor(len(x))
	if err != nil {
		return theory.Form{}, err
	}
	s, u := eigSym(plan.Mul(l, plan.Transpose(l)))
	rho, v := make([]float64, len(s)), make([]float64, len(s))
	for i := range s {
		if s[i] <= 0.5 {
			return theory.Uncoupled(len(x), math.Inf(1)), nil
		}
		rho[i] = 1 / (2*s[i] - 1)
		for k := range x {
			v[i] += u.At(k, i) * (x[k] + y[k])
		}
	}
	return directionalForm(rho, v), nil
}

// directionalForm is OPRF with its own ρ_i in each direction. If all are equal the coupled forms of OPRF hold.
func directionalForm(rho, v []float64) theory.Form {
	logRV := theory.LogRVAdaptive(rho, v)
	for _, r := range rho {
		if math.Abs(r-rho[0]) > 1e-12*rho[0] {
			return theory.Uncoupled(len(v), logRV)
		}
	}
	return theory.Simple(theory.Exponential, len(v), logRV, dense.Norm2(v))
}

// Fit gives the optimal Gaussian proposal for the pooled covariance Λ of centred queries and keys (DARK Thm 3.2).
func (f Importance) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	lam := pooled(s)
	values, _ := eigSym(lam)
	if top := values[len(values)-1]; top >= 0.5 {
		return nil, paramError(f, "the largest eigenvalue of the covariance is %.4g: the optimal proposal exists only below 1/2; "+
			"use the adaptive family, or a larger kernel scale", top)
	}
	return Importance{L: spectral(lam, func(v float64) float64 { return math.Sqrt((1 + 2*max(v, 0)) / (1 - 2*v)) })}, nil
}
