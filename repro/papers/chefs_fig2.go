package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/theory"
)

var chefsFig2 = &lab.Item{
	ID: "chefs-fig2", Paper: chefs, Title: "Fig 2: log-variance of eight families in four regimes",
	Data:    []string{mnistFile},
	Version: 1, Run: runChefsFig2,
}

const chefsDim = 64

var chefsRegimes = []string{"normal", "sphere", "heterogen", "mnist"}

// chefsPairs draws n queries and n keys of a regime (CRT §5.1).
func chefsPairs(l *lab.Lab, regime string, n int, sigma float64, seed uint64) (x, y dense.Matrix[float64], err error) {
	switch regime {
	case "normal":
		return normals(n, chefsDim, sigma, seed), normals(n, chefsDim, sigma, seed+1), nil
	case "sphere":
		return sphere(n, chefsDim, sigma, seed), sphere(n, chefsDim, sigma, seed+1), nil
	case "heterogen":
		x, y = normals(n, chefsDim, sigma, seed), normals(n, chefsDim, sigma, seed+1)
		for i := range y.Data {
			y.Data[i] += sigma
		}
		return x, y, nil
	}
	images, err := readMNIST(l, 2*n)
	if err != nil {
		return x, y, err
	}
	images = scaled(images, sigma)
	return images.RowRange(0, n), images.RowRange(n, 2*n), nil
}

// chefsFit fits a family to queries and keys. share is what its variance is divided by for equal cost: a real map
// has two features where a complex one has a pair (CRT 9.10.1).
func chefsFit(f chefsFamily, x, y dense.Matrix[float64]) (spec randfeat.Spec, share float64, err error) {
	spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian}, Family: f.family, Dim: chefsDim, M: 1}
	if spec, err = randfeat.Fit(spec, x, y); err != nil {
		return spec, 0, err
	}
	out, err := spec.OutDim()
	return spec, 2 / float64(out), err
}

func runChefsFig2(l *lab.Lab) (*lab.Page, error) {
	n, keysEach := lab.Pick(l, 96, 1024), lab.Pick(l, 96, 8) // all pairs would be a million closed forms, a day
	sigmas := []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
	type key struct {
		Regime string
		Sigma  float64
		Rows   int
		Each   int // keys per query
		Draw   int
	}
	var keys []key
	for _, r := range chefsRegimes {
		for _, s := range sigmas {
			for draw := range lab.Pick(l, 1, 5) {
				keys = append(keys, key{r, s, n, keysEach, draw})
			}
		}
	}
	type value struct{ Mean, SD []float64 } // per family, of the log-variance over pairs
	values, err := lab.Cells(l, "log-variance", keys, func(k key, _ uint64) (v value, err error) {
		// All σ share the same draws, which makes smooth curves.
		x, y, err := chefsPairs(l, k.Regime, k.Rows, k.Sigma, lab.Seed+uint64(1000*k.Draw))
		if err != nil {
			return v, err
		}
		for _, f := range chefsFamilies {
			spec, share, err := chefsFit(f, x, y)
			if err != nil {
				return v, err
			}
			logs := make([]float64, 0, x.Rows*k.Each)
			for i := range x.Rows {
				for j := range k.Each {
					m, err := theory.Of(spec.Kernel, spec.Family, nil, 1, x.Row(i), y.Row((i+j)%y.Rows))
					if err != nil {
						return v, err
					}
					logs = append(logs, m.LogVar-math.Log(share))
				}
			}
			mean, sd := meanSD(logs)
			v.Mean, v.SD = append(v.Mean, mean), append(v.SD, sd)
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	// at returns mean and deviation over pairs and draws.
	at := func(regime string, sigma float64, family int) (mean, sd float64) {
		n := 0.0
		for i, k := range keys {
			if k.Regime == regime && k.Sigma == sigma {
				mean, sd, n = mean+values[i].Mean[family], sd+values[i].SD[family], n+1
			}
		}
		return mean / n, sd / n
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("d = 64, %d queries and as many keys, %d keys per query; "+
		"parameters fitted to the set; the mean of the log-variance by the closed forms CRT (6), (11), (13). Real features count half: two of them cost what a "+
		"complex one costs. MNIST is shrunk to 8×8 by means over areas and scaled to [0, 1] before σ (the paper does not "+
		"say how).", n, keysEach)}}
	// Signed and positive families on separate plots, as in the paper.
	for _, regime := range chefsRegimes {
		for _, part := range []struct {
			name     string
			families []int
		}{{"signed", []int{0, 2, 3, 4}}, {"positive", []int{1, 5, 6, 7}}} {
			fig := figure.Figure{Title: "Log-variance, " + regime + ", " + part.name + " families",
				X: figure.Axis{Label: "σ", Ticks: []float64{.2, .4, .6, .8, 1}},
				Y: figure.Axis{Label: "mean log-variance"}}
			for _, f := range part.families {
				s := figure.Series{Name: chefsFamilies[f].name}
				for _, sigma := range sigmas {
					m, sd := at(regime, sigma, f)
					s.X, s.Y = append(s.X, sigma), append(s.Y, m)
					s.Low, s.High = append(s.Low, m-sd), append(s.High, m+sd)
				}
				fig.Series = append(fig.Series, s)
			}
			if err := p.Draw(regime+"-"+part.name, "Mean and standard deviation over pairs, "+regime+", "+part.name+
				" families.", &fig); err != nil {
				return nil, err
			}
		}
	}
	gain := func(regime string, f, base int) float64 {
		a, _ := at(regime, 1, f)
		b, _ := at(regime, 1, base)
		return b - a
	}
	for _, c := range []struct {
		regime  string
		f, base int
		more    float64
	}{{"normal", 2, 0, 80}, {"heterogen", 2, 0, 125}, {"mnist", 2, 0, 10}, {"normal", 5, 1, 75}, {"heterogen", 5, 1,
		125},
		{"mnist", 5, 1, 7}, {"normal", 7, 1, 75}, {"heterogen", 7, 1, 125}, {"mnist", 7, 1, 7}} {
		g := gain(c.regime, c.f, c.base)
		why := ""
		switch {
		case c.regime == "mnist":
			why = "how images are resized is not printed. With nearest pixels instead of means OPRF has 6.4, GeomRF+ 7.5; GERF " +
				"is TrigRF (s = −1, A ≈ 0) with every resizing tried (means, bilinear, nearest, brightness ×1 to ×2, the " +
				"UCI digits): no choice of A and s is better for these averages"
		case c.f == 7:
			why = "\"OPRF and GeomRF+ give more than …\" is true of the better of the two in this regime, not of each"
		default:
			why = "read off a plot"
		}
		p.Claim(fmt.Sprintf("log variance of %s below %s, %s, σ = 1", chefsFamilies[c.f].name,
			chefsFamilies[c.base].name, c.regime), lab.PrintedIn("§5.1"), fmt.Sprintf("> %g", c.more),
			fmt.Sprintf("%.1f", g), lab.Judge(g > c.more), why)
		p.InTable("Logarithm of the ratio of variances, σ = 1", chefsFamilies[c.f].name+" below "+
			chefsFamilies[c.base].name, c.regime)
	}
	return p, checkChefsFig2(l, p)
}

// checkChefsFig2 measures variances with the library's maps where a precision of 1 % is possible.
func checkChefsFig2(l *lab.Lab, p *lab.Page) error {
	type key struct {
		Regime, Family string
		Sigma          float64
		Batches        int
	}
	var keys []key
	for _, r := range chefsRegimes {
		for _, f := range chefsFamilies {
			keys = append(keys, key{r, f.name, .1, lab.Pick(l, 40, 1000)})
		}
	}
	values, err := lab.Cells(l, "measured", keys, func(k key, seed uint64) (v against, err error) {
		x, y, err := chefsPairs(l, k.Regime, 16, k.Sigma, seed)
		if err != nil {
			return v, err
		}
		for _, f := range chefsFamilies {
			if f.name != k.Family {
				continue
			}
			spec, _, err := chefsFit(f, x, y)
			if err != nil {
				return v, err
			}
			want := make([]float64, x.Rows)
			for i := range want {
				m, err := theory.Of(spec.Kernel, spec.Family, nil, 1, x.Row(i), y.Row(i))
				if err != nil {
					return v, err
				}
				want[i] = math.Exp(m.LogRelVar())
			}
			spec.M = 2048
			b, err := singles(spec, x, y, want, k.Batches, 10, seed+7)
			if err != nil {
				return v, err
			}
			v = ratioOf(b)
		}
		return v, nil
	})
	if err != nil {
		return err
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Family + ", " + k.Regime
	}
	addRatios(p, lab.FormulaOf("(6), (11), (13)"), "variance measured / closed form at σ = 0.1", names, values)
	return nil
}
