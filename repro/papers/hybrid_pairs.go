package papers

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
)

var hybridPairs = &lab.Item{
	ID: "hybrid-pairs", Paper: hybrid, Title: "§2.4: bases only for the heaviest pairs of clusters", Version: 1,
	Run: runHybridPairs,
}

// unequalClusters draws n queries and n keys in c clusters each, whose sizes halve from one to the next. Keys have
// the opposite signs of queries except in one coordinate of eight, which is where A of eq 21 helps.
func unequalClusters(n, d, c int, seed uint64) (x, y dense.Matrix[float64]) {
	centres := normals(2*c, d, 1, lab.Seed)
	src := rand.New(rng.Stream(seed, 7))
	side := func(of int, seed uint64) dense.Matrix[float64] {
		z := normals(n, d, .03, seed)
		for i := range n {
			at := 0
			for at < c-1 && src.IntN(2) == 1 {
				at++
			}
			for j := range d {
				v := .22 * math.Abs(centres.At(of*c+at, j))
				if of == 1 && (j+at)%8 != 0 {
					v = -v
				}
				z.Row(i)[j] += v
			}
		}
		return z
	}
	return side(0, seed+1), side(1, seed+2)
}

func runHybridPairs(l *lab.Lab) (*lab.Page, error) {
	const d, clusters, least = 32, 4, 32
	type key struct{ Pairs, M, Rows, Draws int }
	type value struct {
		Mean, SE, Share float64 // mean squared relative error; share of row pairs with a base of their own
		Features        int
	}
	rows, draws := lab.Pick(l, 100, 400), lab.Pick(l, 100, 1000)
	all := []int{0, 1, 2, 4, 8, clusters * clusters}
	var keys []key
	for _, equal := range []bool{false, true} { // first equal numbers of projections, then of features
		for _, h := range all {
			k := key{h, least, rows, draws}
			if blocks := 1 + 2*h; equal {
				if h == clusters*clusters {
					blocks = h
				}
				k.M = least * clusters * clusters / blocks
			}
			keys = append(keys, k)
		}
	}
	values, err := lab.Cells(l, "mse", keys, func(c key, seed uint64) (v value, err error) {
		x, y := unequalClusters(c.Rows, d, clusters, lab.Seed)
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: d, M: c.M}
		if c.Pairs > 0 { // the fit uses other rows than the measurement
			spec.Family = family.ZeroOne{Clusters: family.Clusters{Count: clusters, Heaviest: c.Pairs}}
			fx, fy := unequalClusters(2000, d, clusters, lab.Seed+99)
			if spec, err = randfeat.Fit(spec, fx, fy); err != nil {
				return v, err
			}
			v.Share = ownShare(spec.Family.(family.ZeroOne).Clusters, x, y)
		}
		exact, got := dense.New[float64](x.Rows, y.Rows), dense.New[float64](x.Rows, y.Rows)
		if err := kernel.Gram(spec.Kernel, exact, x, y); err != nil {
			return v, err
		}
		var ws randfeat.Workspace[float64]
		ws.Workers = 1
		mse := make([]float64, c.Draws)
		for r := range mse {
			m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(r))))
			if err != nil {
				return v, err
			}
			v.Features = m.OutDim()
			if err := m.Gram(got, x, y, &ws); err != nil {
				return v, err
			}
			for i, e := range exact.Data {
				mse[r] += (got.Data[i]/e - 1) * (got.Data[i]/e - 1) / float64(len(exact.Data))
			}
		}
		mean, sd := meanSD(mse)
		v.Mean, v.SE = mean, sd/math.Sqrt(float64(c.Draws))
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("%d queries and keys of %d clusters each, d = %d, whose sizes "+
		"halve from one to the "+
		"next. Centres and A by k-means and eq 21 on other rows. The h pairs of clusters that hold the most pairs "+
		"of rows have a "+
		"base of their own, all others positive features: (1 + 2h)m features, %d·m if all %d pairs have one. The "+
		"paper says that "+
		"this is possible and shows no numbers.", rows, clusters, d, clusters*clusters, clusters*clusters)}}
	fig := figure.Figure{Title: "Error over the number of pairs with a base of their own",
		X: figure.Axis{Label: "pairs h"},
		Y: figure.Axis{Label: "mean squared relative error", Log: true}}
	table := lab.Table{Title: "Numbers", Header: []string{"pairs", "share of pairs of rows", "m", "features",
		"error", "± 2 se"}}
	for part, name := range []string{"equal projections", "equal features"} {
		s := figure.Series{Name: name}
		of := values[part*len(all) : (part+1)*len(all)]
		for i, v := range of {
			s.X, s.Y = append(s.X, float64(all[i])), append(s.Y, v.Mean)
			s.Low, s.High = append(s.Low, v.Mean-min(2*v.SE, v.Mean/2)), append(s.High, v.Mean+2*v.SE)
			table.Rows = append(table.Rows, []string{fmt.Sprint(all[i]), fmt.Sprintf("%.2f", v.Share),
				fmt.Sprint(keys[part*len(all)+i].M), fmt.Sprint(v.Features), fmt.Sprintf("%.4g", v.Mean),
				fmt.Sprintf("%.2g", 2*v.SE)})
		}
		fig.Series = append(fig.Series, s)
		if part == 0 {
			var falls []lab.Verdict
			for _, pair := range [][2]int{{0, 3}, {3, 5}} { // none, 4 and all
				a, b := of[pair[0]], of[pair[1]]
				falls = append(falls, lab.Order(a.Mean-b.Mean, 2*math.Hypot(a.SE, b.SE)))
			}
			p.Claim("4 of 16 pairs lower the error, and all 16 once more, equal projections", lab.StatedIn("§2.4"),
				"bases of the most massive pairs reduce the variance",
				fmt.Sprintf("%.4g without, %.4g with 1, %.4g with 4, %.4g "+
					"with all", of[0].Mean, of[1].Mean, of[3].Mean, of[5].Mean), lab.Worst(falls...),
				"the heaviest pairs do not lower it")
			continue
		}
		best := 0
		for i, v := range of {
			if v.Mean < of[best].Mean {
				best = i
			}
		}
		p.Add(lab.Check{What: "number of pairs with the smallest error at equal numbers of features",
			Source: lab.Source{Kind: lab.Unsaid}, Reference: "—", Ours: fmt.Sprintf("%d of %d", all[best],
				clusters*clusters),
			Interval: fmt.Sprintf("error %.3g; none %.3g, all %.3g", of[best].Mean, of[0].Mean, of[len(of)-1].Mean),
			Verdict:  lab.Shown})
	}
	p.Tables = append(p.Tables, table)
	return p, p.Draw("pairs", "Means over draws of projections with two standard errors.", &fig)
}

// ownShare returns the share of row pairs whose clusters have a base of their own.
func ownShare(c family.Clusters, x, y dense.Matrix[float64]) float64 {
	if c.Pairs == nil {
		return 1
	}
	count := func(centres, z dense.Matrix[float64]) []float64 {
		n := make([]float64, centres.Rows)
		for i := range z.Rows {
			best, at := math.Inf(1), 0
			for k := range centres.Rows {
				s := 0.0
				for j, v := range z.Row(i) {
					s += (v - centres.At(k, j)) * (v - centres.At(k, j))
				}
				if s < best {
					best, at = s, k
				}
			}
			n[at] += 1 / float64(z.Rows)
		}
		return n
	}
	q, k := count(c.QueryCentres, x), count(c.KeyCentres, y)
	share := 0.0
	for _, p := range c.Pairs {
		share += q[p[0]] * k[p[1]]
	}
	return share
}
