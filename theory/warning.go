package theory

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
)

// Warning returns a sentence if a coupling of m projections is known to hurt a family at a pair, because it makes the
// estimate biased or worse than another coupling of the same cost, and "" otherwise. It names the first hazard that
// applies.
func Warning(k kernel.Kernel, f Estimator, c coupling.Coupling, m int, x, y []float64) string {
	if c == nil {
		return ""
	}
	d := k.Dim(len(x))
	form, err := f.Form(k.Kind, k.Embed(make([]float64, d), x), k.Embed(make([]float64, d), y))
	if w := fixedNorms(k, f, form, err, c); w != "" || err != nil {
		return w
	}
	for _, t := range form.Terms {
		for _, h := range hazards {
			if w := h(t, c, m); w != "" {
				return w
			}
		}
	}
	return ""
}

// hazards are the ways in which a coupling can harm one term of an estimator, the gravest first.
var hazards = []func(t forms.Term, c coupling.Coupling, m int) string{unevenRows, worsePairs, zeroSum}

// fixedNorms: ORF′ does not estimate the requested kernel, because rows of one norm are not Gaussian. Only unit rows
// with trigonometric features have a kernel of their own, the Bessel kernel (docs/theory.md §4.4).
func fixedNorms(k kernel.Kernel, f Estimator, form forms.Form, err error, c coupling.Coupling) string {
	prime, fixed := c.(coupling.ORFPrime)
	switch {
	case !fixed:
		return ""
	case err != nil || len(form.Terms) != 1 || !form.Terms[0].Cosine:
		name := "these"
		if f, ok := f.(interface{ Name() string }); ok {
			name = f.Name()
		}
		return fmt.Sprintf("orfprime draws rows of one fixed norm, which makes %s features biased for every kernel; "+
			"use orthogonal", name)
	case k.Kind == kernel.Bessel && !prime.SqrtDim:
		return ""
	}
	return fmt.Sprintf("orfprime makes trig features estimate the Bessel kernel, biased for the %v kernel asked for; "+
		"use orthogonal, or the bessel kernel with unit norms", k.Kind)
}

// hazardMargin is the relative bias, or excess of variance, that is worth a warning. (For trigonometric features at
// some large distances, orthogonal rows are worse than independent ones, but by at most 1.5 %.)
const hazardMargin = 0.02

// unevenRows: HD products of few factors or small size, and Givens products of few rotations (docs/theory.md §4.6).
func unevenRows(t forms.Term, c coupling.Coupling, m int) string {
	e, ok := coupling.Excess(c, t.Dim, m)
	if ok && e.Fourth == 0 && e.Sixth == 0 {
		return ""
	}
	size := "a bias that may exceed 10 %"
	switch ratio, err := logRowRatio(t, c, m); {
	case err == nil && math.Abs(ratio)*rowScale(t) <= hazardMargin/2:
		return ""
	case err == nil:
		size = fmt.Sprintf("a bias of about %+.1f %%", 100*math.Expm1(ratio))
	case ok && (!t.Couples || t.Radial && e.Dim != t.Dim):
		// There is no form for this term: judge it by positive features at |v| = 2 along an axis.
		c4, c6 := forms.RowCumulants(e.Dim, e.Fourth, e.Sixth, 4, 16, 64)
		if math.Abs(c4+c6) <= hazardMargin/2 {
			return ""
		}
		size = "a bias of unknown size"
	}
	exact := "orthogonal"
	if coupling.Pairs(c, t.Dim).Kind == coupling.PairSimplex {
		exact = "simplex"
	}
	return fmt.Sprintf("the rows of the %s coupling are not uniform in dimension %d: %s at this pair; leave the number "+
		"of factors or rotations to the default, or use %s", c.Name(), t.Dim, size, exact)
}

// worsePairs: closed forms say that the error is larger than that of orthogonal or independent rows.
func worsePairs(t forms.Term, c coupling.Coupling, m int) string {
	pairs := coupling.Pairs(c, t.Dim)
	if !t.Couples || pairs.Kind == coupling.PairIndependent || !pairs.Kind.Closed() ||
		t.Radial && (pairs.Dim != t.Dim || pairs.Kind == coupling.PairCoupled) {
		return ""
	}
	at := func(law coupling.PairKind) float64 {
		v, err := forms.LogRelMSE(t.Shape, law, pairs.Dim, m, t.LogRV, t.V.Two)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	own := at(pairs.Kind)
	for _, law := range []coupling.PairKind{coupling.PairOrthogonal, coupling.PairIndependent} {
		if ratio := math.Exp(own - at(law)); ratio > 1+hazardMargin {
			return fmt.Sprintf("the %s coupling makes %v features worse than %v rows: %.0f %% more variance at |%s|² = %.3g "+
				"in dimension %d; use %s", c.Name(), t.Shape, law, 100*(ratio-1), vector(t), t.V.Two, t.Dim,
				map[coupling.PairKind]string{coupling.PairOrthogonal: "orthogonal",
					coupling.PairIndependent: "iid"}[law])
		}
	}
	return ""
}

// vector names the vector that the term depends on.
func vector(t forms.Term) string {
	if t.Shape == forms.Trigonometric {
		return "x−y"
	}
	return "x+y"
}

// zeroSum: rows that sum to nearly zero have no closed form, but even functions of ω·v see the antipodal pairs as
// repetitions. Measured at |v| ≤ 2 (TestWarningsAreTrue): always more variance than orthogonal rows, in 2 and 3
// dimensions more than independent ones.
func zeroSum(t forms.Term, c coupling.Coupling, m int) string {
	if coupling.Pairs(c, t.Dim).Kind != coupling.PairZeroSum {
		return ""
	}
	if m < 2 || t.Dim < 2 || !t.Couples || t.Shape == forms.Exponential || t.V.Two > 4 || t.V.Two == 0 {
		return ""
	}
	return fmt.Sprintf("the %s coupling makes %v features worse than orthogonal rows at |%s| ≤ 2; use orthogonal",
		c.Name(), t.Shape, vector(t))
}
