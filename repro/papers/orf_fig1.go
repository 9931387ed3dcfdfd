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
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
)

var orfFig1 = &lab.Item{
	ID: "orf-fig1", Paper: orf, Title: "Fig 1: empirical mean and variance of ORF′ against the closed forms, d = 300",
	Version: 1, Run: runORFFig1,
}

func runORFFig1(l *lab.Lab) (*lab.Page, error) {
	const d, s = 300, 50
	ps := []int{10, 50, 100, 150, 200, 250, 300}
	type key struct{ Repeat int }
	var keys []key
	for r := range lab.Pick(l, 5, 10) {
		keys = append(keys, key{r})
	}
	type value struct {
		Z         float64
		Mean, Var []float64 // empirical, per p
	}
	values, err := lab.Cells(l, "moments", keys, func(_ key, seed uint64) (v value, err error) {
		xy := normals(2, d, 1, seed)
		x, y := xy.RowRange(0, 1), xy.RowRange(1, 2)
		for j, a := range xy.Row(0) {
			v.Z += (a - xy.Row(1)[j]) * (a - xy.Row(1)[j])
		}
		v.Z = math.Sqrt(v.Z)
		est := make([][]float64, len(ps))
		got := dense.New[float64](1, 1)
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Family: family.Trig{}, Dim: d}
		for i := range s {
			// One Haar matrix serves every p: its first p rows.
			w, err := coupling.ORFPrime{}.Sample(d, d, coupling.Law{}, rng.Stream(seed, uint64(i)))
			if err != nil {
				return v, err
			}
			for k, p := range ps {
				m, err := randfeat.NewWithOmega[float64](spec, []coupling.Omega{{Rows: w.Rows.RowRange(0, p)}})
				if err != nil {
					return v, err
				}
				if err := m.Gram(got, x, y, nil); err != nil {
					return v, err
				}
				est[k] = append(est[k], got.At(0, 0))
			}
		}
		for _, e := range est {
			mean, sd := meanSD(e)
			v.Mean, v.Var = append(v.Mean, mean), append(v.Var, sd*sd)
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("x, y ~ N(0, I), d = 300, so z = |x−y| is about 24; s = 50 Haar matrices, %d "+
		"repetitions. Quick and full differ in the repetitions alone (the paper: 10).", len(keys))}}
	bias := figure.Series{Name: "|mean − closed form|"}
	vari := figure.Series{Name: "|variance − closed form|"}
	bound := stattest.Bound(1e-3, len(ps))
	n := float64(len(keys))
	var labels []string
	var ratios []against
	for k, count := range ps {
		sumZ, gauss, sumB, sumV, ratio := 0.0, 0.0, 0.0, 0.0, 0.0
		for _, v := range values {
			want := math.Exp(forms.LogVarORFPrime(d, count, v.Z))
			mean := forms.ORFMean(d, v.Z)
			sumZ += (v.Mean[k] - mean) / math.Sqrt(want/s) / math.Sqrt(n)
			// What sumZ would be on average if the mean were the Gaussian kernel.
			gauss += (math.Exp(-v.Z*v.Z/2) - mean) / math.Sqrt(want/s) / math.Sqrt(n)
			sumB += math.Abs(v.Mean[k]-mean) / n
			sumV += math.Abs(v.Var[k]-want) / n
			ratio += v.Var[k] / want / n
		}
		bias.X, bias.Y = append(bias.X, float64(count)), append(bias.Y, sumB)
		vari.X, vari.Y = append(vari.X, float64(count)), append(vari.Y, sumV)
		p.Measured(lab.Check{What: fmt.Sprintf("z-score of the mean, p = %d", count),
			Source: lab.FormulaOf("Theorem 2"), Reference: "0", Ours: fmt.Sprintf("%.2f", sumZ),
			Interval: fmt.Sprintf("± %.1f; mean absolute error %.1e", bound, sumB)},
			lab.Numbers{Ours: sumZ, Half: bound, Rivals: []lab.Rival{{Name: "the Gaussian kernel", Value: gauss}}},
			"a biased mean")
		labels = append(labels, fmt.Sprintf("p = %d", count))
		ratios = append(ratios, against{ratio, math.Sqrt(2. / (s - 1) / n)})
	}
	addRatios(p, lab.FormulaOf("Theorem 4"), "variance measured / closed form", labels, ratios)
	fig := figure.Figure{Title: "Empirical against closed moments of ORF′, d = 300, s = 50",
		X: figure.Axis{Label: "random features p"}, Y: figure.Axis{Label: "absolute difference", Log: true},
		Series: []figure.Series{bias, vari}}
	return p, p.Draw("difference", "Mean absolute differences of the empirical mean and variance from Theorems 2 and 4.",
		&fig)
}
