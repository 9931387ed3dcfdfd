package theory_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

var softmax = kernel.Kernel{Kind: kernel.Softmax}

func near(t *testing.T, what string, got, want, rtol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rtol*math.Abs(want)+1e-12) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Hybrids predict through the general composition what HRF Thm 3.1 says of the two bipolar ones: the golden cases.
func TestOfHybridsAgainstGolden(t *testing.T) {
	b, err := os.ReadFile("../testdata/closed_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Formula      string
			Inputs, Expected json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range file.Cases {
		name, _, _ := strings.Cut(c.Formula, " | ")
		if name != "hrf.angular_mse_log" && name != "hrf.gaussian_mse_log" {
			continue
		}
		n++
		var in struct {
			M, N   int
			X, Y   []float64
			Shared bool
			Sig, R float64
		}
		var want float64
		if err := errors.Join(json.Unmarshal(c.Inputs, &in), json.Unmarshal(c.Expected, &want)); err != nil {
			t.Fatal(err)
		}
		var f family.Family = family.Angular{N: in.N, Shared: in.Shared}
		if name == "hrf.gaussian_mse_log" {
			f = family.BipolarGaussian{N: in.N, Sigma: in.Sig, R: in.R, Shared: in.Shared}
		}
		got, err := theory.Of(softmax, f, nil, in.M, in.X, in.Y)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.ID, got.LogMSE, want, 1e-9)
	}
	if n != 6 {
		t.Errorf("%d golden cases, want 6", n)
	}
}

// Where no closed form exists the error says so and is typed.
func TestOfWithoutClosedForm(t *testing.T) {
	x, y := []float64{0.3, -0.2, 0.5}, []float64{0.1, 0.4, 0.2}
	aniso := family.Adaptive{Rho: []float64{0.5, 0.9, 1}}
	for name, c := range map[string]struct {
		k kernel.Kernel
		f family.Family
		c coupling.Coupling
		m int
	}{
		"QMC":                 {softmax, family.Positive{}, coupling.Sobol{}, 4},
		"simplex+":            {softmax, family.Positive{}, coupling.SimplexPlus{}, 4},
		"adaptive simplex":    {softmax, aniso, coupling.Simplex{}, 4},
		"shared, coupled":     {softmax, family.Angular{Shared: true}, coupling.Orthogonal{}, 4},
		"poisson QMC":         {softmax, family.Poisson{Lambda: 0.3}, coupling.Halton{}, 4},
		"elu":                 {softmax, family.ELU{}, nil, 4},
		"relu":                {softmax, family.ReLU{}, nil, 4},
		"bessel simplex":      {kernel.Kernel{Kind: kernel.Bessel}, family.Trig{}, coupling.Simplex{}, 4},
		"orf' positive":       {kernel.Kernel{}, family.Positive{}, coupling.ORFPrime{}, 4},
		"padded oprf":         {softmax, family.OPRF{A: -0.1}, coupling.FastSimplex{K: 3}, 4},
		"residual orthogonal": {softmax, family.Residual{}, coupling.Orthogonal{}, 4},
	} {
		var typed *forms.NoClosedFormError
		if _, err := theory.Of(c.k, c.f, c.c, c.m, x, y); !errors.Is(err, theory.ErrNoClosedForm) ||
			!errors.As(err, &typed) || typed.What == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One row has no pair: its variance is that of the marginal under any coupling.
	for _, c := range []coupling.Coupling{coupling.Sobol{}, coupling.SimplexPlus{}, coupling.Simplex{}} {
		one, err := theory.Of(softmax, aniso, c, 1, x, y)
		iid, err2 := theory.Of(softmax, aniso, nil, 1, x, y)
		if err != nil || err2 != nil || one.LogVar != iid.LogVar {
			t.Errorf("%s, m = 1: %v, %v", c.Name(), one, err)
		}
	}
}

func TestOfBadInput(t *testing.T) {
	x := []float64{0.3, -0.2}
	for name, err := range map[string]error{
		"m":       second(theory.Of(softmax, family.Trig{}, nil, 0, x, x)),
		"lengths": second(theory.Of(softmax, family.Trig{}, nil, 1, x, x[:1])),
		"scale":   second(theory.Of(kernel.Kernel{Scale: -1}, family.Trig{}, nil, 1, x, x)),
		"empty":   second(theory.Of(softmax, family.Trig{}, nil, 1, nil, nil)),
	} {
		if err == nil {
			t.Errorf("%s accepted", name)
		}
	}
}

func second(_ theory.Moments, err error) error { return err }

// Couplings whose rows follow the law only nearly are marked.
func TestOfMarksApproximations(t *testing.T) {
	x, y := make([]float64, 5), make([]float64, 5)
	x[0], y[1] = 0.5, 0.4
	for _, c := range []struct {
		c    coupling.Coupling
		want bool
	}{{nil, false}, {coupling.Orthogonal{}, false}, {coupling.Simplex{}, false}, {coupling.Givens{}, true},
		{coupling.Hadamard{K: 3}, true}, {coupling.FastSimplex{K: 3}, true}, {coupling.Hadamard{}, false},
		{coupling.FastSimplex{}, false}} {
		m, err := theory.Of(softmax, family.Positive{}, c.c, 7, x, y)
		if err != nil || m.Approximate != c.want {
			t.Errorf("%v: approximate = %v (%v), want %v", c.c, m.Approximate, err, c.want)
		}
	}
}

// DARK has a kernel of its own: towards the softmax kernel it is biased, towards its target it is not.
func TestOfDARK(t *testing.T) {
	m := dense.MustFromRows([][]float64{{0.5, 0.2, 0}, {0, 0.6, -0.3}})
	x, y := []float64{0.3, -0.5, 0.8}, []float64{0.4, 0.1, -0.6}
	f := family.DARK{M: m}
	got, err := theory.Of(softmax, f, nil, 4, x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", got.LogMean, -0.1186, 1e-12) // golden kernel.log_mahalanobis
	near(t, "bias", got.LogBias, math.Log(math.Exp(-0.1186)-math.Exp(-0.41)), 1e-12)
	near(t, "MSE", got.LogMSE, math.Log(math.Exp(got.LogVar)+math.Exp(2*got.LogBias)), 1e-12)
	near(t, "relative variance", got.LogRelVar(), -1.7320633240285102-math.Log(4), 1e-10) // golden logrv.dark
	same, err := theory.Of(f.Target(softmax), family.Positive{}, nil, 4, x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "target", same.LogVar, got.LogVar, 1e-12)
	if !math.IsInf(same.LogBias, -1) {
		t.Errorf("bias %v towards the target", same.LogBias)
	}
}

// ORF′ with norms √d approaches the Gaussian kernel but never is it; the bias is the difference of the kernels.
func TestOfORFPrime(t *testing.T) {
	x, y := []float64{1.1, 0, 0}, []float64{0, 0, 0}
	z := 1.1
	unit, err := theory.Of(kernel.Kernel{}, family.Trig{}, coupling.ORFPrime{}, 3, x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", math.Exp(unit.LogMean), math.Sin(z)/z, 1e-12)
	near(t, "bias", math.Exp(unit.LogBias), math.Sin(z)/z-math.Exp(-z*z/2), 1e-12)
	root, err := theory.Of(kernel.Kernel{}, family.Trig{}, coupling.ORFPrime{SqrtDim: true}, 3, x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean √d", math.Exp(root.LogMean), math.Sin(math.Sqrt(3)*z)/(math.Sqrt(3)*z), 1e-12)
	bessel, err := theory.Of(kernel.Kernel{Kind: kernel.Bessel}, family.Trig{}, coupling.Orthogonal{}, 3, x, y)
	if err != nil || !math.IsInf(bessel.LogBias, -1) || bessel.LogVar != unit.LogVar {
		t.Errorf("bessel %+v, %v", bessel, err)
	}
	soft, err := theory.Of(softmax, family.Trig{}, coupling.ORFPrime{}, 3, x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "softmax variance", soft.LogVar, unit.LogVar+z*z, 1e-12)
}

// Stable where values are far outside the range of float64, and in thousands of dimensions.
func TestOfExtremes(t *testing.T) {
	for _, d := range []int{1, 2, 64, 4096} {
		for _, r := range []float64{1e-8, 1, 30} {
			x, y := make([]float64, d), make([]float64, d)
			x[0], y[d-1] = r, r/2
			for _, f := range []family.Family{family.Trig{}, family.Positive{}, family.Hyperbolic{},
				family.OPRF{A: -0.1},
				family.GERF{A: 0.01i, S: -1}, family.Angular{}} {
				for _, c := range []coupling.Coupling{nil, coupling.Orthogonal{}, coupling.Simplex{}} {
					m, err := theory.Of(softmax, f, c, d+3, x, y)
					if err != nil || math.IsNaN(m.LogMSE) || math.IsInf(m.LogMSE, 0) || math.IsNaN(m.LogMean) {
						t.Errorf("%s × %v, d = %d, |x| = %v: %+v, %v", f.Name(), c, d, r, m, err)
					}
				}
			}
		}
	}
}

// Hybrids stay in log space: finite logs where coefficients and covariances are far outside the range of float64.
func TestOfHybridExtremes(t *testing.T) {
	x, y := []float64{30, 0, 0}, []float64{20, 10, 0}
	shared := family.Hybrid{Bases: []family.Family{family.Positive{}, family.Hyperbolic{}}, Groups: []int{0, 0},
		Coefficients: []family.Coefficient{{Const: 0.5, Sign: -1, Gain: 0.5, Rho: "sign", N: 2}}}
	for name, f := range map[string]family.Family{"gaussian-lambda": family.GaussianLambda{}, "shared": shared,
		"angular":  family.Angular{Shared: true},
		"residual": family.Residual{Shrink: 0.5}} {
		m, err := theory.Of(softmax, f, nil, 4, x, y)
		if err != nil || math.IsNaN(m.LogVar) || math.IsInf(m.LogVar, 0) || math.IsInf(m.LogMean, 0) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// Only the plain cosine has a form for projections of fixed norm: neither a family with a kernel of its own nor another
// trigonometric one may borrow it.
func TestOfFixedNormNeedsPlainCosine(t *testing.T) {
	x, y := []float64{0.5, 0.1, 0.2}, []float64{0.1, 0.3, -0.2}
	for name, f := range map[string]family.Family{
		"dark": family.DARK{M: dense.MustFromRows([][]float64{{0.5, 0.2, 0}, {0, 0.6, -0.3}}), Base: family.Trig{}},
		"dark square": family.DARK{M: dense.MustFromRows([][]float64{{0.5, 0.2, 0}, {0, 0.6, -0.3}, {0, 0, 1}}),
			Base: family.Trig{}},
		"complex-exp": family.ComplexExp{Diag: []family.Complex{1.3i, 0.8i, 1i}},
		"gerf":        family.GERF{A: 0.01, S: -1},
	} {
		if m, err := theory.Of(kernel.Kernel{}, f, coupling.ORFPrime{}, 4, x, y); !errors.Is(err,
			theory.ErrNoClosedForm) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := theory.Of(softmax, nil, nil, 4, x, y); !errors.Is(err, forms.ErrDomain) {
		t.Errorf("no family: %v", err)
	}
}
