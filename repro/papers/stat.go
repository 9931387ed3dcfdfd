package papers

import (
	"fmt"
	"math"
	"strings"

	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/repro/lab"
)

// meanSD returns the mean and the standard deviation of a single value.
func meanSD(a []float64) (mean, sd float64) {
	for _, v := range a {
		mean += v / float64(len(a))
	}
	for _, v := range a {
		sd += (v - mean) * (v - mean)
	}
	if len(a) > 1 {
		sd = math.Sqrt(sd / float64(len(a)-1))
	}
	return mean, sd
}

// against is the ratio of a measured value to its closed form, with its standard error.
type against struct{ Ratio, SE float64 }

// ratioOf returns the mean of batch means and its standard error.
func ratioOf(batches []float64) (a against) {
	a.Ratio, a.SE = meanSD(batches)
	a.SE /= math.Sqrt(float64(len(batches)))
	return a
}

// addRatios judges measured values against closed forms. Each must lie within as many standard errors as the number
// of comparisons demands (one in a thousand runs fails by chance), and within 1 % if the measurement is that
// precise. An interval that also contains half or twice the closed form is too noisy.
func addRatios(p *lab.Page, from lab.Source, what string, names []string, ratios []against) {
	bound := stattest.Bound(1e-3, len(ratios))
	exact, within := 0, 0
	for i, r := range ratios {
		half := bound * r.SE
		p.Measured(lab.Check{What: what + ", " + names[i], Source: from, Reference: "1",
			Ours: fmt.Sprintf("%.4f", r.Ratio), Interval: fmt.Sprintf("± %.4f (%.1f se)", half, bound)},
			lab.Numbers{Reference: 1, Ours: r.Ratio, Half: half, Rivals: lab.Factor2},
			"the closed form is outside the interval, which is too short where a few draws decide the mean")
		if column, row, ok := strings.Cut(names[i], ", "); ok { // a name with two parts is a place in a table
			p.InTable(what, row, column)
		}
		if r.SE <= .003 {
			exact++
			if math.Abs(r.Ratio-1) <= .01 {
				within++
			}
		}
	}
	if exact == 0 {
		return
	}
	p.Claim(what+", where measured to a standard error of 0.3 %", from, "within 1 %",
		fmt.Sprintf("%d of %d (of %d in all; the others have tails too heavy for it)", within, exact, len(ratios)),
		lab.Judge(within == exact), "see the rows above")
}
