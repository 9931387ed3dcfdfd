package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/repro/lab"
)

var chefsFig1 = &lab.Item{
	ID: "chefs-fig1", Paper: chefs, Title: "Fig 1 right: how much less variance OPRF has than positive features", Version: 1,
	Run: runChefsFig1,
}

// utility is μ, the logarithm of the ratio of the variances of OPRF and positive features.
func utility(d int, v2 float64) float64 {
	return forms.LogRVOPRF(d, forms.RhoStar(d, v2), v2) - forms.LogRVPositive(v2)
}

func runChefsFig1(l *lab.Lab) (*lab.Page, error) {
	p := &lab.Page{Setting: []string{"μ = log(Var OPRF / Var PosRF) of one projection, by CRT Thms 3.2 and 3.3, and the same " +
		"ratio measured with the library's maps where positive features have a variance that can be measured."}}
	var fig figure.Figure
	fig.Title, fig.X.Label, fig.Y.Label = "Variance of OPRF against positive features", "|x+y|²",
		"μ = log ratio of variances"
	for _, d := range []int{16, 32, 64, 128, 256} {
		s := figure.Series{Name: fmt.Sprintf("d = %d", d)}
		for v2 := 5.0; v2 <= 100; v2 += 5 {
			s.X, s.Y = append(s.X, v2), append(s.Y, utility(d, v2))
		}
		fig.Series = append(fig.Series, s)
	}
	if err := p.Draw("utility", "μ over the squared length of the sum of the inputs; smaller is better for OPRF.", &fig); err != nil {
		return nil, err
	}
	at := utility(64, 100)
	p.Claim("μ at d = 64, |x+y|² = 100", lab.PrintedIn("Fig 1, caption"), "< −60 (\"> e^60 times smaller variance\")",
		fmt.Sprintf("%.2f", at), lab.Judge(at < -60), "the closed form has another value")

	type key struct {
		D    int
		V2   float64
		Reps int
	}
	var keys []key
	for _, d := range []int{4, 16, 64} {
		for _, v2 := range []float64{0.25, 0.5, 1} {
			keys = append(keys, key{d, v2, lab.Pick(l, 6, 200)})
		}
	}
	type ratio struct{ Positive, OPRF, PositiveSE, OPRFSE float64 }
	values, err := lab.Cells(l, "ratio", keys, func(k key, seed uint64) (r ratio, err error) {
		// x = y of length v/2, because μ depends only on |x+y|.
		x := sphere(8, k.D, math.Sqrt(k.V2)/2, seed)
		measure := func(f family.Family, log float64) (mean, se float64, err error) {
			want := make([]float64, x.Rows)
			for i := range want {
				want[i] = math.Exp(log)
			}
			spec := randfeat.Spec{Family: f, Dim: k.D, M: 4096}
			b, err := singles(spec, x, x, want, 10, k.Reps, seed+1)
			mean, se = meanSD(b)
			return mean, se / math.Sqrt(float64(len(b))), err
		}
		rho := forms.RhoStar(k.D, k.V2)
		if r.Positive, r.PositiveSE, err = measure(family.Positive{}, forms.LogRVPositive(k.V2)); err != nil {
			return r, err
		}
		r.OPRF, r.OPRFSE, err = measure(family.OPRF{A: forms.AStar(k.D, k.V2)}, forms.LogRVOPRF(k.D, rho, k.V2))
		return r, err
	})
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		got, want := math.Log(values[i].OPRF/values[i].Positive)+utility(k.D, k.V2), utility(k.D, k.V2)
		half := 3 * math.Hypot(values[i].OPRFSE, values[i].PositiveSE)
		p.Near(fmt.Sprintf("μ measured, d = %d, |x+y|² = %g", k.D, k.V2), lab.FormulaOf("Thms 3.2 and 3.3"), want, 0,
			got, half, 4, []lab.Rival{{Name: "no gain", Value: 0}}, "the closed form is outside three standard errors")
	}
	return p, nil
}
