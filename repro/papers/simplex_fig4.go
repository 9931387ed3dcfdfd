package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/lab"
)

var simplexFig4 = &lab.Item{
	ID: "simplex-fig4", Paper: simplex, Title: "Fig 4: conformity of five couplings for one draw of norms", Version: 1,
	Run: runSimplexFig4,
}

// simplexCouplings are those of Fig 4, the best last.
var simplexCouplings = []struct {
	name     string
	coupling coupling.Coupling
}{
	{"IIDRFs", coupling.IID{}},
	{"ORFs", coupling.Orthogonal{}},
	{"SimRFs", coupling.Simplex{}},
	{"SimRFs+", coupling.SimplexPlus{}},
	{"optimised", coupling.Optimised{V: 1}},
}

// conformity is SimRF eq 10 for given projections: the mean over pairs of 0F1(; d/2; v² |w_i+w_j|²/4).
func conformity(w dense.Matrix[float64], v float64) float64 {
	sum, pairs := 0.0, 0.0
	for i := range w.Rows {
		for j := range i {
			t := 0.0
			for k, a := range w.Row(i) {
				t += (a + w.Row(j)[k]) * (a + w.Row(j)[k])
			}
			sum += hypergeometric01(float64(w.Cols)/2, v*v*t/4)
			pairs++
		}
	}
	return sum / pairs
}

// hypergeometric01 is 0F1(; b; z) for z ≥ 0, by its series.
func hypergeometric01(b, z float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-17*sum; k++ {
		term *= z / (k * (b + k - 1))
		sum += term
	}
	return sum
}

func runSimplexFig4(l *lab.Lab) (*lab.Page, error) {
	const d, v = 6, 1.0
	draws := lab.Pick(l, 2000, 20000)
	type key struct {
		Coupling string
		Draws    int
	}
	var keys []key
	for _, c := range simplexCouplings {
		n := draws
		if c.name == "optimised" {
			n /= 20
		}
		keys = append(keys, key{c.name, n})
	}
	type value struct{ Mean, SE float64 }
	values, err := lab.Cells(l, "conformity", keys, func(k key, seed uint64) (r value, err error) {
		for _, c := range simplexCouplings {
			if c.name != k.Coupling {
				continue
			}
			rho := make([]float64, k.Draws)
			for i := range rho {
				w, err := c.coupling.Sample(d, d, coupling.Law{}, rng.Stream(seed, uint64(i)))
				if err != nil {
					return r, err
				}
				rho[i] = conformity(w.Rows, v)
			}
			r.Mean, r.SE = meanSD(rho)
			r.SE /= math.Sqrt(float64(k.Draws))
		}
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	// One draw of norms, as in the figure: that of SimRFs+, whose directions follow from the norms. The optimiser
	// starts from the same draw.
	var single [5]float64
	plus, err := coupling.SimplexPlus{}.Sample(d, d, coupling.Law{}, rng.Stream(lab.Seed))
	if err != nil {
		return nil, err
	}
	best, err := coupling.Optimised{V: v}.Sample(d, d, coupling.Law{}, rng.Stream(lab.Seed))
	if err != nil {
		return nil, err
	}
	norms := make([]float64, d)
	for i := range norms {
		norms[i] = math.Sqrt(dense.Norm2(plus.Rows.Row(i)))
		if other := math.Sqrt(dense.Norm2(best.Rows.Row(i))); math.Abs(other-norms[i]) > 1e-9 {
			return nil, fmt.Errorf("the optimised coupling has other norms: %g, %g", other, norms[i])
		}
	}
	fixed := func(c float64) float64 { // all pairs at the same angle
		sum := 0.0
		for i := range d {
			for j := range i {
				t := norms[i]*norms[i] + norms[j]*norms[j] + 2*c*norms[i]*norms[j]
				sum += hypergeometric01(d/2., v*v*t/4)
			}
		}
		return sum / (d * (d - 1) / 2)
	}
	var random []float64
	for i := range 100 {
		w, err := coupling.IID{}.Sample(d, d, coupling.Law{}, rng.Stream(lab.Seed, uint64(i)))
		if err != nil {
			return nil, err
		}
		for r := range d {
			row := w.Rows.Row(r)
			s := norms[r] / math.Sqrt(dense.Norm2(row))
			for j := range row {
				row[j] *= s
			}
		}
		random = append(random, conformity(w.Rows, v))
	}
	var sd float64
	single[0], sd = meanSD(random)
	single[1], single[2] = fixed(0), fixed(-1./(d-1))
	single[3], single[4] = conformity(plus.Rows, v), conformity(best.Rows, v)

	p := &lab.Page{Setting: []string{fmt.Sprintf("d = 6, v = |x+y| = 1. One draw of norms for all five couplings; iid directions "+
		"are averaged over 100 draws. The means over %d draws of the library's couplings are compared with the closed forms.",
		draws)}}
	fig := figure.Figure{Title: "Conformity for one draw of norms, d = 6, v = 1", X: figure.Axis{
		Label: "1 iid, 2 orthogonal, 3 simplex, 4 simplex+, 5 optimised", Ticks: []float64{1, 2, 3, 4, 5}},
		Y: figure.Axis{Label: "conformity ρ (lower is better)"}}
	s := figure.Series{Name: "this draw of norms"}
	for i, r := range single {
		s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, r)
		s.Low, s.High = append(s.Low, r), append(s.High, r)
	}
	s.Low[0], s.High[0] = single[0]-sd, single[0]+sd
	mean := figure.Series{Name: "mean over draws"}
	for i := range values {
		mean.X, mean.Y = append(mean.X, float64(i+1)), append(mean.Y, values[i].Mean)
	}
	fig.Series = []figure.Series{s, mean}
	if err := p.Draw("conformity", "Conformity of iid (with one standard deviation), orthogonal, simplex, simplex+ and "+
		"numerically optimised directions.", &fig); err != nil {
		return nil, err
	}
	for i := range 4 {
		a, b := simplexCouplings[i].name, simplexCouplings[i+1].name
		v := lab.Judge(single[i] >= single[i+1]-1e-9)
		if i == 0 { // a mean over 100 draws of directions
			v = lab.Order(single[0]-single[1], 2*sd/math.Sqrt(float64(len(random))))
		}
		p.Claim(a+" above "+b+", this draw", lab.StatedIn("Fig 4"), "ρ("+a+") > ρ("+b+")",
			fmt.Sprintf("%.5f, %.5f", single[i], single[i+1]), v, "the order is another for this draw")
	}
	gain, rest := single[1]-single[2], single[2]-single[4]
	p.Add(lab.Check{What: "what the best coupling gains over SimRFs", Source: lab.StatedIn("Fig 4"),
		Reference: "\"marginal\"", Verdict: lab.Shown,
		Ours: fmt.Sprintf("%.0f %% of what SimRFs gain over ORFs, for this draw", 100*rest/gain)})
	for i, m := range values[3:] {
		p.Add(lab.Check{What: "mean over draws, " + simplexCouplings[3+i].name,
			Source: lab.Source{Kind: lab.Unsaid}, Reference: "—", Verdict: lab.Shown,
			Ours: fmt.Sprintf("%.5f", m.Mean), Interval: fmt.Sprintf("± %.5f (3 se)", 3*m.SE)})
	}
	logs := []float64{v * v, forms.LogConformityOrthogonal(d, v*v), forms.LogConformitySimplex(d, v*v)}
	for i, want := range logs {
		var rivals []lab.Rival
		for j, other := range logs {
			if j != i {
				rivals = append(rivals, lab.Rival{Name: simplexCouplings[j].name, Value: math.Exp(other)})
			}
		}
		p.Near("mean over draws, "+simplexCouplings[i].name, lab.FormulaOf("(10) with (19), (23), (24)"),
			math.Exp(want), 0, values[i].Mean, 3*values[i].SE, 5, rivals, "outside three standard errors")
	}
	return p, nil
}
