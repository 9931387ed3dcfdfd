package calc

import "github.com/randfeat/randfeat/internal/forms"

// concentrationEntries are docs/theory.md §5.3 and the bound of CRT Thm 4.1.
func concentrationEntries() []Entry {
	return []Entry{
		formula("crt.thm41_bound_log", "CRT Thm 4.1 corrected: log of pf(m,d) (2/(d+2)) (e^{v2/2} - 1)², to be "+
			"multiplied by e^{-2xx-2yy}",
			forms.LogBoundOrthogonalGain, dimension("d"), natural("m"), nonnegative("v2")),
		formula("crt.log_supZ_rel", "CRT Thm 4.2 corrected: log(sup Z / K)",
			forms.LogSupOPRF, dimension("d"), nonpositive("A"), nonnegative("v2")),
		formula("crt.hoeffding_log_rel", "CRT Thm 4.2 corrected: log of 2 exp(-2 m eta²/(sup Z/K)²), relative "+
			"deviation eta",
			forms.LogHoeffdingOPRF, dimension("d"), nonpositive("A"), nonnegative("v2"), natural("m"),
			nonnegative("eta")),
		formula("crt.upper_tail_log", "CRT Thm 4.2: log of the Legendre bound exp(-m Leg(1+eta)) on P(estimate ≥ "+
			"(1+eta) kernel), OPRF",
			forms.LogUpperTailOPRF, dimension("d"), bounded("A", "number < 0", func(v float64) bool { return v < 0 }),
			nonnegative("v2"), natural("m"), nonnegative("eta")),
		formula("count.hoeffding_log", "CRT Thm 4.2 corrected: log of the number of projections for relative "+
			"error eta at all pairs but with probability fail; log_sup as crt.log_supZ_rel",
			forms.LogFeaturesHoeffding, number("log_sup"), positive("eta"), probability("fail"), natural("pairs")),
		formula("count.chebyshev_log", "Chebyshev: log of the number of projections for the same promise, any "+
			"family; log_rv as logrv.*",
			forms.LogFeaturesChebyshev, number("log_rv"), positive("eta"), probability("fail"), natural("pairs")),
	}
}

func nonpositive(key string) Input {
	return bounded(key, "number ≤ 0", func(v float64) bool { return v <= 0 })
}
