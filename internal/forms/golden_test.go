package forms

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/coupling"
)

// goldenCase is one case of testdata/closed_forms.json; its README states the schema.
type goldenCase struct {
	ID, Formula string
	Inputs      map[string]any
	Expected    any
	Rtol, Atol  float64
}

func (c goldenCase) name() string {
	name, _, _ := strings.Cut(c.Formula, " | ")
	return name
}

func (c goldenCase) f(key string) float64 {
	v, ok := c.Inputs[key].(float64)
	if !ok {
		panic(c.ID + ": no number " + key)
	}
	return v
}
func (c goldenCase) i(key string) int           { return int(c.f(key)) }
func (c goldenCase) s(key string) string        { return c.Inputs[key].(string) }
func (c goldenCase) b(key string) bool          { return c.Inputs[key].(bool) }
func (c goldenCase) vec(key string) []float64   { return floats(c.Inputs[key]) }
func (c goldenCase) rows(key string) *mat.Dense { return matrix(c.Inputs[key]) }

func (c goldenCase) law(t *testing.T) coupling.PairKind {
	law, ok := map[string]coupling.PairKind{"iid": coupling.PairIndependent, "orthogonal": coupling.PairOrthogonal,
		"simplex": coupling.PairSimplex}[c.s("coupling")]
	if !ok {
		t.Fatalf("%s: coupling %q", c.ID, c.s("coupling"))
	}
	return law
}

func floats(v any) []float64 {
	list := v.([]any)
	out := make([]float64, len(list))
	for i := range list {
		out[i] = list[i].(float64)
	}
	return out
}

func matrix(v any) *mat.Dense {
	list := v.([]any)
	m := mat.NewDense(len(list), len(floats(list[0])), nil)
	for i := range list {
		m.SetRow(i, floats(list[i]))
	}
	return m
}

func symmetric(m *mat.Dense) *mat.SymDense {
	n, _ := m.Dims()
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, m.At(i, j))
		}
	}
	return s
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

// combine returns x + s·y.
func combine(x, y []float64, s float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + s*y[i]
	}
	return out
}

// TestGolden checks every golden case whose name is in the remit of this package.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/closed_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []goldenCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, c := range file.Cases {
		eval, ok := goldenEval[c.name()]
		if !ok {
			continue
		}
		seen[c.name()]++
		t.Run(c.ID, func(t *testing.T) { compare(t, c, "", eval(t, c), c.Expected) })
	}
	for name := range goldenEval {
		if seen[name] == 0 {
			t.Errorf("no golden case of %s", name)
		}
	}
}

// compare applies the rule of the golden README to numbers, lists and objects.
func compare(t *testing.T, c goldenCase, path string, got, want any) {
	t.Helper()
	switch w := want.(type) {
	case nil: // not defined
	case float64:
		if g := got.(float64); !(math.Abs(g-w) <= c.Rtol*math.Abs(w)+c.Atol) {
			t.Errorf("%s%s = %.17g, want %.17g", c.ID, path, g, w)
		}
	case string:
		if g, inf := got.(float64), map[string]int{"inf": 1, "-inf": -1}[w]; inf == 0 || !math.IsInf(g, inf) {
			t.Errorf("%s%s = %v, want %s", c.ID, path, g, w)
		}
	case []any:
		g := got.([]any)
		if len(g) != len(w) {
			t.Fatalf("%s%s has %d entries, want %d", c.ID, path, len(g), len(w))
		}
		for i := range w {
			compare(t, c, path+"[]", g[i], w[i])
		}
	case map[string]any:
		for key := range w {
			g, ok := got.(map[string]any)[key]
			if !ok {
				t.Fatalf("%s%s: no result %s", c.ID, path, key)
			}
			compare(t, c, path+"."+key, g, w[key])
		}
	default:
		t.Fatalf("%s%s: expected %T", c.ID, path, want)
	}
}

func list(x []float64) []any {
	out := make([]any, len(x))
	for i := range x {
		out[i] = x[i]
	}
	return out
}

func moments(m LambdaMoments) map[string]any {
	return map[string]any{"E_lam2": m.Lam2, "E_1mlam2": m.Rest2, "E_lam1mlam": m.Cross}
}

// relMSE is LogRelMSE or a test failure.
func relMSE(t *testing.T, shape Shape, law coupling.PairKind, d, m int, logRV, arg float64) float64 {
	t.Helper()
	v, err := LogRelMSE(shape, law, d, m, logRV, arg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var goldenEval = map[string]func(t *testing.T, c goldenCase) any{
	"kernel.bessel":        func(_ *testing.T, c goldenCase) any { return ORFMean(c.i("d"), c.f("z")) },
	"logrv.trig":           func(_ *testing.T, c goldenCase) any { return LogRVTrig(c.f("z2")) },
	"logrv.positive":       func(_ *testing.T, c goldenCase) any { return LogRVPositive(c.f("v2")) },
	"logrv.hyperbolic":     func(_ *testing.T, c goldenCase) any { return LogRVHyperbolic(c.f("v2")) },
	"oprf.rho":             func(_ *testing.T, c goldenCase) any { return RhoStar(c.i("d"), c.f("v2")) },
	"oprf.A":               func(_ *testing.T, c goldenCase) any { return AStar(c.i("d"), c.f("v2")) },
	"logrv.oprf":           func(_ *testing.T, c goldenCase) any { return logRVBestOPRF(c.i("d"), c.f("v2")) },
	"logrv.gerf_real_plus": evalGERFRealPlus,
	"logrv.gerf": func(_ *testing.T, c goldenCase) any {
		return LogRVGERF(c.i("d"), complex(c.f("A_re"), c.f("A_im")), c.i("s"), c.f("V_"))
	},
	"logrv.poisson": func(_ *testing.T, c goldenCase) any {
		return LogRVPoisson(c.i("d"), c.f("lam"), c.f("S"), c.f("xy"))
	},
	"logrv.geometric": func(_ *testing.T, c goldenCase) any {
		return LogRVGeometric(c.f("p"), c.vec("t"), c.f("xy"))
	},
	"logrv.complex_exponential": evalComplexExp,
	"logrv.dark":                evalDark,
	"logrv.adaptive":            evalAdaptive,
	"logvar.gaussian":           evalGaussianVariance,

	"conformity.orthogonal_log": func(_ *testing.T, c goldenCase) any {
		return LogConformityOrthogonal(c.i("d"), c.f("v2"))
	},
	"conformity.simplex_log": func(_ *testing.T, c goldenCase) any {
		return LogConformitySimplex(c.i("d"), c.f("v2"))
	},
	"conformity.rff_orthogonal": func(_ *testing.T, c goldenCase) any {
		return ConformityRFFOrthogonal(c.i("d"),
			c.f("z2"))
	},
	"conformity.rff_simplex": func(_ *testing.T, c goldenCase) any {
		return ConformityRFFSimplex(c.i("d"),
			c.f("z2"))
	},
	"conformity.cosh_simplex_log": func(_ *testing.T, c goldenCase) any {
		return LogConformityCoshSimplex(c.i("d"), c.f("v2"))
	},
	"gap.prf_orthogonal_log": func(_ *testing.T, c goldenCase) any {
		return LogGapPRFOrthogonal(c.i("d"), c.f("v2"))
	},
	"gap.prf_simplex_log":    func(_ *testing.T, c goldenCase) any { return LogGapPRFSimplex(c.i("d"), c.f("v2")) },
	"coupling.pair_fraction": func(_ *testing.T, c goldenCase) any { return PairFraction(c.i("m"), c.i("d")) },
	"coupling.padded_wrong_norms": func(_ *testing.T, c goldenCase) any {
		return PaddedKernel(c.i("d"), c.i("n"), c.f("z2"))
	},

	"mse.prf_log": func(t *testing.T, c goldenCase) any {
		v2 := c.f("v2")
		rel := relMSE(t, Exponential, c.law(t), c.i("d"), c.i("m"), LogRVPositive(v2), v2)
		return rel - (2*c.f("xx") + 2*c.f("yy") - v2)
	},
	"mse.ratio_prf": func(t *testing.T, c goldenCase) any {
		v2, m := c.f("v")*c.f("v"), c.i("m")
		rv := LogRVPositive(v2)
		return math.Exp(relMSE(t, Exponential, c.law(t), c.i("d"), m, rv, v2) - rv + math.Log(float64(m)))
	},
	"mse.rff": func(t *testing.T, c goldenCase) any {
		z2 := c.f("z2")
		return math.Exp(relMSE(t, Trigonometric, c.law(t), c.i("d"), c.i("m"), LogRVTrig(z2), z2) - z2)
	},
	"mse.oprf_coupled_logrel": func(t *testing.T, c goldenCase) any {
		d, v2 := c.i("d"), c.f("v2")
		return relMSE(t, Exponential, c.law(t), d, c.i("m"), logRVBestOPRF(d, v2), v2)
	},

	"crt.thm41_bound_log": func(_ *testing.T, c goldenCase) any {
		return LogBoundOrthogonalGain(c.i("d"), c.i("m"), c.f("v2"))
	},
	"crt.log_supZ_rel": func(_ *testing.T, c goldenCase) any { return LogSupOPRF(c.i("d"), c.f("A"), c.f("v2")) },
	"crt.hoeffding_log_rel": func(_ *testing.T, c goldenCase) any {
		return LogHoeffdingOPRF(c.i("d"), c.f("A"), c.f("v2"), c.i("m"), c.f("eta"))
	},

	"hrf.mse_trig_log": func(_ *testing.T, c goldenCase) any {
		return LogMSETrig(c.i("m"), c.f("xx"), c.f("yy"), c.f("xy"))
	},
	"hrf.mse_pp_log": func(_ *testing.T, c goldenCase) any {
		return LogMSEHyperbolic(c.i("m"), c.f("xx"), c.f("yy"), c.f("xy"))
	},
	"hrf.angular_moments": func(_ *testing.T, c goldenCase) any {
		return moments(AngularMoments(c.f("theta"),
			c.i("n")))
	},
	"hrf.gaussian_moments": func(_ *testing.T, c goldenCase) any {
		return moments(GaussianMoments(c.f("z2"), c.f("sig"), c.f("r"), c.i("n")))
	},
	"hrf.angular_mse_log":  evalAngularMSE,
	"hrf.gaussian_mse_log": evalGaussianMSE,
	"hrf.eps_trig_log": func(_ *testing.T, c goldenCase) any {
		return LogEpsTrig(c.f("theta"), c.f("r"),
			c.i("m"))
	},
	"hrf.W_log": func(_ *testing.T, c goldenCase) any { return LogW(c.f("r")) },
	"hrf.eps_angular_log": func(_ *testing.T, c goldenCase) any {
		return LogEpsAngular(c.f("theta"), c.f("r"), c.i("m"), c.i("n"))
	},
	"hrf.thm35_bound_log": func(_ *testing.T, c goldenCase) any {
		return LogEpsAngularBound(c.f("r"), c.i("m"), c.i("n"))
	},
	"hrf.limit_log": func(_ *testing.T, c goldenCase) any {
		return LogEpsAngularLimit(c.f("r"), c.i("m"), c.i("n"))
	},

	"orf.var_log":     func(_ *testing.T, c goldenCase) any { return LogVarORFPrime(c.i("d"), c.i("p"), c.f("z")) },
	"orf.rff_var_log": func(_ *testing.T, c goldenCase) any { return LogVarRFF(c.i("p"), c.f("z")) },
	"orf.constants": func(_ *testing.T, c goldenCase) any {
		k := ORFConstantsOf(c.i("d"))
		return map[string]any{"b_d": k.B, "c_d": k.C, "alpha_d": k.Alpha, "beta_d": k.Beta}
	},
	"orf.first_zero": func(_ *testing.T, c goldenCase) any { return ORFFirstZero(c.i("d")) },

	"simrf.pdf_iid": func(_ *testing.T, c goldenCase) any { return math.Exp(LogPairNormIID(c.i("d"), c.f("w"))) },
	"simrf.pdf_theta": func(_ *testing.T, c goldenCase) any {
		return math.Exp(LogPairNormAngle(c.i("d"), c.f("w"), c.f("cos")))
	},
	"simrf.taylor_v2": func(_ *testing.T, c goldenCase) any { return SimplexSmallV(c.i("d"), c.i("m")) },
	"simrf.cor46_ratio": func(_ *testing.T, c goldenCase) any {
		return RFFOrthogonalRatio(c.i("d"), c.i("m"),
			c.f("z2"))
	},

	"dark.sigma_eigs": func(t *testing.T, c goldenCase) any {
		s, err := DarkSigmaEigs(c.vec("lam"))
		if err != nil {
			t.Fatal(err)
		}
		return list(s)
	},
	"dark.expected_variance": func(_ *testing.T, c goldenCase) any {
		l := c.vec("lam")
		return map[string]any{
			"log_second_iso": LogSecondDarkIsotropic(l), "log_second_opt": LogSecondDarkOptimal(l),
			"log_EK2": LogKernelSquareDark(l), "log_V_iso": LogVarDarkIsotropic(l), "log_V_opt": LogVarDarkOptimal(l),
		}
	},
	"dark.second_moment_gaussian_proposal_log": func(_ *testing.T, c goldenCase) any {
		return LogSecondDarkGaussian(c.vec("lam"), c.vec("s"))
	},
	"dark.sigma_matrix": evalDarkSigma,
	"dark.prop41_log_weight": func(t *testing.T, c goldenCase) any {
		w, err := DarkLogWeight(symmetric(c.rows("Sigma")), c.vec("w"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	},
}

func logRVBestOPRF(d int, v2 float64) float64 { return LogRVOPRF(d, RhoStar(d, v2), v2) }

func evalGERFRealPlus(t *testing.T, c goldenCase) any {
	d, rho, v2 := c.i("d"), c.f("rho"), c.f("v2")
	got := LogRVOPRF(d, rho, v2)
	// The general form must agree with the real one.
	if g := LogRVGERF(d, complex((1-1/rho)/8, 0), 1, v2); !(math.Abs(g-got) <= 1e-12*math.Max(1, math.Abs(got))) {
		t.Errorf("%s: LogRVGERF %.17g, LogRVOPRF %.17g", c.ID, g, got)
	}
	return got
}

func evalComplexExp(_ *testing.T, c goldenCase) any {
	x, y := c.vec("x"), c.vec("y")
	zc := make([]complex128, len(x))
	for k, v := range c.Inputs["a"].([]any) {
		p := floats(v)
		a := complex(p[0], p[1])
		zc[k] = a*complex(x[k], 0) + complex(y[k], 0)/a
	}
	return LogRVComplexExp(zc)
}

func evalDark(_ *testing.T, c goldenCase) any {
	var mv mat.VecDense
	sum := combine(c.vec("x"), c.vec("y"), 1)
	mv.MulVec(c.rows("M_"), mat.NewVecDense(len(sum), sum))
	return LogRVPositive(mat.Dot(&mv, &mv))
}

func evalAdaptive(t *testing.T, c goldenCase) any {
	x, y, a := c.vec("x"), c.vec("y"), c.rows("A_")
	n := len(x)
	var ax, ay, v mat.VecDense
	ax.MulVec(a, mat.NewVecDense(n, x))
	if err := ay.SolveVec(a.T(), mat.NewVecDense(n, y)); err != nil {
		t.Fatal(err)
	}
	ax.AddVec(&ax, &ay)
	ax.SubVec(&ax, mat.NewVecDense(n, c.vec("c")))
	v.MulVec(c.rows("U").T(), &ax)
	return LogRVAdaptive(c.vec("rho"), v.RawVector().Data)
}

// evalGaussianVariance adds log K² to the relative variance.
func evalGaussianVariance(t *testing.T, c goldenCase) any {
	x, y := c.vec("x"), c.vec("y")
	d, xy := len(x), dot(x, y)
	var par []float64
	if c.Inputs["par"] != nil {
		par = c.vec("par")
	}
	plus, minus := combine(x, y, 1), combine(x, y, -1)
	v2, z2 := dot(plus, plus), dot(minus, minus)
	products, s := make([]float64, d), 0.0
	for l := range products {
		products[l] = math.Abs(x[l] * y[l])
		s += products[l] * products[l]
	}
	var rv float64
	switch kind := c.s("kind"); kind {
	case "trig":
		rv = LogRVTrig(z2)
	case "positive":
		rv = LogRVPositive(v2)
	case "oprf":
		rv = logRVBestOPRF(d, v2)
	case "gerf":
		arg := v2
		if par[2] < 0 {
			arg = z2
		}
		rv = LogRVGERF(d, complex(par[0], par[1]), int(par[2]), arg)
	case "poisson":
		rv = LogRVPoisson(d, math.Sqrt(s/float64(d)), s, xy)
	case "geometric":
		rv = LogRVGeometric(par[0], products, xy)
	default:
		t.Fatalf("%s: kind %q", c.ID, kind)
	}
	return rv - z2
}

func evalAngularMSE(_ *testing.T, c goldenCase) any {
	x, y := c.vec("x"), c.vec("y")
	return LogMSEBipolar(AngularMoments(Angle(x, y), c.i("n")), c.i("m"), dot(x, x), dot(y, y), dot(x, y),
		c.b("shared"))
}

func evalGaussianMSE(_ *testing.T, c goldenCase) any {
	x, y := c.vec("x"), c.vec("y")
	z := combine(x, y, -1)
	mom := GaussianMoments(dot(z, z), c.f("sig"), c.f("r"), c.i("n"))
	return LogMSEBipolar(mom, c.i("m"), dot(x, x), dot(y, y), dot(x, y), c.b("shared"))
}

func evalDarkSigma(t *testing.T, c goldenCase) any {
	s, err := DarkSigma(symmetric(c.rows("Lam")))
	if err != nil {
		t.Fatal(err)
	}
	n := s.SymmetricDim()
	out := make([]any, n)
	for i := range n {
		out[i] = list(mat.Row(nil, i, s))
	}
	return out
}
