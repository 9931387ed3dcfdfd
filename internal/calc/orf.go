package calc

import "github.com/randfeat/randfeat/theory"

// orfEntries are docs/theory.md §5.5.
func orfEntries() []Entry {
	return []Entry{
		{
			Name: "orf.var_log", Reference: "ORF Thm 4: log variance of ORF′ with p projections, in blocks when p > d",
			Inputs: []Input{dimension("d"), natural("p"), nonnegative("z")},
			eval:   func(in values) (any, error) { return theory.LogVarORFPrime(in.i("d"), in.i("p"), in.f("z")), nil },
		},
		{
			Name: "orf.rff_var_log", Reference: "ORF Thm 1 corrected: log variance of p independent Fourier features",
			Inputs: []Input{natural("p"), nonnegative("z")},
			eval:   func(in values) (any, error) { return theory.LogVarRFF(in.i("p"), in.f("z")), nil },
		},
		{
			Name: "orf.constants", Reference: "ORF Props 3, 6; null where not defined (b, alpha, beta need d ≥ 2, c needs d ≥ 5)",
			Inputs: []Input{dimension("d")},
			eval: func(in values) (any, error) {
				c := theory.ORFConstantsOf(in.i("d"))
				return Object{{"b_d", c.B}, {"c_d", c.C}, {"alpha_d", c.Alpha}, {"beta_d", c.Beta}}, nil
			},
		},
		{
			Name: "orf.first_zero", Reference: "first positive zero of j_{d/2-1}",
			Inputs: []Input{dimension("d")},
			eval:   func(in values) (any, error) { return theory.ORFFirstZero(in.i("d")), nil },
		},
	}
}
