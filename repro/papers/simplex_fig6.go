package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/theory"
)

var simplexFig6 = &lab.Item{
	ID: "simplex-fig6", Paper: simplex, Title: "Fig 6: mean squared error of couplings against iid, d = 64", Version: 1,
	Run: runSimplexFig6,
}

func runSimplexFig6(l *lab.Lab) (*lab.Page, error) {
	const d = 64
	couplings := []coupling.Coupling{coupling.IID{}, coupling.Orthogonal{}, coupling.Simplex{}}
	names := []string{"IIDRFs", "ORFs", "SimRFs"}
	mse := func(c coupling.Coupling, v float64) (float64, error) {
		x := make([]float64, d) // allocated here, because cells run concurrently
		x[0] = v / 2
		m, err := theory.Of(randfeat.Spec{}.Kernel, family.Positive{}, c, d, x, x)
		return m.LogRelMSE(), err
	}
	p := &lab.Page{Setting: []string{"Positive features, d = m = 64. The ratio depends on v = |x+y| alone. Curves are closed forms " +
		"(SimRF Thm 3.2 with 19, 23, 24); the relative error is also measured with the library's maps, at 16 directions per v."}}
	fig := figure.Figure{Title: "MSE of a coupling / MSE of iid, d = m = 64", X: figure.Axis{Label: "v = |x+y|"},
		Y: figure.Axis{Label: "ratio"}}
	for i, c := range couplings {
		s := figure.Series{Name: names[i]}
		for v := .1; v < 4.05; v += .1 {
			a, err := mse(c, v)
			if err != nil {
				return nil, err
			}
			b, err := mse(couplings[0], v)
			if err != nil {
				return nil, err
			}
			s.X, s.Y = append(s.X, v), append(s.Y, math.Exp(a-b))
		}
		fig.Series = append(fig.Series, s)
	}
	ordered := true
	for i := range fig.Series[0].X {
		ordered = ordered && fig.Series[2].Y[i] < fig.Series[1].Y[i] && fig.Series[1].Y[i] < 1
	}
	if err := p.Draw("ratio", "Smaller is better; the gain is largest where v is small.", &fig); err != nil {
		return nil, err
	}
	p.Claim("SimRFs best, then ORFs, then IIDRFs, for all v (closed forms)", lab.StatedIn("§5.1"), "always",
		fmt.Sprintf("%v on 40 values of v in 0.1 … 4", ordered), lab.Judge(ordered), "another order")
	p.Near("prefactor of v² of SimRFs, d = 64", lab.PrintedIn("§5.1"), .0078, .00005, forms.SimplexSmallV(d, d), 0, 6,
		[]lab.Rival{{Name: "IIDRFs and ORFs", Value: 1}}, "another value")

	vs := []float64{.25, .5, 1, 1.5}
	type key struct {
		Coupling string
		Reps     int
	}
	keys := []key{{"IIDRFs", lab.Pick(l, 16000, 200000)}, {"ORFs", lab.Pick(l, 16000, 200000)}, {"SimRFs", lab.Pick(l,
		16000, 200000)}}
	values, err := lab.Cells(l, "measured", keys, func(k key, seed uint64) (r []against, err error) {
		for i, c := range couplings {
			if names[i] != k.Coupling {
				continue
			}
			// All values of v share the projections: one draw serves them all.
			const dirs = 16
			rows := dense.New[float64](dirs*len(vs), d)
			unit := sphere(dirs, d, .5, seed)
			for a, v := range vs {
				for j := range dirs {
					for q, u := range unit.Row(j) {
						rows.Row(a*dirs + j)[q] = v * u
					}
				}
			}
			const batches = 40
			sums := make([][]float64, len(vs))
			for b := range batches {
				s, err := measurePairs(randfeat.Spec{Family: family.Positive{}, Coupling: c, Dim: d, M: d}, rows, rows,
					k.Reps/batches, 1, seed+uint64(1+b*k.Reps))
				if err != nil {
					return r, err
				}
				for a, v := range vs {
					want, err := mse(c, v)
					if err != nil {
						return r, err
					}
					mean, _ := meanSD(s.mean[a*dirs : (a+1)*dirs])
					sums[a] = append(sums[a], mean/math.Exp(want))
				}
			}
			for _, s := range sums {
				r = append(r, ratioOf(s))
			}
		}
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	var labels []string
	var ratios []against
	for i, k := range keys {
		for a, v := range vs {
			labels, ratios = append(labels, fmt.Sprintf("%s, v = %g", k.Coupling, v)), append(ratios, values[i][a])
		}
	}
	addRatios(p, lab.FormulaOf("Thm 3.2 with (19), (23), (24)"), "MSE measured / closed form", labels, ratios)
	return p, nil
}
