package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/repro/lab"
)

var orfFig2 = &lab.Item{
	ID: "orf-fig2", Paper: orf, Title: "Figs 2 and 3: the mean of ORF′ within its bounds, its variance below that of RFF",
	Version: 1, Run: runORFFig2,
}

func runORFFig2(*lab.Lab) (*lab.Page, error) {
	p := &lab.Page{Setting: []string{"Closed forms: Theorem 2 with Proposition 3 (Fig 2), Theorem 4 with Proposition 6 (Fig 3; " +
		"the variance of RFF by Theorem 1 with its misprint corrected, 1 − e^{−z²} for 1 − e^{−z²/2}). That the closed forms " +
		"are those of the estimators is shown by Fig 1."}}
	// Proposition 3: e^{−z²/2} ≤ j(z) ≤ e^{−z²/(2d)} for z ≤ max(b_d, c_d).
	kernelRange := func(d float64) float64 {
		b := math.Pow(2, .25) * math.Pow(d, .75) * math.Sqrt(1-4/(2*math.Sqrt2*math.Pow(d, 1.5)-d))
		if d >= 5 {
			return max(b, math.Sqrt(d*d/4-1)*math.Sqrt(1-8/(d*d-2*d-4)))
		}
		return b
	}
	const d = 16
	var mean, low, high figure.Series
	mean.Name, low.Name, high.Name = "E k̃(x, y)", "e^{−z²/2}", "e^{−z²/(2d)}"
	for i := range 61 {
		z := kernelRange(d) * float64(i) / 60
		lo, hi := forms.ORFKernelBounds(d, z)
		for _, s := range []struct {
			s *figure.Series
			v float64
		}{{&mean, forms.ORFMean(d, z)}, {&low, lo}, {&high, hi}} {
			s.s.X, s.s.Y = append(s.s.X, z), append(s.s.Y, s.v)
		}
	}
	if err := p.Draw("bias", "The mean of ORF′ and the bounds of Proposition 3, d = 16.", &figure.Figure{
		Title: "Mean of ORF′ and its bounds, d = 16", X: figure.Axis{Label: "z = |x−y|"},
		Y:      figure.Axis{Label: "kernel"},
		Series: []figure.Series{mean, high, low}}); err != nil {
		return nil, err
	}
	broken, points := 0, 0
	for dim := 2; dim <= 128; dim++ {
		for i := range 200 {
			z := kernelRange(float64(dim)) * float64(i+1) / 200
			lo, hi := forms.ORFKernelBounds(dim, z)
			if j := forms.ORFMean(dim, z); j < lo*(1-1e-12) || j > hi*(1+1e-12) {
				broken++
			}
			points++
		}
	}
	p.Claim("Proposition 3 for z ≤ max(b_d, c_d), d = 2 … 128", lab.StatedIn("Proposition 3"), "true",
		fmt.Sprintf("broken at %d of %d points (closed forms)", broken, points), lab.Judge(broken == 0),
		"the printed range is too long for some d")

	var fig figure.Figure
	fig.Title, fig.X.Label, fig.Y.Label = "Variance of ORF′ and RFF, d = 16", "z = |x−y|", "variance"
	for _, count := range []int{4, 16} {
		prime, rff := figure.Series{Name: fmt.Sprintf("ORF′, p = %d", count)},
			figure.Series{Name: fmt.Sprintf("RFF, p = %d", count)}
		for z := .2; z <= 8; z += .2 {
			prime.X, prime.Y = append(prime.X, z), append(prime.Y, math.Exp(forms.LogVarORFPrime(d, count, z)))
			rff.X, rff.Y = append(rff.X, z), append(rff.Y, math.Exp(forms.LogVarRFF(count, z)))
		}
		fig.Series = append(fig.Series, prime, rff)
	}
	if err := p.Draw("variance", "The variance of ORF′ lies below that of RFF over the range of Proposition 6.", &fig); err != nil {
		return nil, err
	}
	broken, points = 0, 0
	for dim := 2; dim <= 128; dim++ {
		// Proposition 6: z ≤ max((d/2)^{3/4}, ½√(d²/4 − 1)), 2 ≤ p ≤ d.
		top := math.Pow(float64(dim)/2, .75)
		if dim > 2 {
			top = max(top, math.Sqrt(float64(dim*dim)/4-1)/2)
		}
		for _, count := range []int{2, (dim + 2) / 2, dim} {
			for i := range 100 {
				z := top * float64(i+1) / 100
				if forms.LogVarORFPrime(dim, count, z) > forms.LogVarRFF(count, z)+1e-12 {
					broken++
				}
				points++
			}
		}
	}
	p.Claim("Var ORF′ ≤ Var RFF, d = 2 … 128, p = 2, d/2, d", lab.StatedIn("Proposition 6"), "true",
		fmt.Sprintf("broken at %d of %d points (closed forms)", broken, points), lab.Judge(broken == 0),
		"the printed range is too long for some d")
	return p, nil
}
