package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
)

var hybridFig1 = &lab.Item{
	ID: "hybrid-fig1", Paper: hybrid, Title: "Fig 1: errors of the trigonometric, hyperbolic and angular hybrid estimators over " +
		"the angle", Version: 1, Run: runHybridFig1,
}

// atAngle sets x and y to vectors of length r with an angle between them, in a random plane.
func atAngle(x, y []float64, r, theta float64, seed uint64) {
	u := normals(2, len(x), 1, seed)
	a, b := u.Row(0), u.Row(1)
	na := math.Sqrt(dense.Norm2(a))
	for j := range a {
		a[j] /= na
	}
	dot := dense.Dot(a, b)
	for j := range b {
		b[j] -= dot * a[j]
	}
	nb := math.Sqrt(dense.Norm2(b))
	s, c := math.Sincos(theta)
	for j := range a {
		x[j], y[j] = r*a[j], r*(c*a[j]+s*b[j]/nb)
	}
}

func runHybridFig1(l *lab.Lab) (*lab.Page, error) {
	const m, n, top = 10, 1, 5.0
	eps := []struct {
		name string
		log  func(theta, r float64) float64 // log of the relative error
	}{
		{"trigonometric", func(t, r float64) float64 { return forms.LogEpsTrig(t, r, m) }},
		{"hyperbolic (++)", func(t, r float64) float64 { return forms.LogEpsHyperbolic(t, r, m) }},
		{"angular hybrid", func(t, r float64) float64 { return forms.LogEpsAngular(t, r, m, n) }},
	}
	p := &lab.Page{Setting: []string{"m = 10, n = 1 and lengths up to r = 5 as in the figure; mean squared errors of exp(x·y) by the " +
		"closed forms (HRF Lemma 2.2, Theorem 3.1 and eq 47 with its misprint corrected), measured at r = 1 with the library's maps."}}
	for _, r := range []float64{1, top} {
		fig := figure.Figure{Title: fmt.Sprintf("Log MSE of exp(x·y) over the angle, r = %g, m = 10, n = 1", r),
			X: figure.Axis{Label: "angle θ"}, Y: figure.Axis{Label: "log MSE"}}
		for _, e := range eps {
			s := figure.Series{Name: e.name}
			for i := range 60 {
				theta := math.Pi * (float64(i) + .5) / 60
				s.X, s.Y = append(s.X, theta), append(s.Y, 2*e.log(theta, r)+2*r*r*math.Cos(theta))
			}
			fig.Series = append(fig.Series, s)
		}
		if err := p.Draw(fmt.Sprintf("r%g", r), fmt.Sprintf("r = %g: only the angular hybrid vanishes at both ends.",
			r), &fig); err != nil {
			return nil, err
		}
	}
	const end = 1e-6
	for i, want := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		var got [2]bool
		for k, theta := range []float64{end, math.Pi - end} {
			got[k] = eps[i].log(theta, 1) < math.Log(1e-2)
		}
		p.Claim("relative error (closed form) below 1 % at θ = 10⁻⁶ and π − 10⁻⁶, r = 1, "+eps[i].name,
			lab.StatedIn("Fig 1"), fmt.Sprint(want[0], ", ", want[1]), fmt.Sprint(got[0], ", ", got[1]),
			lab.Judge(got == want), "another limit")
	}
	// Theorem 3.5: the largest relative error on the sphere.
	largest := func(r float64, n int) float64 {
		best := math.Inf(-1)
		for i := range 2000 {
			best = max(best, forms.LogEpsAngular(math.Pi*(float64(i)+.5)/2000, r, m, n))
		}
		return best
	}
	printed := func(r float64, n int) float64 {
		root := (1-1/float64(n))/math.Pi + 1/(float64(n)*math.SqrtPi)
		return forms.LogW(r) - math.Log(r) + math.Log(root/(2*m))/2
	}
	brokenPrinted, broken, where := 0, 0, ""
	for r := 1.0; r <= 8; r += .2 {
		for _, n := range []int{1, 2, 4, 8, 32} {
			if largest(r, n) > printed(r, n) {
				if brokenPrinted++; where == "" {
					where = fmt.Sprintf(", first at r = %.1f, n = %d", r, n)
				}
			}
			if largest(r, n) > forms.LogEpsAngularBound(r, m, n) {
				broken++
			}
		}
	}
	p.Claim("Theorem 3.5 as printed, r = 1 … 8, n = 1 … 32", lab.StatedIn("Theorem 3.5"), "an upper bound",
		fmt.Sprintf("broken at %d of 180 points%s", brokenPrinted, where), lab.Judge(brokenPrinted == 0), "the term 1/(n√π) must be r/(n√π): its proof bounds b₂ by e^{2r²}/(2n√π r)")
	p.Claim("Theorem 3.5 corrected", lab.FormulaOf("our correction of Theorem 3.5"), "an upper bound",
		fmt.Sprintf("broken at %d of 180 points", broken), lab.Judge(broken == 0), "broken")

	type key struct {
		Family string
		Theta  float64
		Reps   int
	}
	var keys []key
	for _, f := range []string{"trigonometric", "hyperbolic (++)", "angular hybrid"} {
		for _, theta := range []float64{.3, 1, 2, 2.8} {
			keys = append(keys, key{f, theta, lab.Pick(l, 40000, 1000000)})
		}
	}
	values, err := lab.Cells(l, "measured", keys, func(k key, seed uint64) (a against, err error) {
		const d, r, pairs, batches = 8, 1, 16, 40
		x, y := dense.New[float64](pairs, d), dense.New[float64](pairs, d)
		for i := range pairs {
			atAngle(x.Row(i), y.Row(i), r, k.Theta, rng.Mix64(seed+uint64(i)))
		}
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Dim: d, M: m}
		var want float64
		switch k.Family {
		case "trigonometric":
			spec.Family, want = family.Trig{}, forms.LogEpsTrig(k.Theta, r, m)
		case "hyperbolic (++)":
			spec.Family, want = family.Hyperbolic{}, forms.LogEpsHyperbolic(k.Theta, r, m)
		default:
			spec.Family, want = family.Angular{N: n}, forms.LogEpsAngular(k.Theta, r, m, n)
		}
		s, err := measurePairs(spec, x, y, k.Reps/pairs, batches, seed)
		if err != nil {
			return a, err
		}
		for i := range s.batch {
			s.batch[i] /= math.Exp(2 * want)
		}
		return ratioOf(s.batch), nil
	})
	if err != nil {
		return nil, err
	}
	var labels []string
	for _, k := range keys {
		labels = append(labels, fmt.Sprintf("%s, θ = %g", k.Family, k.Theta))
	}
	addRatios(p, lab.FormulaOf("Lemma 2.2, Theorem 3.1, (47) corrected"), "MSE measured / closed form at r = 1", labels,
		values)
	return p, nil
}
