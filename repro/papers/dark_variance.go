package papers

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/theory"
)

var darkVariance = &lab.Item{
	ID: "dark-variance", Paper: dark, Title: "Variances of isotropic, optimal, tempered and combined maps on queries and keys",
	Version: 3, Run: runDarkVariance,
}

func runDarkVariance(l *lab.Lab) (*lab.Page, error) {
	families := []struct {
		name   string
		family family.Family
	}{
		{"isotropic", family.Positive{}},
		{"optimal Σ*", family.Importance{}},
		{"OPRF", family.OPRF{}},
		{"adaptive", family.Adaptive{}},
		{"tempered DARK", family.DARK{}},
		{"DARK × OPRF", family.DARK{Base: family.OPRF{}}},
	}
	type key struct {
		Data  string
		Alpha float64
		Head  int
		Rows  int
	}
	var keys []key
	rows := lab.Pick(l, 200, 1000)
	for _, alpha := range []float64{0, .5, 1, 1.5, 2, 3} {
		keys = append(keys, key{"synthetic", alpha, 0, rows})
	}
	for h := range lab.Pick(l, 6, 12) {
		keys = append(keys, key{"heads", 0, h, rows})
	}
	type value struct {
		Mean []float64 // mean log(1 + relative variance) over pairs, per family; −1: no fit exists
		Var  []float64 // log of the mean variance over pairs
	}
	values, err := lab.Cells(l, "log-variance", keys, func(k key, seed uint64) (v value, err error) {
		var x, y dense.Matrix[float64]
		if k.Data == "synthetic" {
			const d = 32
			spectrum := darkSpectrum(d, 1, k.Alpha)
			total := 0.0
			for _, e := range spectrum {
				total += e
			}
			x, y = normals(2*k.Rows, d, 1, seed), normals(2*k.Rows, d, 1, seed+1)
			for i := range x.Rows {
				for j := range d {
					s := math.Sqrt(2 * spectrum[j] / total) // E|x|² = 2 for every α
					x.Row(i)[j] *= s
					y.Row(i)[j] *= s
				}
			}
		} else {
			q, keys, _ := heads.Generate[float64](12, 2*k.Rows, 32, lab.Seed)
			x, y = q.Head(0, k.Head), keys.Head(0, k.Head)
			s := math.Pow(float64(x.Cols), -.25)
			x, y = scaled(x, s), scaled(y, s)
		}
		n := k.Rows
		for _, f := range families {
			spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f.family, Dim: x.Cols, M: 1}
			// Fitted on one half, judged on the other.
			spec, err := randfeat.Fit(spec, x.RowRange(0, n), y.RowRange(0, n))
			if err != nil {
				v.Mean, v.Var = append(v.Mean, -1), append(v.Var, 0)
				continue
			}
			sum, total := 0.0, math.Inf(-1)
			const pairs = 4000
			for i := range pairs {
				a, b := x.Row(n+i%n), y.Row(n+(i*7+i/n)%n)
				m, err := theory.Of(spec.Kernel, spec.Family, nil, 1, a, b)
				if err != nil {
					return v, fmt.Errorf("%s: %w", f.name, err)
				}
				sum += softplus(m.LogRelVar()) / pairs
				total = logAdd(total, m.LogVar-math.Log(pairs))
			}
			v.Mean, v.Var = append(v.Mean, sum), append(v.Var, total)
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{"The mean over pairs of log(1 + relative variance) of one projection, by the closed forms, on rows " +
		"that the fit has not seen. Synthetic: Gaussian, d = 32, E|x|² = 2, eigenvalues i^{−α}. Heads: those the library generates with " +
		"the statistics of a sentence encoder's, d = 32. Tempered DARK estimates another kernel, exp(xᵀΣy) with Σ = Cov⁻¹/8: its " +
		"figure is relative to that kernel and no better estimate of softmax."}}
	var fig figure.Figure
	fig.Title, fig.X.Label, fig.Y.Label = "Log relative variance over anisotropy, d = 32", "α: eigenvalues i^{−α}",
		"mean log(1 + relative variance)"
	for i, f := range families {
		s := figure.Series{Name: f.name}
		for j, k := range keys {
			if k.Data == "synthetic" && values[j].Mean[i] >= 0 {
				s.X, s.Y = append(s.X, k.Alpha), append(s.Y, values[j].Mean[i])
			}
		}
		if len(s.X) > 0 {
			fig.Series = append(fig.Series, s)
		}
	}
	if err := p.Draw("anisotropy", "Smaller is better. A map without points where its fit does not exist: the optimal proposal "+
		"needs eigenvalues below 1/2.", &fig); err != nil {
		return nil, err
	}
	t := lab.Table{Title: "Mean log(1 + relative variance)", Header: []string{"data"}}
	for _, f := range families {
		t.Header = append(t.Header, f.name)
	}
	beats, adaptiveBest, fits, cases := 0, 0, 0, 0
	for j, k := range keys {
		name := fmt.Sprintf("synthetic, α = %g", k.Alpha)
		if k.Data == "heads" {
			name = fmt.Sprintf("head %d", k.Head+1)
		}
		row := []string{name}
		for _, m := range values[j].Mean {
			if m < 0 {
				row = append(row, "no fit")
			} else {
				row = append(row, fmt.Sprintf("%.2f", m))
			}
		}
		t.Rows = append(t.Rows, row)
		m := values[j].Mean
		cases++
		if m[1] >= 0 {
			fits++
			if values[j].Var[1] < values[j].Var[0] {
				beats++
			}
		}
		if slices.Min(m[2:4]) == m[3] && m[3] <= m[0] {
			adaptiveBest++
		}
	}
	p.Tables = append(p.Tables, t)
	p.Claim("mean variance of Σ* below that of the isotropic proposal, where it exists", lab.StatedIn("Theorem 3.2(2)"),
		"always (in expectation)", fmt.Sprintf("%d of %d", beats, fits), lab.Judge(beats == fits),
		"a few pairs decide the mean")
	for _, c := range []struct {
		what string
		n    int
	}{{"cases where Σ* exists", fits}, {"cases where our adaptive map is the best unbiased one", adaptiveBest}} {
		p.Add(lab.Check{What: c.what, Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
			Ours: fmt.Sprintf("%d of %d", c.n, cases), Verdict: lab.Shown})
	}
	return p, nil
}

// softplus is log(1 + e^t).
func softplus(t float64) float64 {
	if t > 30 {
		return t
	}
	return math.Log1p(math.Exp(t))
}

// logAdd is log(e^a + e^b).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(a, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
