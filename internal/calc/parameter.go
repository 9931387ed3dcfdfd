package calc

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
)

// parameterEntries are statistics and optimal parameters: docs/theory.md §3, 2.8 and 2.18.
func parameterEntries() []Entry {
	return []Entry{
		formula("oprf.rho", "CRT Thm 3.3 eq 7 (corrected): rho*", forms.RhoStar, dimension("d"), nonnegative("v2")),
		formula("oprf.A", "CRT Thm 3.3: A = (1 - 1/rho*)/8", forms.AStar, dimension("d"), nonnegative("v2")),
		{
			Name: "stats.crt", Reference: "CRT eqs 8, 12, 14: means over all pairs of rows of X and Y",
			Inputs: []Input{matrix("X"), matrix("Y")},
			eval:   evalStats,
		},
		formula("opt.poisson_lambda", "CRT after eq 11: lambda* = √(S/d)",
			forms.BestPoisson, dimension("d"), nonnegative("S")),
		{
			Name: "opt.geometric_p", Reference: "CRT eq 13 minimised over p; t_l = mean |x_l y_l|",
			Inputs: []Input{vector("t")},
			eval: func(in values) (any, error) {
				for _, t := range in.vec("t") {
					if t < 0 {
						return nil, outOfRange("t", t, "numbers ≥ 0")
					}
				}
				p, objective := forms.BestGeometric(in.vec("t"))
				return Object{{"p", p}, {"objective", objective}}, nil
			},
		},
		{
			Name: "opt.gerf", Reference: "CRT 3.1: minimum of log R_s over complex A and s, given the means of |x+y|² and " +
				"|x-y|²; A is not unique",
			Inputs: []Input{dimension("d"), nonnegative("V_plus"), nonnegative("V_minus")},
			eval: func(in values) (any, error) {
				a, s, logR := forms.BestGERF(in.i("d"), in.f("V_plus"), in.f("V_minus"))
				return Object{{"min_log_R", logR}, {"s", s}, {"A", a}}, nil
			},
		},
		{
			Name: "opt.adaptive_rho", Reference: "docs/theory.md §2.18: rho_i from the eigenvalues lam of E[v vᵀ]",
			Inputs: []Input{vector("lam")},
			eval: func(in values) (any, error) {
				rho := make([]float64, len(in.vec("lam")))
				for i, l := range in.vec("lam") {
					if l < 0 {
						return nil, outOfRange("lam", l, "numbers ≥ 0")
					}
					rho[i] = forms.RhoStar(1, l)
				}
				return rho, nil
			},
		},
		{
			Name: "opt.matched_P", Reference: "docs/theory.md §2.18: P = Cx^-½ (Cx^½ Cy Cx^½)^½ Cx^-½ and the minimum of E|Ax " +
				"+ A^-T y|²",
			Inputs: []Input{matrix("Cx"), matrix("Cy")},
			eval:   evalMatch,
		},
		{
			Name: "cluster.diagonal_A", Reference: "HRF eqs 85-88 with the zero rules of docs/theory.md §2.8; a_k = [re, im]",
			Inputs: []Input{vector("r"), vector("t"), choice("mode", "real", "complex"), positive("amax")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "r", "t"); err != nil {
					return nil, err
				}
				if in.f("amax") < 1 {
					return nil, outOfRange("amax", in.f("amax"), "a number ≥ 1")
				}
				c := family.Clusters{QueryCentres: dense.MustFromRows([][]float64{in.vec("r")}),
					KeyCentres: dense.MustFromRows([][]float64{in.vec("t")}),
					Complex:    in.s("mode") == "complex", AMax: in.f("amax")}
				return fromComplex(c.Diagonal(0, 0)), nil
			},
		},
	}
}

func evalStats(in values) (any, error) {
	if err := checkLengths(in, "X", "Y"); err != nil {
		return nil, err
	}
	s := family.NewStats(in.mat("X").Cols, family.Options{})
	if err := s.Query.Add(in.mat("X")); err != nil {
		return nil, err
	}
	if err := s.Key.Add(in.mat("Y")); err != nil {
		return nil, err
	}
	return Object{
		{"mean_norm2_plus", s.MeanNorm2(+1)},
		{"mean_norm2_minus", s.MeanNorm2(-1)},
		{"S", s.S()},
		{"T", s.T()},
	}, nil
}

func evalMatch(in values) (any, error) {
	for _, key := range []string{"Cx", "Cy"} {
		if err := checkSquare(in, key, in.mat("Cx").Rows); err != nil {
			return nil, err
		}
		if err := checkCovariance(in, key); err != nil {
			return nil, err
		}
	}
	p, trace := family.Match(in.mat("Cx"), in.mat("Cy"))
	return Object{{"P", p}, {"min_trace", trace}}, nil
}
