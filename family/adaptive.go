package family

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Adaptive is the family fitted to the data without changing the kernel (docs/theory.md §2.18, beyond the papers),
// F = m, positive. Three exact rewritings of exp(x·y), then OPRF per direction:
//
//	re-embedding   x' = Ax, y' = A^{-T}y            (x'·y' = x·y)
//	shifts         u = x' - q, w = y' - k           (x'·y' = u·w + x'·k + y'·q - q·k), q + k = c
//	proposal       ρ_i in (0,1] in direction U_i, a_i = (1-1/ρ_i)/8, B_i = √(1-4a_i)
//
//	φ1_f(x) = m^{-1/2} exp( ½q·k + u·k + ¼Σ log(1-4a_i) + Σ a_i ω_fi² + Σ B_i ω_fi (Uᵀu)_i - |u|²/2 )
//	φ2_f(y) = m^{-1/2} exp( ½q·k + w·q + ¼Σ log(1-4a_i) + Σ a_i ω_fi² + Σ B_i ω_fi (Uᵀw)_i - |w|²/2 )
//
// The error depends on c alone, but each side must lose its own mean: of u and w that are large and opposite only
// their sum is small, and their features underflow. A direction of large variance l costs ½ log l in the exponent of
// the relative variance instead of l, so on anisotropic data the error falls by many orders of magnitude against
// OPRF. The zero value is Positive; Fit chooses all parameters from means and covariances.
type Adaptive struct {
	A   dense.Matrix[float64] `json:"a,omitzero"`    // d×d, invertible; empty: the identity
	C   []float64             `json:"c,omitempty"`   // q + k, subtracted from x'+y'; nil: zero
	Q   []float64             `json:"q,omitempty"`   // the query's part of C; nil: zero
	U   dense.Matrix[float64] `json:"u,omitzero"`    // d×d, orthogonal, directions in columns; empty: the identity
	Rho []float64             `json:"rho,omitempty"` // nil: ones
}

// Name is "adaptive".
func (Adaptive) Name() string { return "adaptive" }

// resolved holds the parameters with defaults filled in and matrices inverted.
type resolved struct {
	a, aInvT, ut dense.Matrix[float64]
	c, q         []float64
	gain, quad   []float64 // B_i, a_i
	rho          []float64
	logD         float64 // ¼Σ log(1-4a_i)
}

// resolve validates the parameters for inputs of dim columns.
func (f Adaptive) resolve(dim int) (resolved, error) {
	r := resolved{a: f.A, ut: f.U, c: f.C, q: f.Q, rho: f.Rho}
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
					return r, paramError(f, "U is not orthogonal: columns %d and %d have inner product %.3g", i, j,
						gram.At(i, j))
				}
			}
		}
	}
	if r.c == nil {
		r.c = make([]float64, dim)
	}
	if r.q == nil {
		r.q = make([]float64, dim)
	}
	if r.rho == nil {
		r.rho = make([]float64, dim)
		for i := range r.rho {
			r.rho[i] = 1
		}
	}
	if len(r.c) != dim || len(r.q) != dim || len(r.rho) != dim {
		return r, paramError(f, "c has %d, q %d and rho %d entries, the inputs %d columns",
			len(r.c), len(r.q), len(r.rho), dim)
	}
	r.gain, r.quad = make([]float64, dim), make([]float64, dim)
	for i, rho := range r.rho {
		if !(rho > 0 && rho <= 1) || !dense.IsFinite(r.c[i]) || !dense.IsFinite(r.q[i]) {
			return r, paramError(f, "rho %d is %v, want 0 < rho ≤ 1; c %d is %v, q %d is %v", i, rho, i, r.c[i], i,
				r.q[i])
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
	shift := make([]float64, dim) // k
	for i, c := range r.c {
		shift[i] = c - r.q[i]
	}
	leaf.Row.Const += dense.Dot(r.q, shift) / 2
	q, k := leaf, leaf
	if !f.A.IsEmpty() {
		q.Lin, k.Lin = plan.Linear{Dense: r.a}, plan.Linear{Dense: r.aInvT}
	}
	if f.Q != nil || f.C != nil {
		q.Shift, q.Row.Lin = r.q, shift
		k.Shift, k.Row.Lin = shift, r.q
	}
	if kind == kernel.Gaussian {
		// With the means mx, my of the two sides, e^{-|x|²/2} leaves factors of about
		// e^{∓(|mx|²-|my|²)/4 - |mx-my|²/4}. The first part cancels between the sides; it is moved from one side to the
		// other, so that plain features stay in range.
		half := r.excess(shift) / 4
		q.Row.Const += half
		k.Row.Const -= half
	}
	return finish(kind, plan.Pair{Query: plan.Single(q), Key: plan.Single(k)}, dim), nil
}

// excess is |A^{-1}q|² - |Aᵀk|², the difference of the squared means that the shifts stand for.
func (r resolved) excess(k []float64) float64 {
	d := len(k)
	mx, my := make([]float64, d), make([]float64, d)
	for i := range d { // A^{-1} = (A^{-T})ᵀ
		for j := range d {
			mx[j] += r.aInvT.At(i, j) * r.q[i]
			my[j] += r.a.At(i, j) * k[i]
		}
	}
	var e float64
	for i := range mx {
		e += (mx[i] - my[i]) * (mx[i] + my[i])
	}
	return e
}

// Form: relative variance expm1 Σ( logcosh(½ log ρ_i) + ρ_i v_i² ), v = Uᵀ(x'+y').
func (f Adaptive) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	r, err := f.resolve(len(x))
	if err != nil {
		return forms.Form{}, err
	}
	return r.Form(kind, x, y)
}

// Form implements theory.Estimator.
func (r resolved) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	d := len(r.c)
	if err := pairOf(d, x, y); err != nil {
		return forms.Form{}, err
	}
	sum, v := make([]float64, d), make([]float64, d)
	for i := range sum {
		sum[i] = dense.Dot(r.a.Row(i), x) + dense.Dot(r.aInvT.Row(i), y) - r.c[i]
	}
	plan.Linear{Dense: r.ut}.Apply(v, sum)
	return directionalForm(r.rho, v), nil
}

// Needs asks for covariances, and for rows that tell outliers from spread.
func (Adaptive) Needs() Options { return Options{Covariance: true, Sample: fitSample} }

// Fit matches covariances (A = P^{1/2}), centres both sides (Q = A·mean x, C = Q + A^{-T}·mean y) and sets ρ_i in the
// eigenbasis of E[vvᵀ], all from estimates for fresh rows: they are shrunk and do not follow an outlier. If queries or
// keys do not vary, or have the same moments, there is nothing to match and A is the identity.
func (f Adaptive) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	x, y := s.Query.fresh(true), s.Key.fresh(true)
	a, err := reembedding(x, y)
	if err != nil {
		return nil, statsError(f, "matching the covariances: %v", err)
	}
	inv := a
	out := Adaptive{A: a}
	if a.IsEmpty() {
		a = dense.Identity[float64](s.Query.Dim())
		inv = a
	} else if inv, err = invert(a); err != nil {
		return nil, statsError(f, "matching the covariances: %v", err)
	}
	invT := plan.Transpose(inv)
	out.Q, out.C = make([]float64, s.Query.Dim()), make([]float64, s.Query.Dim())
	for i := range out.C {
		out.Q[i] = dense.Dot(a.Row(i), x.centre)
		out.C[i] = out.Q[i] + dense.Dot(invT.Row(i), y.centre)
		if !dense.IsFinite(out.C[i]) {
			return nil, statsError(f, "the centre of the matched data is not finite")
		}
	}
	spread := plan.Mul(a, plan.Mul(x.second, plan.Transpose(a)))
	for i, v := range plan.Mul(invT, plan.Mul(y.second, inv)).Data {
		spread.Data[i] += v
	}
	values, u, err := eigSym(spread)
	if err != nil {
		return nil, statsError(f, "spread of the matched data: %v", err)
	}
	out.U, out.Rho = u, meanRho(values)
	return out, nil
}

// lost is the share of a squared difference that noise may explain, at most 1.
func lost(noise, square float64) float64 {
	if noise >= square {
		return 1
	}
	return noise / square
}

// reembedding is A = P^{1/2} for the second moments of two sides; empty means the identity.
func reembedding(x, y estimate) (a dense.Matrix[float64], err error) {
	if vanishes(x.second) || vanishes(y.second) || slices.Equal(x.second.Data, y.second.Data) {
		return a, nil
	}
	// First the sizes are matched, then the shapes at equal size. Each difference between the sides is shrunk by the
	// share that the noise of both may explain, as a mean is. Sides with the same law keep A = I.
	cx, cy := x.second.Clone(), y.second.Clone()
	tx, ty := trace(cx), trace(cy)
	r := math.Log(tx / ty)
	half := math.Exp(lost(4*(x.sizeNoise+y.sizeNoise), r*r) * r / 2)
	var diff float64
	for i, v := range cx.Data {
		diff += (v/tx - cy.Data[i]/ty) * (v/tx - cy.Data[i]/ty)
	}
	away := lost(2*(x.noise+y.noise), diff) / 2
	for i, v := range cx.Data {
		gap := v/tx - cy.Data[i]/ty
		cx.Data[i] = (v/tx - away*gap) * (tx / half)
		cy.Data[i] = (cy.Data[i]/ty + away*gap) * (ty * half)
	}
	p, _, err := match(cx, cy)
	if err != nil {
		return a, err
	}
	return spectral(p, sqrtClamped)
}

// meanRho is ρ_i = 1/(1+4l_i), which minimises the mean relative second moment over v_i ~ N(0, l_i):
//
//	E cosh(½ log ρ) e^{ρv²} = cosh(½ log ρ) (1-2ρl)^{-1/2} ≥ (1+2l)^{1/2}
//
// docs/theory.md §2.18. OPRF's rule minimises the mean logarithm instead, 2/(√((2l+1)²+8l) + 2l + 1): the same for
// small l, but for large l its second moment has a far heavier tail.
func meanRho(l []float64) []float64 {
	rho := make([]float64, len(l))
	for i, v := range l {
		rho[i] = 1 / (1 + 4*max(v, 0))
	}
	return rho
}
