package family

import (
	"encoding/json"
	"fmt"
	"math"
	"math/cmplx"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

const ln2 = math.Ln2

// Complex is a complex parameter; its JSON form is [re, im].
type Complex complex128

// MarshalJSON writes [re, im].
func (c Complex) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]float64{real(complex128(c)), imag(complex128(c))})
}

// UnmarshalJSON reads [re, im].
func (c *Complex) UnmarshalJSON(b []byte) error {
	var v []float64
	if err := json.Unmarshal(b, &v); err != nil || len(v) != 2 {
		return fmt.Errorf("complex number %s: want [re, im]", b)
	}
	*c = Complex(complex(v[0], v[1]))
	return nil
}

// GERF is the family of generalised exponential features (CRT Thm 3.1, eqs 4-5), F = 2m (m if A is real and S = +1):
//
//	f1(ω,x) = D exp( A|ω|² +  B ω·x - s|x|²/2 )
//	f2(ω,y) = D exp( A|ω|² + sB ω·y - s|y|²/2 ),   exp(x·y) = E Re f1 f2
//
// with B = √(s(1-4A)) and D = (1-4A)^{d/4}; the product is not conjugated (the paper's eq 1 conjugates, an erratum).
// Queries give (Re f1, Im f1), keys (Re f2, -Im f2). The variance is finite for Re(1-8A) > 0, which is required.
// A = 0 is Positive (S = +1) or Trig (S = -1). Positive for real A and S = +1, else signed.
type GERF struct {
	A Complex `json:"a"`
	S int     `json:"s,omitempty"` // +1 or -1; 0 means +1
}

// Name is "gerf".
func (GERF) Name() string { return "gerf" }

// sign is the effective S.
func (f GERF) sign() float64 {
	if f.S == 0 {
		return 1
	}
	return float64(f.S)
}

func (f GERF) validate() error {
	a := complex128(f.A)
	if f.S < -1 || f.S > 1 {
		return paramError(f, "s = %d, want +1 or -1", f.S)
	}
	if !(real(1-8*a) > 0) || cmplx.IsInf(a) || cmplx.IsNaN(a) {
		return paramError(f, "A = %v: the variance is infinite unless Re(1-8A) > 0", a)
	}
	return nil
}

// Draws asks for N(0, I).
func (f GERF) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f GERF) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(); err != nil {
		return plan.Pair{}, err
	}
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	a, s := complex128(f.A), f.sign()
	b := cmplx.Sqrt(complex(s, 0) * (1 - 4*a))
	logD := complex(float64(dim)/4, 0) * cmplx.Log(1-4*a)
	q := plan.Leaf{Fn: plan.Complex, Omega: omega[0], Mix: plan.Scalar(real(b)), MixIm: plan.Scalar(imag(b)),
		Row: plan.Norm2(-s / 2)}
	q.Row.Const = rootM(omega[0]) + real(logD)
	q.RowIm.Const = imag(logD)
	q.Bias, q.BiasIm = norms2(omega[0]), norms2(omega[0])
	for i := range q.Bias {
		q.Bias[i] *= real(a)
		q.BiasIm[i] *= imag(a)
	}
	k := q
	k.Mix, k.MixIm, k.Conj = plan.Scalar(s*real(b)), plan.Scalar(s*imag(b)), true
	// A real A with s = +1 has no phases: m real features instead of 2m.
	if s > 0 && imag(a) == 0 {
		q.Fn, q.BiasIm = plan.Exp, nil
		k = q
	}
	return finish(kind, plan.Pair{Query: plan.Single(q), Key: plan.Single(k)}, dim), nil
}

// Form: CRT Thm 3.2 eq 6 in terms of V = |x+sy|². The pair covariance does not depend on A (docs/theory.md §5.2).
func (f GERF) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := f.validate(); err != nil {
		return forms.Form{}, err
	}
	shape, v := forms.Exponential, forms.PowersOfSum(x, f.sign(), y)
	if f.sign() < 0 {
		shape = forms.Trigonometric
	}
	form := forms.Simple(shape, len(x), forms.LogRVGERF(len(x), complex128(f.A), int(f.sign()), v.Two), v)
	form.Terms[0].Radial = f.A != 0
	form.Terms[0].Cosine = shape == forms.Trigonometric && f.A == 0
	form.LogMass = f.logMass(len(x), v.Two)
	return form, nil
}

// logMass is the log of E|f1 f2| relative to the kernel, a Gaussian integral: with a = Re A and V = |x+sy|²,
// (d/2) log(|1-4A|/(1-4a)) + ((Re B)²/(1-4a) - s) V/2.
func (f GERF) logMass(d int, v float64) float64 {
	a, wide := complex128(f.A), 1-4*real(f.A)
	b := real(cmplx.Sqrt(complex(f.sign(), 0) * (1 - 4*a)))
	return float64(d)/2*math.Log(cmplx.Abs(1-4*a)/wide) + (b*b/wide-f.sign())*v/2
}

// Needs asks for no costly statistics.
func (GERF) Needs() Options { return Options{} }

// Fit minimises log R_s(A), the relative second moment at the mean statistic, over complex A and both signs
// (CRT §3.1) by L-BFGS from several starts. In every setting tried the minimum was real.
func (GERF) Fit(s *Stats) (Family, error) {
	if err := s.ready(GERF{}); err != nil {
		return nil, err
	}
	a, sign, _ := forms.BestGERF(s.Query.Dim(), s.MeanNorm2(+1), s.MeanNorm2(-1))
	return GERF{A: Complex(a), S: sign}, nil
}
