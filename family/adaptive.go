package family

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
	"github.com/randfeat/randfeat/theory/forms"
)

// Adaptive is the family fitted to the data without changing the kernel (docs/theory.md §2.18, beyond the papers),
// F = m, positive. Three exact rewritings of exp(x·y), then OPRF per direction:
//
//	re-embedding   x' = Ax, y” = A^{-T}y         (x'·y” = x·y)
//	key shift      y' = y” - c                   (the factor e^{x'·c} belongs to the query)
//	proposal       u = Uᵀx', w = Uᵀy', ρ_i in (0,1], a_i = (1-1/ρ_i)/8, B_i = √(1-4a_i)
//
//	φ1_f(x) = m^{-1/2} exp( x'·c + ¼Σ log(1-4a_i) + Σ a_i ω_fi² + Σ B_i ω_fi u_i - |x'|²/2 )
//	φ2_f(y) = m^{-1/2} exp(        ¼Σ log(1-4a_i) + Σ a_i ω_fi² + Σ B_i ω_fi w_i - |y'|²/2 )
//
// A direction of large variance l costs ½ log l in the exponent of the relative variance instead of l, so on
// anisotropic data the error falls by many orders of magnitude against OPRF. The zero value is Positive; Fit chooses
// A, C, U and Rho from means and covariances.
type Adaptive struct {
	A   dense.Matrix[float64] `json:"a,omitzero"`    // d×d, invertible; empty: the identity
	C   []float64             `json:"c,omitempty"`   // nil: zero
	U   dense.Matrix[float64] `json:"u,omitzero"`    // d×d, orthogonal, directions in columns; empty: the identity
	Rho []float64             `json:"rho,omitempty"` // nil: ones
}

// Name is "adaptive".
func (Adaptive) Name() string { return "adaptive" }

// resolved holds the parameters with defaults filled in.
type resolved struct {
	a, aInvT, ut  dense.Matrix[float64]
	c, gain, quad []float64 // quad is a_i, gain is B_i
	rho           []float64
	logD          float64 // ¼Σ log(1-4a_i)
}

func (f Adaptive) resolve(dim int) (resolved, error) {
	r := resolved{a: f.A, ut: f.U, c: f.C, rho: f.Rho}
	if r.a.IsEmpty() {
		r.a = dense.Identity[float64](dim)
	}
	if r.ut.IsEmpty() {
		r.ut = dense.Identity[float64](dim)
	}
	if err := checkSquare(f, "A", r.a, dim); err != nil {
		return r, err
	}
	if err := checkSquare(f, "U", r.ut, dim); err != nil {
		return r, err
	}
	r.aInvT = r.a
	if !f.A.IsEmpty() {
		inv, err := invert(r.a)
		if err != nil {
			return r, paramError(f, "A is singular: it must be invertible")
		}
		r.aInvT = plan.Transpose(inv)
	}
	if !f.U.IsEmpty() {
		r.ut = plan.Transpose(f.U)
		// Only an exactly orthogonal U keeps the kernel. The tolerance is 1e-4, so that a matrix which went through a
		// text file with five digits is not refused.
		gram := plan.Mul(r.ut, f.U)
		for i := range dim {
			for j, v := range gram.Row(i) {
				if i == j {
					v--
				}
				if !(math.Abs(v) <= 1e-4) {
					return r, paramError(f, "U is not orthogonal: columns %d and %d have inner product %.3g", i, j, gram.At(i, j))
				}
			}
		}
	}
	if r.c == nil {
		r.c = make([]float64, dim)
	}
	if r.rho == nil {
		r.rho = make([]float64, dim)
		for i := range r.rho {
			r.rho[i] = 1
		}
	}
	if len(r.c) != dim || len(r.rho) != dim {
		return r, paramError(f, "c has %d and rho %d entries, the inputs %d columns", len(r.c), len(r.rho), dim)
	}
	r.gain, r.quad = make([]float64, dim), make([]float64, dim)
	for i, rho := range r.rho {
		if !(rho > 0 && rho <= 1) || !dense.IsFinite(r.c[i]) {
			return r, paramError(f, "rho %d is %v, want 0 < rho ≤ 1; c %d is %v", i, rho, i, r.c[i])
		}
		r.quad[i] = (1 - 1/rho) / 8
		r.gain[i] = math.Sqrt(1 - 4*r.quad[i])
		r.logD += math.Log1p(-4*r.quad[i]) / 4
	}
	return r, nil
}

// Draws asks for N(0, I).
func (f Adaptive) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkSizes(f, kind, dim, m); err != nil {
		return nil, err
	}
	if _, err := f.resolve(dim); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f Adaptive) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	r, err := f.resolve(dim)
	if err != nil {
		return plan.Pair{}, err
	}
	mix := r.ut.Clone() // diag(B) Uᵀ
	for i := range dim {
		for j := range mix.Row(i) {
			mix.Row(i)[j] *= r.gain[i]
		}
	}
	leaf := plan.Leaf{Fn: plan.Exp, Omega: omega[0], Mix: plan.Linear{Dense: mix}, Row: halfNorm(omega[0])}
	leaf.Row.Const += r.logD
	leaf.Bias = make([]float64, omega[0].Rows.Rows)
	for i := range leaf.Bias {
		for k, w := range omega[0].Rows.Row(i) {
			leaf.Bias[i] += r.quad[k] * w * w
		}
	}
	q, k := leaf, leaf
	q.Lin, q.Row.Lin = plan.Linear{Dense: r.a}, r.c
	k.Lin, k.Shift = plan.Linear{Dense: r.aInvT}, r.c
	return finish(kind, plan.Pair{Query: plan.Single(q), Key: plan.Single(k)}, dim), nil
}

// Form: relative variance expm1 Σ( logcosh(½ log ρ_i) + ρ_i v_i² ), v = Uᵀ(x'+y').
func (f Adaptive) Form(kind kernel.Kind, x, y []float64) (theory.Form, error) {
	r, err := f.resolve(len(x))
	if err != nil {
		return theory.Form{}, err
	}
	return r.Form(kind, x, y)
}

// Form implements theory.Estimator.
func (r resolved) Form(_ kernel.Kind, x, y []float64) (theory.Form, error) {
	d := len(r.c)
	if err := pairOf(d, x, y); err != nil {
		return theory.Form{}, err
	}
	sum, v := make([]float64, d), make([]float64, d)
	for i := range sum {
		sum[i] = dense.Dot(r.a.Row(i), x) + dense.Dot(r.aInvT.Row(i), y) - r.c[i]
	}
	plan.Linear{Dense: r.ut}.Apply(v, sum)
	return directionalForm(r.rho, v), nil
}

// Needs asks for covariances.
func (Adaptive) Needs() Options { return Options{Covariance: true} }

// Fit matches covariances (A = P^{1/2}), centres the sum (c = A·mean x + A^{-T}·mean y) and sets ρ_i in the
// eigenbasis of E[vvᵀ]. If queries or keys do not vary there is nothing to match and A is the identity.
func (f Adaptive) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	cx, cy := s.Query.Covariance(), s.Key.Covariance()
	a := dense.Identity[float64](s.Query.Dim())
	inv := a
	if !vanishes(cx) && !vanishes(cy) {
		p, _, err := match(ridged(cx, fitRidge), ridged(cy, fitRidge))
		if err == nil {
			a, err = spectral(p, sqrtClamped)
		}
		if err == nil {
			inv, err = invert(a)
		}
		if err != nil {
			return nil, statsError(f, "matching the covariances: %v", err)
		}
	}
	invT := plan.Transpose(inv)
	c := make([]float64, s.Query.Dim())
	for i := range c {
		c[i] = dense.Dot(a.Row(i), s.Query.mean) + dense.Dot(invT.Row(i), s.Key.mean)
		if !dense.IsFinite(c[i]) {
			return nil, statsError(f, "the centre of the matched data is not finite")
		}
	}
	spread := plan.Mul(a, plan.Mul(cx, plan.Transpose(a)))
	for i, v := range plan.Mul(invT, plan.Mul(cy, inv)).Data {
		spread.Data[i] += v
	}
	values, u, err := eigSym(spread)
	if err != nil {
		return nil, statsError(f, "spread of the matched data: %v", err)
	}
	return Adaptive{A: a, C: c, U: u, Rho: AdaptiveRho(values)}, nil
}

// AdaptiveRho is ρ_i = 2/(√((2l_i+1)²+8l_i) + 2l_i + 1), the optimal ρ of OPRF in one dimension with |v|² = l_i.
func AdaptiveRho(l []float64) []float64 {
	rho := make([]float64, len(l))
	for i, v := range l {
		rho[i] = forms.RhoStar(1, max(v, 0))
	}
	return rho
}
