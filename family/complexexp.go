package family

import (
	"math"
	"math/cmplx"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// ComplexExp is the family of complex exponential features (HRF Lemma 2.4, eqs 13-18), F = 2m (m if A is real):
//
//	f1(ω,x) = exp( ω·Ax - (Ax)²/2 ),  f2(ω,y) = exp( ω·A^{-T}y - (A^{-T}y)²/2 ),  exp(x·y) = E Re f1 f2
//
// where u² = Σ u_k² is bilinear, not Hermitian (the paper prints a norm, an erratum). A is any invertible matrix:
// Diag, or Re + i·Im, or the identity if neither is set. The variance is zero where Ax = -A^{-T}y.
// Positive if A is real, else signed. Fit gives the real symmetric A that minimises E|Ax + A^{-T}y|².
type ComplexExp struct {
	Diag []Complex             `json:"diag,omitempty"`
	Re   dense.Matrix[float64] `json:"re,omitzero"`
	Im   dense.Matrix[float64] `json:"im,omitzero"`
}

// Name is "complex-exp".
func (ComplexExp) Name() string { return "complex-exp" }

// Draws asks for N(0, I).
func (f ComplexExp) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if _, err := f.factors(dim); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// factors are the real and imaginary parts of A (for queries) and of A^{-T} (for keys); absent parts are zero.
type factors struct{ qRe, qIm, kRe, kIm plan.Linear }

// factors validates A for inputs of dim columns and inverts it.
func (f ComplexExp) factors(dim int) (factors, error) {
	if f.Diag != nil {
		return f.diagFactors(dim)
	}
	if f.Re.IsEmpty() && f.Im.IsEmpty() {
		one := plan.Scalar(1)
		return factors{qRe: one, kRe: one}, nil
	}
	for _, p := range []struct {
		name string
		m    dense.Matrix[float64]
	}{{"re", f.Re}, {"im", f.Im}} {
		if !p.m.IsEmpty() {
			if err := checkSquare(f, p.name, p.m, dim); err != nil {
				return factors{}, err
			}
		}
	}
	return f.fullFactors(dim)
}

// diagFactors inverts a diagonal A entry by entry. A purely real or imaginary A has only one part, which keeps its plan
// real or trigonometric.
func (f ComplexExp) diagFactors(dim int) (factors, error) {
	if !f.Re.IsEmpty() || !f.Im.IsEmpty() {
		return factors{}, paramError(f, "both diag and a full matrix are set")
	}
	if len(f.Diag) != dim {
		return factors{}, paramError(f, "diag has %d entries, the inputs have %d columns", len(f.Diag), dim)
	}
	qr, qi := make([]float64, dim), make([]float64, dim)
	kr, ki := make([]float64, dim), make([]float64, dim)
	isReal, isImag := true, true
	for k, c := range f.Diag {
		a := complex128(c)
		if a == 0 || cmplx.IsNaN(a) || cmplx.IsInf(a) || cmplx.IsInf(1/a) {
			return factors{}, paramError(f, "diag entry %d is %v: A must be invertible", k, a)
		}
		inv := 1 / a
		qr[k], qi[k], kr[k], ki[k] = real(a), imag(a), real(inv), imag(inv)
		isReal = isReal && imag(a) == 0
		isImag = isImag && real(a) == 0
	}
	out := factors{}
	if !isImag {
		out.qRe, out.kRe = plan.Linear{Diag: qr}, plan.Linear{Diag: kr}
	}
	if !isReal {
		out.qIm, out.kIm = plan.Linear{Diag: qi}, plan.Linear{Diag: ki}
	}
	return out, nil
}

// fullFactors inverts A = R + iJ: directly if one part is zero, else through the real matrix [[R, -J], [J, R]], whose
// inverse has the same pattern.
func (f ComplexExp) fullFactors(dim int) (factors, error) {
	singular := paramError(f, "A is singular: it must be invertible")
	switch {
	case isZero(f.Im):
		inv, err := invert(f.Re)
		if err != nil {
			return factors{}, singular
		}
		return factors{qRe: plan.Linear{Dense: f.Re}, kRe: plan.Linear{Dense: plan.Transpose(inv)}}, nil
	case isZero(f.Re): // (iJ)^{-1} = -iJ^{-1}
		inv, err := invert(f.Im)
		if err != nil {
			return factors{}, singular
		}
		for i := range inv.Data {
			inv.Data[i] *= -1
		}
		return factors{qIm: plan.Linear{Dense: f.Im}, kIm: plan.Linear{Dense: plan.Transpose(inv)}}, nil
	}
	big := dense.New[float64](2*dim, 2*dim)
	set := func(m dense.Matrix[float64], r, c int, sign float64) {
		for i := range m.Rows {
			for j, v := range m.Row(i) {
				big.Set(r+i, c+j, sign*v)
			}
		}
	}
	set(f.Re, 0, 0, 1)
	set(f.Re, dim, dim, 1)
	set(f.Im, 0, dim, -1)
	set(f.Im, dim, 0, 1)
	inv, err := invert(big)
	if err != nil {
		return factors{}, singular
	}
	return factors{
		qRe: plan.Linear{Dense: f.Re}, kRe: plan.Linear{Dense: plan.Transpose(inv.RowRange(0, dim).ColRange(0, dim))},
		qIm: plan.Linear{Dense: f.Im}, kIm: plan.Linear{Dense: plan.Transpose(inv.RowRange(dim, 2*dim).ColRange(0,
			dim))},
	}, nil
}

func isZero(m dense.Matrix[float64]) bool {
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			if v != 0 {
				return false
			}
		}
	}
	return true
}

// Lower implements Family.
func (f ComplexExp) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	a, err := f.factors(dim)
	if err != nil {
		return plan.Pair{}, err
	}
	q, k := a.leaves(omega[0], dim)
	return finish(kind, plan.Pair{Query: plan.Single(q), Key: plan.Single(k)}, dim), nil
}

// leaves are the two sides of the map; keys carry the negated imaginary part.
func (a factors) leaves(omega coupling.Omega, dim int) (query, key plan.Leaf) {
	query, key = complexLeaf(omega, a.qRe, a.qIm, dim), complexLeaf(omega, a.kRe, a.kIm, dim)
	key.Conj = key.Fn == plan.Complex
	return query, key
}

// complexLeaf is exp(ω·Cu - (Cu)²/2), C = re + i·im, with (Cu)² = |re u|² - |im u|² + 2i (re u)·(im u).
func complexLeaf(omega coupling.Omega, re, im plan.Linear, dim int) plan.Leaf {
	l := plan.Leaf{Fn: plan.Exp, Omega: omega, Mix: re, MixIm: im}
	if !re.IsZero() {
		l.Row = plan.Norm2(-0.5).Compose(re, nil, dim)
	}
	if !im.IsZero() {
		l.Fn = plan.Complex
		l.Row = l.Row.Add(plan.Norm2(0.5).Compose(im, nil, dim), dim)
	}
	if !re.IsZero() && !im.IsZero() {
		// -(re u)·(im u) as a symmetric form: ¼(|(re-im)u|² - |(re+im)u|²).
		l.RowIm = plan.Norm2(0.25).Compose(combine(re, im, -1, dim), nil, dim).
			Add(plan.Norm2(-0.25).Compose(combine(re, im, +1, dim), nil, dim), dim)
	}
	l.Row.Const = rootM(omega)
	return l
}

// combine is a + sign·b as a full matrix.
func combine(a, b plan.Linear, sign float64, dim int) plan.Linear {
	m := a.Matrix(dim).Clone()
	for i := range m.Rows {
		for j, v := range b.Matrix(dim).Row(i) {
			m.Row(i)[j] += sign * v
		}
	}
	return plan.Linear{Dense: m}
}

// Form: with ζ = Ax + A^{-T}y the relative variance is ½(Re e^{ζ²} + e^{|ζ|²}) - 1. For real A it is the positive
// map at |ζ|, for imaginary A the trigonometric one, and the coupled forms carry over.
func (f ComplexExp) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	a, err := f.factors(len(x))
	if err != nil {
		return forms.Form{}, err
	}
	return a.form(x, y), nil
}

// form is Form for x and y of the dimension of the factors.
func (a factors) form(x, y []float64) forms.Form {
	d := len(x)
	re, im, tmp := make([]float64, d), make([]float64, d), make([]float64, d)
	for _, p := range []struct {
		l   plan.Linear
		v   []float64
		dst []float64
	}{{a.qRe, x, re}, {a.kRe, y, re}, {a.qIm, x, im}, {a.kIm, y, im}} {
		p.l.Apply(tmp, p.v)
		for i, v := range tmp {
			p.dst[i] += v
		}
	}
	zeta := make([]complex128, d)
	for i := range zeta {
		zeta[i] = complex(re[i], im[i])
	}
	rv := forms.LogRVComplexExp(zeta)
	switch {
	case a.qIm.IsZero():
		return forms.Simple(forms.Exponential, d, rv, forms.PowersOf(re))
	case a.qRe.IsZero() && a.kRe.IsZero():
		return forms.Simple(forms.Trigonometric, d, rv, forms.PowersOf(im))
	}
	form := forms.Uncoupled(d, rv)
	form.LogMass = dense.Norm2(im) / 2
	return form
}

// Needs asks for covariances, and for rows that tell outliers from spread.
func (ComplexExp) Needs() Options { return Options{Covariance: true, Sample: fitSample} }

// Fit returns the real symmetric A = P^{1/2} that matches the second moments of queries and keys, the minimiser of
// E|Ax + A^{-T}y|² (docs/theory.md §2.18 without centring), as they are expected of fresh rows. If all queries or all
// keys are zero, or both have the same moments, A is the identity.
func (f ComplexExp) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	a, err := reembedding(s.Query.fresh(false), s.Key.fresh(false))
	if err != nil {
		return nil, statsError(f, "matching the second moments: %v", err)
	}
	if a.IsEmpty() {
		a = dense.Identity[float64](s.Query.Dim())
	}
	return ComplexExp{Re: a}, nil
}

// fitRidge is added to covariances before they are inverted, relative to their mean eigenvalue.
const fitRidge = 1e-6

// diagonalA is the diagonal A of HRF H.2, eqs 85-88, for a query centre r and a key centre t (docs/theory.md §2.8).
// With isComplex = false it is real; amax bounds every modulus to [1/amax, amax], +Inf means no bound.
func diagonalA(r, t []float64, isComplex bool, amax float64) []Complex {
	a := make([]Complex, len(r))
	for k := range r {
		var m float64
		switch {
		case r[k] == 0 && t[k] == 0:
			m = 1
		case r[k] == 0:
			m = amax
		case t[k] == 0:
			m = 1 / amax
		default:
			m = math.Sqrt(math.Abs(t[k] / r[k]))
		}
		m = min(max(m, 1/amax), amax)
		a[k] = Complex(complex(m, 0))
		if isComplex && r[k]*t[k] > 0 {
			a[k] = Complex(complex(0, m))
		}
	}
	return a
}
