package family

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// Importance is the importance-weighted positive family with the Gaussian proposal ψ = N(0, LLᵀ) (DARK eq 2,
// Lemma 3.1), F = m, positive. With ω_i = L g_i, g_i ~ N(0, I),
//
//	φ_i(x) = m^{-1/2} (p/ψ)(ω_i)^{1/2} exp( ω_i·x - |x|²/2 ),  log(p/ψ)(ω) = log|det L| - (|ω|²-|g|²)/2
//
// It is unbiased for the softmax kernel whatever L. The zero value is Positive; Fit gives the optimal proposal
// Σ* = (I+2Λ)(I-2Λ)^{-1} of DARK Thm 3.2, Λ = E xxᵀ, which exists only if every eigenvalue of Λ is below 1/2.
type Importance struct {
	L dense.Matrix[float64] `json:"l,omitzero"` // d×d, invertible; empty: the identity
}

// Name is "importance".
func (Importance) Name() string { return "importance" }

// factor is L for inputs of dim columns, the identity if it is empty.
func (f Importance) factor(dim int) (dense.Matrix[float64], error) {
	l, _, err := f.factorDet(dim)
	return l, err
}

// factorDet returns L and log|det L|.
func (f Importance) factorDet(dim int) (l dense.Matrix[float64], det float64, err error) {
	if f.L.IsEmpty() {
		return dense.Identity[float64](dim), 0, nil
	}
	if err := checkSquare(f, "L", f.L, dim); err != nil {
		return f.L, 0, err
	}
	for i := range dim {
		if !dense.IsFinite(dense.Norm2(f.L.Row(i))) {
			return f.L, 0, paramError(f, "row %d of L is too large: LLᵀ is not finite", i)
		}
	}
	if det, err = logDet(f.L); err != nil {
		return f.L, 0, paramError(f, "L is singular: the proposal has no density")
	}
	return f.L, det, nil
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
	leaf := plan.Leaf{Fn: plan.Exp, Omega: omega[0], Mix: plan.Linear{Dense: plan.Transpose(l)},
		Row: halfNorm(omega[0])}
	leaf.Bias = halfLogWeight(l, omega[0])
	return finish(kind, symmetric(leaf), dim), nil
}

// halfLogWeight is ½ log(p/ψ)(L g) for every row g: each side of the map carries the square root of the weight. L must
// be invertible.
func halfLogWeight(l dense.Matrix[float64], g coupling.Omega) []float64 {
	det, _ := logDet(l)
	w := plan.Mul(g.Rows, plan.Transpose(l))
	out := make([]float64, g.Rows.Rows)
	for i := range out {
		out[i] = (det - (dense.Norm2(w.Row(i))-dense.Norm2(g.Rows.Row(i)))/2) / 2
	}
	return out
}

// Form: with v = x+y and G = 2LLᵀ - I the relative variance is expm1( 2 log|det L| - ½ log det G + vᵀG^{-1}v ),
// infinite unless G is positive definite.
func (f Importance) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	p, err := f.prepare(len(x))
	if err != nil {
		return forms.Form{}, err
	}
	return p.Form(kind, x, y)
}

// proposal is Importance with its matrices factorised. With Sg = LLᵀ and Q = 2I - Sg^{-1}, p²/ψ is a multiple of
// exp(-½ ωᵀQω) and the relative second moment R is a Gaussian integral:
//
//	log R = log|det L| - ½ log det Q + 2vᵀQ^{-1}v - |v|²
//
// G = 2Sg - I = SgQ commutes with Sg, so 2Q^{-1} - I = G^{-1}, which gives the form above without its cancellation.
// With variances s_i along the axes of the proposal it is OPRF per direction, ρ_i = 1/(2s_i-1).
type proposal struct {
	dim      int
	rho      float64               // if Sg is a multiple of I: its ρ, else 0
	rotation dense.Matrix[float64] // L up to its scale, then orthogonal; empty: the identity
	infinite bool
	logConst float64 // 2 log|det L| - ½ log det G
	chol     mat.Cholesky
}

// prepare factors the matrices of Form. Proposals that are a multiple of N(0, I) keep the coupled forms of OPRF.
func (f Importance) prepare(dim int) (*proposal, error) {
	l, det, err := f.factorDet(dim)
	if err != nil {
		return nil, err
	}
	p := &proposal{dim: dim, rho: 1}
	if f.L.IsEmpty() {
		return p, nil
	}
	var sg mat.Dense
	lm := toMat(l)
	sg.Mul(lm, lm.T())
	if s, ok := isotropic(&sg); ok {
		p.rho, p.infinite, p.rotation = 1/(2*s-1), s <= 0.5, l
		return p, nil
	}
	p.rho = 0
	g := mat.NewSymDense(dim, nil)
	for i := range dim {
		for j := i; j < dim; j++ {
			v := 2 * sg.At(i, j)
			if i == j {
				v--
			}
			g.SetSym(i, j, v)
		}
	}
	if !p.chol.Factorize(g) {
		p.infinite = true
		return p, nil
	}
	p.logConst = 2*det - p.chol.LogDet()/2
	// For a proposal near N(0, I) the two logarithms cancel to second order; the sum over axes does not.
	if p.logConst < 1e-2 {
		values, _, err := eigSym(fromMat(&sg))
		if err != nil {
			return nil, paramError(f, "LLᵀ: %v", err)
		}
		p.logConst = 0
		for _, s := range values {
			p.logConst += special.LogCosh(math.Log(2*s-1) / 2)
		}
	}
	return p, nil
}

// rotate turns v into the coordinates in which the rows are drawn: Lᵀv, rescaled to the length of v.
func (p *proposal) rotate(v []float64) []float64 {
	if p.rotation.IsEmpty() {
		return v
	}
	out := make([]float64, p.dim)
	for i, a := range v {
		for j, l := range p.rotation.Row(i) {
			out[j] += l * a
		}
	}
	if n := dense.Norm2(out); n > 0 {
		f := math.Sqrt(dense.Norm2(v) / n)
		for j := range out {
			out[j] *= f
		}
	}
	return out
}

// isotropic reports whether m = s·I to rounding.
func isotropic(m *mat.Dense) (s float64, ok bool) {
	d, _ := m.Dims()
	s = m.At(0, 0)
	for i := range d {
		for j := range d {
			want := 0.0
			if i == j {
				want = s
			}
			if math.Abs(m.At(i, j)-want) > 1e-12*s {
				return 0, false
			}
		}
	}
	return s, true
}

// Form implements theory.Estimator.
func (p *proposal) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := pairOf(p.dim, x, y); err != nil {
		return forms.Form{}, err
	}
	if p.infinite {
		return forms.Uncoupled(p.dim, math.Inf(1)), nil
	}
	v := make([]float64, p.dim)
	for i := range v {
		v[i] = x[i] + y[i]
	}
	if p.rho > 0 {
		drawn := forms.PowersOf(p.rotate(v))
		form := forms.Simple(forms.Exponential, p.dim, forms.LogRVOPRF(p.dim, p.rho, drawn.Two), drawn)
		form.Terms[0].Radial = p.rho != 1
		return form, nil
	}
	var w mat.VecDense
	if err := p.chol.SolveVecTo(&w, mat.NewVecDense(p.dim, v)); err != nil {
		if _, poor := err.(mat.Condition); !poor { // a poor condition only costs digits of a huge variance
			return forms.Form{}, err
		}
	}
	return forms.Uncoupled(p.dim, special.LogExpm1(p.logConst+dense.Dot(v, w.RawVector().Data))), nil
}

// directionalForm is OPRF with its own ρ_i in each direction. If all ρ_i are equal, the coupled forms of OPRF hold.
func directionalForm(rho, v []float64) forms.Form {
	logRV := forms.LogRVAdaptive(rho, v)
	for _, r := range rho {
		if math.Abs(r-rho[0]) > 1e-12*rho[0] {
			return forms.Uncoupled(len(v), logRV)
		}
	}
	form := forms.Simple(forms.Exponential, len(v), logRV, forms.PowersOf(v))
	form.Terms[0].Radial = rho[0] != 1
	return form
}

// Needs asks for covariances.
func (Importance) Needs() Options { return Options{Covariance: true} }

// Fit gives the optimal Gaussian proposal for the pooled second moment Λ of queries and keys: DARK Thm 3.2 assumes
// zero means, so Λ is taken about zero.
func (f Importance) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	lam := pooledSecond(s)
	values, _, err := eigSym(lam)
	if err != nil {
		return nil, statsError(f, "second moment: %v", err)
	}
	if top := values[len(values)-1]; top >= 0.5 {
		return nil, paramError(f, "the largest eigenvalue of the second moment is %.4g: the optimal proposal exists only below 1/2; "+
			"use the adaptive family, or a larger kernel scale", top)
	}
	l, err := spectral(lam, func(v float64) float64 { v = max(v, 0); return math.Sqrt((1 + 2*v) / (1 - 2*v)) })
	if err != nil {
		return nil, statsError(f, "second moment: %v", err)
	}
	return Importance{L: l}, nil
}

// pooledSecond is the second moment about zero of queries and keys together.
func pooledSecond(s *Stats) dense.Matrix[float64] {
	c := pooled(s)
	for _, side := range []*Moments{s.Query, s.Key} {
		w := float64(side.n) / float64(s.Query.n+s.Key.n)
		for i, a := range side.mean {
			row := c.Row(i)
			for j, b := range side.mean {
				row[j] += w * a * b
			}
		}
	}
	return c
}
