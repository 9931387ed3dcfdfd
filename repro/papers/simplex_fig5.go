package papers

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/lab"
)

var simplexFig5 = &lab.Item{
	ID: "simplex-fig5", Paper: simplex, Title: "Fig 5: the law of |w_i + w_j| under three couplings", Version: 1,
	Run: runSimplexFig5,
}

func runSimplexFig5(l *lab.Lab) (*lab.Page, error) {
	const d = 6
	blocks := lab.Pick(l, 4000, 100000)
	density := []func(w float64) float64{
		func(w float64) float64 { return math.Exp(forms.LogPairNormIID(d, w)) },
		func(w float64) float64 { return math.Exp(forms.LogPairNormAngle(d, w, 0)) },
		func(w float64) float64 { return math.Exp(forms.LogPairNormAngle(d, w, -1./(d-1))) },
	}
	type key struct {
		Coupling string
		Blocks   int
	}
	keys := []key{{"IIDRFs", blocks}, {"ORFs", blocks}, {"SimRFs", blocks}}
	type value struct{ KS, Mean float64 }
	values, err := lab.Cells(l, "distance", keys, func(k key, seed uint64) (v value, err error) {
		at := slices.IndexFunc(keys, func(o key) bool { return o == k })
		// Only the first two rows of each block: pairs of one block are not independent.
		norm := make([]float64, k.Blocks)
		for b := range norm {
			w, err := simplexCouplings[at].coupling.Sample(d, d, coupling.Law{}, rng.Stream(seed, uint64(b)))
			if err != nil {
				return v, err
			}
			for j, a := range w.Rows.Row(0) {
				norm[b] += (a + w.Rows.Row(1)[j]) * (a + w.Rows.Row(1)[j])
			}
			norm[b] = math.Sqrt(norm[b])
			v.Mean += norm[b] / float64(k.Blocks)
		}
		slices.Sort(norm)
		// The distribution function by Simpson's rule on a fine grid between the sorted values.
		const step = 1e-3
		cdf, x := 0.0, 0.0
		for i, w := range norm {
			for x+step <= w {
				cdf += step / 6 * (density[at](x+1e-12) + 4*density[at](x+step/2) + density[at](x+step))
				x += step
			}
			here := cdf + (w-x)*density[at]((x+w)/2)
			v.KS = max(v.KS, math.Abs(here-float64(i)/float64(k.Blocks)), math.Abs(here-float64(i+1)/float64(k.Blocks)))
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("d = 6. Densities by SimRF Lemmas 4.1 and 4.2; the distance of Kolmogorov and "+
		"Smirnov of %d pairs drawn by the library from them.", blocks)}}
	fig := figure.Figure{Title: "Density of |w_i + w_j|, d = 6", X: figure.Axis{Label: "w"},
		Y: figure.Axis{Label: "density"}}
	for i, k := range keys {
		s := figure.Series{Name: k.Coupling}
		for w := 0.25; w <= 7; w += 0.25 {
			s.X, s.Y = append(s.X, w), append(s.Y, density[i](w))
		}
		fig.Series = append(fig.Series, s)
	}
	if err := p.Draw("density", "The couplings move mass away from large |w_i + w_j|.", &fig); err != nil {
		return nil, err
	}
	bound := 1.95 / math.Sqrt(float64(blocks)) // 0.1 %
	for i, k := range keys {
		var rivals []lab.Rival
		for j, other := range keys {
			if j != i {
				rivals = append(rivals, lab.Rival{Name: "the law of " + other.Coupling,
					Value: apart(density[i], density[j])})
			}
		}
		p.Measured(lab.Check{What: "distance of " + k.Coupling + " from its density",
			Source: lab.FormulaOf("Lemmas 4.1 and 4.2"), Reference: "0", Ours: fmt.Sprintf("%.4f", values[i].KS),
			Interval: fmt.Sprintf("≤ %.4f with 99.9 %%", bound)},
			lab.Numbers{Ours: values[i].KS, Half: bound, Rivals: rivals}, "another law")
	}
	tail := func(i int) (t float64) {
		for w := 5.0; w < 15; w += .01 {
			t += .01 * density[i](w+.005)
		}
		return t
	}
	p.Claim("mass above w = 5 (closed forms)", lab.StatedIn("Fig 5"), "iid > orthogonal > simplex",
		fmt.Sprintf("%.4f, %.4f, %.4f", tail(0), tail(1), tail(2)), lab.Judge(tail(0) > tail(1) && tail(1) > tail(2)),
		"another order")
	return p, nil
}

// apart returns the Kolmogorov-Smirnov distance of two densities on [0, 15].
func apart(a, b func(w float64) float64) (distance float64) {
	const step = .01
	difference := 0.0
	for w := step / 2; w < 15; w += step {
		difference += step * (a(w) - b(w))
		distance = max(distance, math.Abs(difference))
	}
	return distance
}
