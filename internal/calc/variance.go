package calc

import (
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// varianceEntries are the variances of one projection: docs/theory.md §5.1.
func varianceEntries() []Entry {
	const rv = "log relative variance (variance / kernel²), one projection; "
	return []Entry{
		formula("logrv.trig", rv+"HRF Lemma 2.2, CRT 2.2", forms.LogRVTrig, nonnegative("z2")),
		formula("logrv.positive", rv+"CRT 2.2", forms.LogRVPositive, nonnegative("v2")),
		formula("logrv.hyperbolic", rv+"HRF Lemma 2.2", forms.LogRVHyperbolic, nonnegative("v2")),
		{
			Name: "logrv.oprf", Reference: rv + "CRT Thms 3.2, 3.3 at the optimal rho",
			Inputs: []Input{dimension("d"), nonnegative("v2")},
			eval: func(in values) (any, error) {
				d, v2 := in.i("d"), in.f("v2")
				return forms.LogRVOPRF(d, forms.RhoStar(d, v2), v2), nil
			},
		},
		formula("logrv.gerf_real_plus", rv+"CRT Thm 3.2, s = +1, real A given by rho = 1/(1-8A)",
			forms.LogRVOPRF, dimension("d"), positive("rho"), nonnegative("v2")),
		{
			Name: "logrv.gerf", Reference: rv + "CRT Thm 3.2 eq 6, V_ = |x + s y|²",
			Inputs: []Input{dimension("d"), number("A_re"), number("A_im"), sign("s"), nonnegative("V_")},
			eval: func(in values) (any, error) {
				return forms.LogRVGERF(in.i("d"), complex(in.f("A_re"), in.f("A_im")), in.i("s"), in.f("V_")), nil
			},
		},
		formula("logrv.poisson", rv+"CRT Thm 3.4, S = Σ x_l² y_l²",
			forms.LogRVPoisson, dimension("d"), nonnegative("lam"), nonnegative("S"), number("xy")),
		formula("logrv.geometric", rv+"CRT Thm 3.5, t_l = |x_l y_l|",
			forms.LogRVGeometric, probability("p"), vector("t"), number("xy")),
		{
			Name: "logrv.complex_exponential", Reference: rv + "HRF 2.3 with A = diag(a), a_k = [re, im]",
			Inputs: []Input{complexes("a"), vector("x"), vector("y")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "x", "y", "a"); err != nil {
					return nil, err
				}
				return logRV(family.ComplexExp{Diag: diagonal(in.cvec("a"))}, in)
			},
		},
		{
			Name: "logrv.dark", Reference: rv + "relative to exp(2 xᵀΣy); DARK eq 3",
			Inputs: []Input{matrix("M_"), vector("x"), vector("y")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "x", "y", "M_"); err != nil {
					return nil, err
				}
				return logRV(family.DARK{M: in.mat("M_")}, in)
			},
		},
		{
			Name: "logrv.adaptive", Reference: rv + "docs/theory.md §2.18",
			Inputs: []Input{matrix("A_"), vector("c"), matrix("U"), vector("rho"), vector("x"), vector("y")},
			eval: func(in values) (any, error) {
				f, err := adaptive(in)
				if err != nil {
					return nil, err
				}
				return logRV(f, in)
			},
		},
		formula("logrv.complex_exponential_z", rv+"docs/theory.md §5.1: complex exponential features at z = Ax "+
			"+ A^-T y, z_k = [re, im]",
			forms.LogRVComplexExp, complexes("z")),
		{
			Name: "logrv.adaptive_v", Reference: rv + "docs/theory.md §2.18 at v = Uᵀ(x' + y')",
			Inputs: []Input{vector("rho"), vector("v")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "rho", "v"); err != nil {
					return nil, err
				}
				return forms.LogRVAdaptive(in.vec("rho"), in.vec("v")), nil
			},
		},
		formula("logrv.residual", rv+"docs/theory.md §2.19, relative to exp(2 xy)",
			forms.LogRVResidual, nonnegative("xx"), nonnegative("yy"), number("xy")),
		{
			Name:      "logsecond.gerf",
			Reference: "CRT Thm 3.2 eq 6: log second moment / kernel² of one projection, V_ = |x + s y|²",
			Inputs:    []Input{dimension("d"), number("A_re"), number("A_im"), sign("s"), nonnegative("V_")},
			eval: func(in values) (any, error) {
				return forms.LogSecondGERF(in.i("d"), complex(in.f("A_re"), in.f("A_im")), in.i("s"), in.f("V_")), nil
			},
		},
		{
			Name: "logvar.gaussian",
			Reference: "log absolute variance, Gaussian kernel, one projection; CRT 2.2, Thms 3.2-3.5. " +
				"par: gerf = [Re A, Im A, s], geometric = [p]; oprf and poisson are optimal for the pair",
			Inputs: []Input{
				choice("kind", "trig", "positive", "hyperbolic", "oprf", "gerf", "poisson", "geometric"),
				vector("x"), vector("y"), optionalVector("par"),
			},
			eval: evalLogVar,
		},
	}
}

// logRV is the log relative variance of one projection that a family states for the pair x, y.
func logRV(f family.Family, in values) (any, error) {
	form, err := f.Form(kernel.Softmax, in.vec("x"), in.vec("y"))
	if err != nil {
		return nil, err
	}
	return form.Terms[0].LogRV, nil
}

func evalLogVar(in values) (any, error) {
	if err := checkLengths(in, "x", "y"); err != nil {
		return nil, err
	}
	f, err := pairFamily(in)
	if err != nil {
		return nil, err
	}
	m, err := theory.Of(kernel.Kernel{}, f, nil, 1, in.vec("x"), in.vec("y"))
	return m.LogVar, err
}

// pairFamily is the family of logvar.gaussian, with the parameters that are optimal for this pair where par gives none.
func pairFamily(in values) (family.Family, error) {
	x, y, par := in.vec("x"), in.vec("y"), in.vec("par")
	wanted := map[string]int{"gerf": 3, "geometric": 1}[in.s("kind")]
	if len(par) != wanted {
		return nil, outOfRange("par", par, map[int]string{0: "[]", 1: "[p]", 3: "[Re A, Im A, s]"}[wanted])
	}
	var v2, s float64
	for l := range x {
		v2 += (x[l] + y[l]) * (x[l] + y[l])
		s += x[l] * x[l] * y[l] * y[l]
	}
	switch in.s("kind") {
	case "trig":
		return family.Trig{}, nil
	case "hyperbolic":
		return family.Hyperbolic{}, nil
	case "oprf":
		return family.OPRF{A: forms.AStar(len(x), v2)}, nil
	case "gerf":
		if par[2] != 1 && par[2] != -1 {
			return nil, outOfRange("par", par, "[Re A, Im A, s] with s = +1 or -1")
		}
		return family.GERF{A: family.Complex(complex(par[0], par[1])), S: int(par[2])}, nil
	case "poisson":
		return family.Poisson{Lambda: forms.BestPoisson(len(x), s)}, nil
	case "geometric":
		return family.Geometric{P: par[0]}, nil
	}
	return family.Positive{}, nil
}

func adaptive(in values) (family.Family, error) {
	if err := checkLengths(in, "x", "y", "c", "rho"); err != nil {
		return nil, err
	}
	for _, key := range []string{"A_", "U"} {
		if err := checkSquare(in, key, len(in.vec("x"))); err != nil {
			return nil, err
		}
	}
	return family.Adaptive{A: in.mat("A_"), C: in.vec("c"), U: in.mat("U"), Rho: in.vec("rho")}, nil
}

func diagonal(a []complex128) []family.Complex {
	out := make([]family.Complex, len(a))
	for i, v := range a {
		out[i] = family.Complex(v)
	}
	return out
}

func fromComplex(a []family.Complex) []complex128 {
	out := make([]complex128, len(a))
	for i, v := range a {
		out[i] = complex128(v)
	}
	return out
}

// probability is a number strictly between 0 and 1.
func probability(key string) Input {
	return bounded(key, "number in (0, 1)", func(v float64) bool { return v > 0 && v < 1 })
}
