package plan_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

func omega(rows ...[]float64) coupling.Omega {
	return coupling.Omega{Rows: dense.MustFromRows(rows)}
}

func full(rows ...[]float64) plan.Linear { return plan.Linear{Dense: dense.MustFromRows(rows)} }

func check(t *testing.T, name string, s plan.Side, x, want []float64) {
	t.Helper()
	got := s.Eval(x)
	value, e := s.EvalLog(x)
	if len(got) != len(want) || len(got) != s.OutDim(len(x)) || len(value) != len(got) || len(e) != len(got) {
		t.Errorf("%s: %d features, %d in the log domain, %d by OutDim, want %d", name, len(got), len(value),
			s.OutDim(len(x)),
			len(want))
		return
	}
	for f, w := range want {
		log := value[f] * math.Exp(e[f])
		if tol := 1e-14 * (1 + math.Abs(w)); !(math.Abs(got[f]-w) <= tol && math.Abs(log-w) <= tol) {
			t.Errorf("%s: feature %d is %v, %v in the log domain, want %v", name, f, got[f], log, w)
		}
	}
}

// Every function by its formula at a point where the projections are t = ΩMix u = (2, −1): x = (1, 2), so that
// Ω = ((0, 1), (1, −1)) gives ω·x = (2, −1) and |x|² = 5.
func TestEvalOfEveryFunction(t *testing.T) {
	x := []float64{1, 2}
	o := omega([]float64{0, 1}, []float64{1, -1})
	one := plan.Scalar(1)
	row := plan.Quadratic{Const: 0.5, Lin: []float64{1, -1}, Quad: plan.Scalar(-0.1)} // 0.5 + 1 − 2 − 0.5 = −1
	bias := []float64{0.25, -0.5}
	e1, e2 := math.Exp(2+0.25-1), math.Exp(-1-0.5-1)
	im := plan.Quadratic{Const: 0.125}
	for _, c := range []struct {
		name string
		leaf plan.Leaf
		want []float64
	}{
		{"exp", plan.Leaf{Fn: plan.Exp, Omega: o, Mix: one, Bias: bias, Row: row}, []float64{e1, e2}},
		{"exp without bias", plan.Leaf{Fn: plan.Exp, Omega: o, Mix: one}, []float64{math.Exp(2), math.Exp(-1)}},
		{"exp±", plan.Leaf{Fn: plan.ExpPM, Omega: o, Mix: one, Bias: bias, Row: row},
			[]float64{e1, e2, math.Exp(-2 + 0.25 - 1), math.Exp(1 - 0.5 - 1)}},
		{"sine and cosine", plan.Leaf{Fn: plan.SinCos, Omega: o, MixIm: one, Row: row},
			[]float64{math.Sin(2) / math.E, math.Sin(-1) / math.E, math.Cos(2) / math.E, math.Cos(-1) / math.E}},
		{"sine and cosine with a modulus and a phase", plan.Leaf{Fn: plan.SinCos, Omega: o, Mix: one,
			MixIm: plan.Scalar(3),
			Bias:  bias, Row: row,
			BiasIm: []float64{1, 0}, RowIm: im},
			[]float64{e1 * math.Sin(7.125), e2 * math.Sin(-2.875), e1 * math.Cos(7.125), e2 * math.Cos(-2.875)}},
		{"complex", plan.Leaf{Fn: plan.Complex, Omega: o, Mix: one, MixIm: one, Bias: bias, Row: row},
			[]float64{e1 * math.Cos(2), e2 * math.Cos(-1), e1 * math.Sin(2), e2 * math.Sin(-1)}},
		{"conjugate", plan.Leaf{Fn: plan.Complex, Omega: o, MixIm: one, RowIm: im, Conj: true},
			[]float64{math.Cos(2.125), math.Cos(-0.875), -math.Sin(2.125), -math.Sin(-0.875)}},
		{"sign", plan.Leaf{Fn: plan.Sign, Omega: o, Mix: one, Row: row}, []float64{1 / math.E, -1 / math.E}},
		{"sign of zero", plan.Leaf{Fn: plan.Sign, Omega: o, Mix: one, Bias: []float64{-2, 1}}, []float64{1, 1}},
		{"relu", plan.Leaf{Fn: plan.ReLU, Omega: o, Mix: one, Row: row, Bias: bias, Eps: 0.01},
			[]float64{2.25/math.E + 0.01,
				0.01}},
		{"elu", plan.Leaf{Fn: plan.ELU, Shift: []float64{0, 3}}, []float64{2, math.Exp(-1)}},
		{"residual", plan.Leaf{Fn: plan.Residual, Omega: o, Mix: one, Row: row, Bias: bias},
			[]float64{1, 1, 2, math.Exp(0.25) * (math.E - 3), math.Exp(-0.5) * math.Exp(-2)}},
		{"monomial", plan.Leaf{Fn: plan.Monomial, Omega: omega([]float64{2, 1}, []float64{0, 3}), Bias: bias,
			Row: plan.Norm2(-0.2)},
			[]float64{2 * math.Exp(0.25-1), 8 * math.Exp(-0.5-1)}},
		{"monomial of negative and zero", plan.Leaf{Fn: plan.Monomial, Shift: []float64{1, 5},
			Omega: omega([]float64{0, 3}, []float64{0, 2}, []float64{1, 1}, []float64{0, 0})}, []float64{-27, 9, 0, 1}},
		{"monomial with a floor", plan.Leaf{Fn: plan.Monomial, Shift: []float64{3, 0}, Floor: 0.5,
			Omega: omega([]float64{1,
				1})}, []float64{1}},
		{"matrices", plan.Leaf{Fn: plan.Exp, Omega: omega([]float64{1, 1}), Lin: full([]float64{1, 1}, []float64{0, 1},
			[]float64{2, 0}),
			Shift: []float64{0, 1, 1}, Mix: full([]float64{1, 0, 0}, []float64{0, 2,
				-1}), Row: plan.Quadratic{Quad: plan.Linear{Diag: []float64{1, 0, -4}}}},
			[]float64{math.Exp(3 + 1 + (9 - 4))}}, // u = (3, 1, 1), Mix u = (3, 1)
		{"diagonal", plan.Leaf{Fn: plan.Exp, Omega: o, Lin: plan.Linear{Diag: []float64{3, 1}},
			Mix: plan.Linear{Diag: []float64{1, -1}}},
			[]float64{math.Exp(-2), math.Exp(5)}},
	} {
		check(t, c.name, plan.Single(c.leaf), x, c.want)
	}
}

// Blocks: a coefficient is the slow index of a Kronecker product, the outer term is of x, gates keep one block of each
// centre, the first of equally near centres wins.
func TestEvalOfBlocks(t *testing.T) {
	one := plan.Scalar(1)
	base := plan.Leaf{Fn: plan.Exp, Omega: omega([]float64{1}, []float64{2}), Mix: one}
	rho := plan.Leaf{Fn: plan.Sign, Omega: omega([]float64{1}, []float64{-1}, []float64{1}), Mix: one}
	s := plan.Side{Leaves: []plan.Leaf{base, rho}, Outer: plan.Norm2(-1), Blocks: []plan.Block{
		{Coef: 2, Rho: plan.None, Base: 0, Gate: plan.None}, {Coef: -1, Rho: 1, Base: 0, Gate: plan.None}}}
	a, b := math.Exp(0.5-0.25), math.Exp(1-0.25)
	want := []float64{2 * a, 2 * b, -a, -b, a, b, -a, -b}
	check(t, "Kronecker", s, []float64{0.5}, want)
	// After x ↦ −2x + nothing else, x = −1/4 is the same row.
	check(t, "composed", s.Compose(plan.Scalar(-2), 1), []float64{-0.25}, want)

	g := plan.Side{Leaves: []plan.Leaf{base}, Centres: dense.MustFromRows([][]float64{{0}, {2}}), Blocks: []plan.Block{
		{Coef: 1, Rho: plan.None, Base: 0, Gate: 0}, {Coef: 1, Rho: plan.None, Base: 0, Gate: 1},
		{Coef: 1, Rho: plan.None,
			Base: 0, Gate: plan.None}}}
	at := func(x float64) (float64, float64) { return math.Exp(x), math.Exp(2 * x) }
	a, b = at(1)
	check(t, "a tie", g, []float64{1}, []float64{a, b, 0, 0, a, b})
	a, b = at(1.5)
	check(t, "second centre", g, []float64{1.5}, []float64{0, 0, a, b, a, b})
	if _, e := g.EvalLog([]float64{1.5}); !math.IsInf(e[0], -1) {
		t.Errorf("a block that is off has exponent %v", e[0])
	}
	g.CentreLin = plan.Scalar(-1)
	check(t, "gate of another point", g, []float64{1.5}, []float64{a, b, 0, 0, a, b})
}

// The log form holds where the features themselves are beyond float64.
func TestEvalLogOfHugeFeatures(t *testing.T) {
	big := plan.Leaf{Fn: plan.Exp, Omega: omega([]float64{1}), Mix: plan.Scalar(1)}
	value, e := plan.Single(big).EvalLog([]float64{5000})
	if value[0] != 1 || e[0] != 5000 {
		t.Errorf("exp: %v·exp(%v)", value[0], e[0])
	}
	big.Fn = plan.Residual
	value, e = plan.Single(big).EvalLog([]float64{5000})
	if value[2] != 1 || e[2] != 5000 {
		t.Errorf("residual: %v·exp(%v)", value[2], e[2])
	}
	zero := plan.Leaf{Fn: plan.Monomial, Omega: omega([]float64{1}), Bias: []float64{5000}}
	if got := plan.Single(zero).Eval([]float64{0}); got[0] != 0 {
		t.Errorf("a zero with a huge factor is %v", got[0])
	}
}
