package papers

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
)

var league = &lab.Item{
	ID: "league", Paper: beyond, Title: "One league: every family and coupling, every data set, equal output size",
	Data: append(uciFiles(), mnistFile), Version: 2, Run: runLeague,
}

const leagueFeatures = 256

// leagueData is a set of queries and keys with at most 64 columns. One half of the rows is for fitting, the other
// for judging.
type leagueData struct {
	name string
	draw func(l *lab.Lab, n int) (x, y dense.Matrix[float64], err error)
}

// leagueSets lists all sets: those of Chefs' Fig 2 at two widths, the UCI tables at the width of Simplex's Table 2,
// clusters, anisotropic rows, and attention heads.
func leagueSets() (sets []leagueData) {
	for _, sigma := range []float64{.1, .3} {
		for _, regime := range chefsRegimes {
			sets = append(sets, leagueData{fmt.Sprintf("%s, σ = %g", regime, sigma),
				func(l *lab.Lab, n int) (x, y dense.Matrix[float64], err error) {
					return chefsPairs(l, regime, n, sigma, lab.Seed)
				}})
		}
	}
	for set, s := range uciSets {
		sets = append(sets, leagueData{s.name, func(l *lab.Lab, n int) (x, y dense.Matrix[float64], err error) {
			parts, err := simplexSplit(l, set, 0, 2*n, false)
			if err != nil {
				return x, y, err
			}
			n = min(n, parts.train.x.Rows/2)
			return parts.train.x.RowRange(0, n), parts.train.x.RowRange(n, 2*n), nil
		}})
	}
	sets = append(sets, leagueData{"clusters", func(_ *lab.Lab, n int) (x, y dense.Matrix[float64], err error) {
		x, y = clusteredSets[0].draw(n/2, 50)
		// Rows come cluster by cluster; both halves must have both.
		mix := func(z dense.Matrix[float64]) dense.Matrix[float64] {
			m := dense.New[float64](z.Rows, z.Cols)
			for i := range m.Rows {
				copy(m.Row(i), z.Row(i/2+i%2*(z.Rows/2)))
			}
			return m
		}
		return scaled(mix(x), 10), mix(y), nil // all rows of length 1
	}})
	for _, alpha := range []float64{1, 2} {
		sets = append(sets, leagueData{fmt.Sprintf("anisotropic, i^−%g", alpha),
			func(_ *lab.Lab, n int) (x, y dense.Matrix[float64], err error) {
				const d = 32
				spectrum := darkSpectrum(d, 1, alpha)
				x, y = normals(n, d, 1, lab.Seed), normals(n, d, 1, lab.Seed+1)
				for i := range n {
					for j := range d {
						x.Row(i)[j] *= math.Sqrt(spectrum[j] / 2)
						y.Row(i)[j] *= math.Sqrt(spectrum[j] / 2)
					}
				}
				return x, y, nil
			}})
	}
	for h := range 3 {
		sets = append(sets, leagueData{fmt.Sprintf("head %d", h+1),
			func(_ *lab.Lab, n int) (x, y dense.Matrix[float64], err error) {
				q, k, _ := heads.Generate[float64](12, n, 32, lab.Seed)
				s := math.Pow(32, -.25)
				return scaled(q.Head(0, 4*h), s), scaled(k.Head(0, 4*h), s), nil
			}})
	}
	return sets
}

// leagueError returns the squared error of a Gram matrix relative to its squared norm, the median over draws.
func leagueError(spec randfeat.Spec, x, y dense.Matrix[float64], draws int, seed uint64) (float64, error) {
	n := x.Rows
	exact, got := dense.New[float64](n, n), dense.New[float64](n, n)
	if err := kernel.Gram(spec.Kernel, exact, x, y); err != nil {
		return 0, err
	}
	norm := dense.Norm2(exact.Data)
	var ws randfeat.Workspace[float64]
	ws.Workers = 1
	e := make([]float64, draws)
	for r := range e {
		m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(r))))
		if err != nil {
			return 0, err
		}
		if err := m.Gram(got, x, y, &ws); err != nil {
			return 0, err
		}
		for i, v := range exact.Data {
			e[r] += (got.Data[i] - v) * (got.Data[i] - v) / norm
		}
	}
	slices.Sort(e)
	return e[draws/2], nil
}

func runLeague(l *lab.Lab) (*lab.Page, error) {
	sets := leagueSets()
	type key struct {
		Set            string
		Rows, Features int
		Draws          int
	}
	var keys []key
	for _, s := range sets {
		keys = append(keys, key{s.name, lab.Pick(l, 128, 512), leagueFeatures, lab.Pick(l, 5, 25)})
	}
	type entry struct {
		Family, Coupling string
		Error            float64
	}
	type value struct {
		Entries []entry
		Skipped int // combinations without a fit, a law or so few features
	}
	values, err := lab.Cells(l, "errors", keys, func(k key, seed uint64) (v value, err error) {
		at := slices.IndexFunc(sets, func(s leagueData) bool { return s.name == k.Set })
		x, y, err := sets[at].draw(l, k.Rows)
		if err != nil {
			return v, err
		}
		n := x.Rows / 2
		for _, info := range family.List() {
			for _, ex := range info.Examples(x.Cols) {
				if !ex.Fit && info.Fits || !info.Unbiased || ex.Biased {
					continue // parameters of an example do not suit these data; other targets cannot be compared
				}
				base := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: ex.Family, Dim: x.Cols}
				if target := base.Target(); target.Kind != kernel.Softmax || !target.M.IsEmpty() {
					continue
				}
				fitted, err := randfeat.Fit(base, x.RowRange(0, n), y.RowRange(0, n))
				if err == nil {
					fitted, err = fitted.WithFeatures(k.Features)
				}
				if target := fitted.Target(); err != nil || target.Kind != kernel.Softmax || !target.M.IsEmpty() {
					v.Skipped++
					continue
				}
				for _, ci := range coupling.List() {
					if ci.Replaces || !ci.Exact || ci.Benchmark {
						continue
					}
					spec := fitted
					spec.Coupling = ci.Examples()[0]
					e, err := leagueError(spec, x.RowRange(n, 2*n), y.RowRange(n, 2*n), k.Draws, seed)
					if errors.Is(err, coupling.ErrLaw) {
						continue
					}
					if err != nil {
						v.Skipped++
						continue
					}
					v.Entries = append(v.Entries, entry{ex.Name, ci.Name, min(e, 1e300)})
				}
			}
		}
		slices.SortStableFunc(v.Entries, func(a, b entry) int {
			switch {
			case a.Error < b.Error:
				return -1
			case a.Error > b.Error:
				return 1
			}
			return 0
		})
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("Every unbiased family of the registry, fitted where it can be, with every exact coupling, at "+
		"%d output features: the squared error of the matrix exp(x·y) of rows that the fit has not seen, over its squared norm, median "+
		"of %d draws. Families and couplings come from the library's registries, so a new one takes part by itself. Those that "+
		"estimate another kernel, or whose smallest map is larger, are left out.", leagueFeatures, keys[0].Draws)}}
	t := lab.Table{Title: "The first three of each set", Header: []string{"set", "first", "second", "third",
		"positive"}}
	wins := map[string]int{}
	var order []string
	for i, k := range keys {
		v := values[i]
		row := []string{k.Set}
		for _, e := range v.Entries[:min(3, len(v.Entries))] {
			row = append(row, fmt.Sprintf("%s, %s: %.2g", e.Family, e.Coupling, e.Error))
		}
		for _, e := range v.Entries {
			if e.Family == "positive" && e.Coupling == "iid" {
				row = append(row, fmt.Sprintf("%.2g", e.Error))
			}
		}
		t.Rows = append(t.Rows, row)
		best := v.Entries[0]
		if wins[best.Family]++; wins[best.Family] == 1 {
			order = append(order, best.Family)
		}
		use := ""
		if best.Error > .5 {
			use = "; of no use, an estimate of zero has error 1"
		}
		p.Add(lab.Check{What: k.Set, Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
			Ours:     fmt.Sprintf("%s with %s: %.2g", best.Family, best.Coupling, best.Error),
			Interval: fmt.Sprintf("first of %d%s", len(v.Entries), use), Verdict: lab.Shown})
	}
	p.Tables = append(p.Tables, t)
	slices.SortStableFunc(order, func(a, b string) int { return wins[b] - wins[a] })
	w := lab.Table{Title: "Sets won", Header: []string{"family", "sets"}}
	for _, name := range order {
		w.Rows = append(w.Rows, []string{name, fmt.Sprint(wins[name])})
	}
	p.Tables = append(p.Tables, w)
	return p, nil
}
