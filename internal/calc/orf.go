package calc

import (
	"fmt"

	"github.com/randfeat/randfeat/internal/forms"
)

// orfEntries are docs/theory.md §5.5.
func orfEntries() []Entry {
	return []Entry{
		formula("orf.var_log", "ORF Thm 4: log variance of ORF′ with p projections, in blocks when p > d",
			forms.LogVarORFPrime, dimension("d"), natural("p"), nonnegative("z")),
		formula("orf.rff_var_log", "ORF Thm 1 corrected: log variance of p independent Fourier features",
			forms.LogVarRFF, natural("p"), nonnegative("z")),
		{
			Name:      "orf.constants",
			Reference: "ORF Props 3, 6; null where not defined (b, alpha, beta need d ≥ 2, c needs d ≥ 5)",
			Inputs:    []Input{dimension("d")},
			eval: func(in values) (any, error) {
				c := forms.ORFConstantsOf(in.i("d"))
				return Object{{"b_d", c.B}, {"c_d", c.C}, {"alpha_d", c.Alpha}, {"beta_d", c.Beta}}, nil
			},
		},
		{
			Name: "orf.ranges", Reference: "ORF Props 3, 6: largest z of orf.kernel_bounds, orf.variance_bounds, and of " +
				"Var(ORF′) ≤ Var(Fourier); null for d = 1",
			Inputs: []Input{dimension("d")},
			eval: func(in values) (any, error) {
				c := forms.ORFConstantsOf(in.i("d"))
				return Object{{"kernel", c.KernelRange()}, {"variance", c.VarianceRange()},
						{"improvement", c.ImprovementRange()}},
					nil
			},
		},
		formula("orf.mean", "ORF Thm 2 eq 8: mean of ORF′, j_{d/2-1}(z)",
			forms.ORFMean, dimension("d"), nonnegative("z")),
		formula("orf.bias", "ORF Thm 2: bias of ORF′ for the Gaussian kernel, j_{d/2-1}(z) - e^{-z²/2}",
			forms.ORFBias, dimension("d"), nonnegative("z")),
		{
			Name: "orf.kernel_bounds", Reference: "ORF Prop 3 eq 9: bounds on j_{d/2-1}(z), z up to orf.ranges",
			Inputs: []Input{dimension("d"), nonnegative("z")},
			eval: func(in values) (any, error) {
				d, z := in.i("d"), in.f("z")
				if err := upTo(z, forms.ORFConstantsOf(d).KernelRange()); err != nil {
					return nil, err
				}
				return bounds(forms.ORFKernelBounds(d, z)), nil
			},
		},
		{
			Name: "orf.variance_bounds", Reference: "ORF eq 12: bounds on the variance of ORF′ with p ≤ d projections, z up " +
				"to orf.ranges",
			Inputs: []Input{dimension("d"), natural("p"), nonnegative("z")},
			eval: func(in values) (any, error) {
				d, p, z := in.i("d"), in.i("p"), in.f("z")
				if p > d {
					return nil, outOfRange("p", p, "at most d")
				}
				if err := upTo(z, forms.ORFConstantsOf(d).VarianceRange()); err != nil {
					return nil, err
				}
				return bounds(forms.ORFVarianceBounds(d, p, z)), nil
			},
		},
		formula("orf.first_zero", "first positive zero of j_{d/2-1}", forms.ORFFirstZero, dimension("d")),
	}
}

// upTo refuses z outside the range of a bound: beyond it the inequality is not proved.
func upTo(z, most float64) error {
	if z <= most {
		return nil
	}
	return outOfRange("z", z, fmt.Sprintf("at most %v (orf.ranges)", most))
}

func bounds(lo, hi float64) Object { return Object{{"lower", lo}, {"upper", hi}} }
