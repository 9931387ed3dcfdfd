package calc

import "github.com/randfeat/randfeat/internal/forms"

// concentrationEntries are docs/theory.md §5.3 and the bound of CRT Thm 4.1.
func concentrationEntries() []Entry {
	return []Entry{
		{
			Name: "crt.thm41_bound_log", Reference: "CRT Thm 4.1 corrected: log of pf(m,d) (2/(d+2)) (e^{v2/2} - 1)², to be " +
				"multiplied by e^{-2xx-2yy}",
			Inputs: []Input{dimension("d"), natural("m"), nonnegative("v2")},
			eval: func(in values) (any, error) {
				return forms.LogBoundOrthogonalGain(in.i("d"), in.i("m"), in.f("v2")), nil
			},
		},
		{
			Name: "crt.log_supZ_rel", Reference: "CRT Thm 4.2 corrected: log(sup Z / K)",
			Inputs: []Input{dimension("d"), nonpositive("A"), nonnegative("v2")},
			eval:   func(in values) (any, error) { return forms.LogSupOPRF(in.i("d"), in.f("A"), in.f("v2")), nil },
		},
		{
			Name: "crt.hoeffding_log_rel", Reference: "CRT Thm 4.2 corrected: log of 2 exp(-2 m eta²/(sup Z/K)²), relative " +
				"deviation eta",
			Inputs: []Input{dimension("d"), nonpositive("A"), nonnegative("v2"), natural("m"), nonnegative("eta")},
			eval: func(in values) (any, error) {
				return forms.LogHoeffdingOPRF(in.i("d"), in.f("A"), in.f("v2"), in.i("m"), in.f("eta")), nil
			},
		},
		{
			Name: "crt.upper_tail_log", Reference: "CRT Thm 4.2: log of the Legendre bound exp(-m Leg(1+eta)) on P(estimate ≥ " +
				"(1+eta) kernel), OPRF",
			Inputs: []Input{
				dimension("d"), bounded("A", "number < 0", func(v float64) bool { return v < 0 }),
				nonnegative("v2"), natural("m"), nonnegative("eta"),
			},
			eval: func(in values) (any, error) {
				return forms.LogUpperTailOPRF(in.i("d"), in.f("A"), in.f("v2"), in.i("m"), in.f("eta")), nil
			},
		},
		{
			Name: "count.hoeffding_log",
			Reference: "CRT Thm 4.2 corrected: log of the number of projections for relative error eta at all pairs but with " +
				"probability fail; log_sup as crt.log_supZ_rel",
			Inputs: []Input{number("log_sup"), positive("eta"), probability("fail"), natural("pairs")},
			eval: func(in values) (any, error) {
				return result(forms.LogFeaturesHoeffding(in.f("log_sup"), in.f("eta"), in.f("fail"), in.i("pairs")))
			},
		},
		{
			Name:      "count.chebyshev_log",
			Reference: "Chebyshev: log of the number of projections for the same promise, any family; log_rv as logrv.*",
			Inputs:    []Input{number("log_rv"), positive("eta"), probability("fail"), natural("pairs")},
			eval: func(in values) (any, error) {
				return result(forms.LogFeaturesChebyshev(in.f("log_rv"), in.f("eta"), in.f("fail"), in.i("pairs")))
			},
		},
	}
}

func nonpositive(key string) Input {
	return bounded(key, "number ≤ 0", func(v float64) bool { return v <= 0 })
}
