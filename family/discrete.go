package family

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Poisson is the discretely induced family with Poisson(Lambda) coordinates (CRT §3.2.1), F = m, signed:
//
//	φ_i(x) = m^{-1/2} e^{λd/2} ∏_l x_l^{ω_il} λ^{-ω_il/2},   0⁰ = 1
//
// Lambda must be set or fitted.
type Poisson struct {
	Lambda float64 `json:"lambda"`
}

// Geometric is the discretely induced family with geometric coordinates P(k) = p(1-p)^k (CRT §3.2.2), F = m, signed:
//
//	φ_i(x) = m^{-1/2} p^{-d/2} ∏_l x_l^{ω_il} (1-p)^{-ω_il/2} (ω_il!)^{-1/2}
//
// P must be set or fitted.
type Geometric struct {
	P float64 `json:"p"`
}

// PoissonPlus is Poisson on inputs shifted to the positive orthant (CRT §3.2.3), F = m, positive. With
// x̂ = max(x - Shift, 1e-8),
//
//	φ_i(x) = m^{-1/2} e^{|x|²/2} f_i(x̂),  f the Gaussian form of Poisson
//
// The clamp acts only on points below the data of the fit; such a point gets the estimate of its clamped version.
type PoissonPlus struct {
	Lambda float64   `json:"lambda"`
	Shift  []float64 `json:"shift"` // c, one per coordinate
}

// GeometricPlus is Geometric on shifted inputs, as PoissonPlus is to Poisson; F = m, positive.
type GeometricPlus struct {
	P     float64   `json:"p"`
	Shift []float64 `json:"shift"`
}

// Exponents is the law of the random exponents of monomials: Poisson with parameter Lambda, or geometric with parameter
// P, for inputs from which Shift is subtracted. The parameter of the other law is 0. Package attention/choose derives
// the expected error of attention from it.
type Exponents struct {
	Lambda, P float64
	Shift     []float64
}

// Exponents returns the law of the exponents.
func (f Poisson) Exponents() Exponents { return Exponents{Lambda: f.Lambda} }

// Exponents returns the law of the exponents.
func (f Geometric) Exponents() Exponents { return Exponents{P: f.P} }

// Exponents returns the law of the exponents.
func (f PoissonPlus) Exponents() Exponents { return Exponents{Lambda: f.Lambda, Shift: f.Shift} }

// Exponents returns the law of the exponents.
func (f GeometricPlus) Exponents() Exponents { return Exponents{P: f.P, Shift: f.Shift} }

// plusFloor is the ε of CRT §3.2.3: shifted coordinates are at least this.
const plusFloor = 1e-8

// lambdaZero stands for λ* = 0, the optimum if x_l y_l = 0 for all l: every ω is 0 and the estimate is exact. λ itself
// must be positive, because the features divide by it.
const lambdaZero = 1e-300

// Name is "poisson".
func (Poisson) Name() string { return "poisson" }

// Name is "geometric".
func (Geometric) Name() string { return "geometric" }

// Name is "poisson+".
func (PoissonPlus) Name() string { return "poisson+" }

// Name is "geometric+".
func (GeometricPlus) Name() string { return "geometric+" }

func checkLambda(f Family, lambda float64) error {
	if !(lambda > 0) || math.IsInf(lambda, 0) {
		return paramError(f, "lambda = %v, want a positive number (set it or fit it)", lambda)
	}
	return nil
}

func checkP(f Family, p float64) error {
	if !(p > 0 && p < 1) {
		return paramError(f, "p = %v, want 0 < p < 1 (set it or fit it)", p)
	}
	return nil
}

func checkShift(f Family, shift []float64, dim int) error {
	if len(shift) != dim {
		return paramError(f, "shift has %d coordinates, the inputs have %d (set it or fit it)", len(shift), dim)
	}
	for l, c := range shift {
		if !dense.IsFinite(c) {
			return paramError(f, "shift %d is %v", l, c)
		}
	}
	return nil
}

// Draws asks for Poisson(λ) coordinates.
func (f Poisson) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkLambda(f, f.Lambda); err != nil {
		return nil, err
	}
	return discreteDraw(f, kind, dim, m, coupling.Law{Kind: coupling.Poisson, Param: f.Lambda})
}

// Draws asks for geometric coordinates.
func (f Geometric) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkP(f, f.P); err != nil {
		return nil, err
	}
	return discreteDraw(f, kind, dim, m, coupling.Law{Kind: coupling.Geometric, Param: f.P})
}

// Draws asks for Poisson(λ) coordinates.
func (f PoissonPlus) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkShift(f, f.Shift, dim); err != nil {
		return nil, err
	}
	return Poisson{f.Lambda}.Draws(kind, dim, m)
}

// Draws asks for geometric coordinates.
func (f GeometricPlus) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkShift(f, f.Shift, dim); err != nil {
		return nil, err
	}
	return Geometric{f.P}.Draws(kind, dim, m)
}

func discreteDraw(f Family, kind kernel.Kind, dim, m int, law coupling.Law) ([]Draw, error) {
	d, err := normalDraw(f, kind, dim, m)
	if err == nil {
		d[0].Law = law
	}
	return d, err
}

// Lower implements Family.
func (f Poisson) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := needCounts(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(poissonLeaf(f.Lambda, dim, omega[0])), dim), nil
}

// Lower implements Family.
func (f Geometric) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := needCounts(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, symmetric(geometricLeaf(f.P, dim, omega[0])), dim), nil
}

// Lower implements Family.
func (f PoissonPlus) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := needCounts(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, shifted(poissonLeaf(f.Lambda, dim, omega[0]), f.Shift), dim), nil
}

// Lower implements Family.
func (f GeometricPlus) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := needCounts(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	return finish(kind, shifted(geometricLeaf(f.P, dim, omega[0]), f.Shift), dim), nil
}

// shifted is the plus form: e^{|x|²/2} of the input itself times the Gaussian form of x̂.
func shifted(l plan.Leaf, shift []float64) plan.Pair {
	l.Shift, l.Floor = shift, plusFloor
	l.Row.Quad = plan.Scalar(-0.5)
	p := symmetric(l)
	p.Query.Outer, p.Key.Outer = plan.Norm2(0.5), plan.Norm2(0.5)
	return p
}

// poissonLeaf is the softmax form; ∏ λ^{-ω_l/2} depends on the feature alone, so it is a bias.
func poissonLeaf(lambda float64, dim int, omega coupling.Omega) plan.Leaf {
	l := plan.Leaf{Fn: plan.Monomial, Omega: omega, Bias: make([]float64, omega.Rows.Rows)}
	l.Row.Const = rootM(omega) + lambda*float64(dim)/2
	half := math.Log(lambda) / 2
	for f := range l.Bias {
		for _, w := range omega.Rows.Row(f) {
			l.Bias[f] -= w * half
		}
	}
	return l
}

// geometricLeaf is the softmax form; factors that depend on the feature alone are a bias.
func geometricLeaf(p float64, dim int, omega coupling.Omega) plan.Leaf {
	l := plan.Leaf{Fn: plan.Monomial, Omega: omega, Bias: make([]float64, omega.Rows.Rows)}
	l.Row.Const = rootM(omega) - float64(dim)*math.Log(p)/2
	half := math.Log1p(-p) / 2
	for f := range l.Bias {
		for _, w := range omega.Rows.Row(f) {
			lg, _ := math.Lgamma(w + 1)
			l.Bias[f] -= w*half + lg/2
		}
	}
	return l
}

// needCounts also checks that given projections are nonnegative integers.
func needCounts(f Family, omega []coupling.Omega, dim int) error {
	if err := need(f, omega, dim); err != nil {
		return err
	}
	w := omega[0].Rows
	for i := range w.Rows {
		for j, v := range w.Row(i) {
			if v < 0 || v != math.Trunc(v) {
				return paramError(f, "projection %d, coordinate %d is %v, want 0, 1, 2, …", i, j, v)
			}
		}
	}
	return nil
}

// Form: CRT Thm 3.4. No closed form is known for coupled discrete projections.
func (f Poisson) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := checkLambda(f, f.Lambda); err != nil {
		return forms.Form{}, err
	}
	var s float64
	for l := range x {
		s += x[l] * x[l] * y[l] * y[l]
	}
	form := forms.Uncoupled(len(x), forms.LogRVPoisson(len(x), f.Lambda, s, dense.Dot(x, y)))
	form.LogMass = monomialMass(x, y)
	return form, nil
}

// Form: CRT Thm 3.5.
func (f Geometric) Form(_ kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := checkP(f, f.P); err != nil {
		return forms.Form{}, err
	}
	t := make([]float64, len(x))
	for l := range x {
		t[l] = math.Abs(x[l] * y[l])
	}
	form := forms.Uncoupled(len(x), forms.LogRVGeometric(f.P, t, dense.Dot(x, y)))
	form.LogMass = monomialMass(x, y)
	return form, nil
}

// monomialMass is log E Σ|φ1 φ2| relative to the kernel, Σ|x_l y_l| − x·y (docs/theory.md §5.7, Rounding).
func monomialMass(x, y []float64) float64 {
	var sum float64
	for l, v := range x {
		sum += max(0, -2*v*y[l])
	}
	return sum
}

// Form is the form of Poisson at the shifted pair; a clamped point is biased.
func (f PoissonPlus) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	return plusForm(f, Poisson{f.Lambda}, f.Shift, kind, x, y)
}

// Form is the form of Geometric at the shifted pair; a clamped point is biased.
func (f GeometricPlus) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	return plusForm(f, Geometric{f.P}, f.Shift, kind, x, y)
}

// plusForm is the form of base at the shifted and clamped pair. If a coordinate was clamped, the ratio of the
// estimate's mean to the kernel is recorded as a bias.
func plusForm(f, base Family, shift []float64, kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := checkShift(f, shift, len(x)); err != nil {
		return forms.Form{}, err
	}
	xh, yh := make([]float64, len(x)), make([]float64, len(x))
	for l, c := range shift {
		xh[l], yh[l] = max(x[l]-c, plusFloor), max(y[l]-c, plusFloor)
	}
	form, err := base.Form(kind, xh, yh)
	_, z2 := sumNorm2(x, y)
	_, zh2 := sumNorm2(xh, yh)
	if math.Abs(z2-zh2) > 1e-7*(1+z2) { // clamped: the mean is the kernel of the clamped pair
		form.LogRatio = (z2 - zh2) / 2
	}
	return form, err
}

// Needs asks for no costly statistics.
func (Poisson) Needs() Options { return Options{} }

// Needs asks for no costly statistics.
func (Geometric) Needs() Options { return Options{} }

// Needs asks for no costly statistics.
func (PoissonPlus) Needs() Options { return Options{} }

// Needs asks for no costly statistics.
func (GeometricPlus) Needs() Options { return Options{} }

// Fit sets λ* = √(S/d), S = Σ_l mean x_l² mean y_l² (CRT eqs 11, 12).
func (f Poisson) Fit(s *Stats) (Family, error) {
	if err := s.ready(f); err != nil {
		return nil, err
	}
	lambda := forms.BestPoisson(s.Query.Dim(), s.S())
	return Poisson{max(lambda, lambdaZero)}, nil
}

// Fit minimises the averaged CRT eq 13 over p (the text says eq 11, an erratum).
func (f Geometric) Fit(s *Stats) (Family, error) {
	if err := s.readyAbs(f); err != nil {
		return nil, err
	}
	p, _ := forms.BestGeometric(s.T())
	return Geometric{p}, nil
}

// Fit sets Shift just below the smallest coordinates seen and λ* from the shifted data.
func (f PoissonPlus) Fit(s *Stats) (Family, error) {
	if err := s.readyMin(f); err != nil {
		return nil, err
	}
	sh, c := s.shiftToPositive()
	return PoissonPlus{Lambda: max(forms.BestPoisson(s.Query.Dim(), sh.S()), lambdaZero), Shift: c}, nil
}

// Fit sets Shift just below the smallest coordinates seen and p* from the shifted data.
func (f GeometricPlus) Fit(s *Stats) (Family, error) {
	if err := s.readyMin(f); err != nil {
		return nil, err
	}
	sh, c := s.shiftToPositive()
	p, _ := forms.BestGeometric(sh.T())
	return GeometricPlus{P: p, Shift: c}, nil
}
