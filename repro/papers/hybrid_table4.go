package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
)

var hybridTable4 = &lab.Item{
	ID: "hybrid-table4", Paper: hybrid, Title: "Fig 3 and Table 4: softmax distributions over words, Penn Treebank",
	Data: []string{ptb.learn, ptb.held}, Version: 2,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridWords(l, ptb, tableOfPTB) },
}

var hybridFig8 = &lab.Item{
	ID: "hybrid-fig8", Paper: hybrid, Title: "Fig 8 and Table 5: softmax distributions over words, WikiText-2",
	Data: []string{wikiText2.learn, wikiText2.held}, Version: 2,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridWords(l, wikiText2, tableOfWiki) },
}

// wordTable has the printed numbers: means for 64, 128, 256 and 512 features, by method.
type wordTable struct {
	figure, table             string
	wasserstein, ks, negative [4][]float64
}

var wordMethods = []string{"FAVOR+", "Trig.", "Gaussian", "Angular"}

var tableOfPTB = wordTable{figure: "Fig 3", table: "Table 4",
	wasserstein: [4][]float64{{3171.35, 3142.65, 3050.58, 2985.18}, {1577.44, 1582.50, 1574.22, 1576.50},
		{1520.32, 1521.10, 1516.50, 1515.41}, {1395.03, 1445.24, 1394.97, 1425.88}},
	ks: [4][]float64{{.573, .569, .558, .551}, {.424, .427, .425, .424}, {.411, .410, .410, .410},
		{.404, .419, .418, .414}},
	negative: [4][]float64{nil, {.257, .258, .258, .257}, {.155, .159, .157, .151}, {.152, .158, .153, .157}},
}

var tableOfWiki = wordTable{figure: "Fig 8", table: "Table 5",
	wasserstein: [4][]float64{{12970.38, 12971.67, 12965.82, 12954.17}, {12913.66, 12912.65, 12910.91, 12913.25},
		{12809.03, 12805.71, 12808.02, 12809.40}, {12833.56, 12765.44, 12561.26, 12534.48}},
	ks: [4][]float64{{.687, .687, .687, .686}, {.685, .685, .685, .685}, {.683, .683, .683, .682},
		{.682, .682, .682, .678}},
}

// wordValue is means and deviations over draws of Wasserstein and KS distances and the share of negative estimates.
type wordValue struct{ Mean, SD [3]float64 }

// distances of an estimated distribution over ordered classes from the true one: Wasserstein and Kolmogorov-Smirnov,
// and the share of negative estimates, which count as zero in the others.
func distances(exact, got []float64) (wasserstein, ks, negative float64) {
	a, b := 0.0, 0.0
	for i, e := range exact {
		a += e
		if got[i] > 0 {
			b += got[i]
		} else if got[i] < 0 {
			negative += 1 / float64(len(exact))
		}
	}
	if b == 0 {
		b = 1
	}
	p, h := 0.0, 0.0
	for i, e := range exact {
		p, h = p+e/a, h+max(0, got[i])/b
		wasserstein += math.Abs(p - h)
		ks = max(ks, math.Abs(p-h))
	}
	return wasserstein, ks, negative
}

func runHybridWords(l *lab.Lab, text wordText, paper wordTable) (*lab.Page, error) {
	sizes := []int{64, 128, 256, 512}
	places := lab.Pick(l, 10, 200)
	type key struct {
		Method, Size, Runs, Queries int
		Model                       string
	}
	var keys []key
	for m := range wordMethods {
		for _, s := range sizes {
			keys = append(keys, key{m, s, lab.Pick(l, 3, 10), places, modelOf(l, text)})
		}
	}
	type model struct {
		What    string
		Classes int
	}
	models, err := lab.Cells(l, "model", []string{modelOf(l, text)}, func(string, uint64) (model, error) {
		words, err := wordsOf(l, text)
		if err != nil {
			return model{}, err
		}
		return model{words.what + words.told(), words.keys.Rows}, nil
	})
	if err != nil {
		return nil, err
	}
	values, err := lab.Cells(l, "distances", keys, func(c key, seed uint64) (v wordValue, err error) {
		words, err := wordsOf(l, text)
		if err != nil {
			return v, err
		}
		k, q := words.keys, every(words.queries, places)
		if text.gain > 0 {
			k, q = scaled(k, math.Sqrt(text.gain)), scaled(q, math.Sqrt(text.gain))
		}
		return wordDistances(q, k, c.Method, c.Size, c.Runs, seed)
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("The paper takes outputs and embeddings of an LSTM with %s, which are not "+
		"published. Here they are those of %s: %d classes, queries at %d held-out places. Sizes as in %s: hybrids have an "+
		"eighth of the projections per base and 8 of the coefficient. Distances are over words in the order of frequency, and "+
		"negative estimates count as zero. Values depend on the model; orders are compared.%s", text.paperModel, models[0].What,
		models[0].Classes, places, paper.table, text.textDifferent)}}
	at := func(m, size int) (v wordValue) {
		for i, c := range keys {
			if c.Method == m && c.Size == size {
				v = values[i]
			}
		}
		return v
	}
	printed := [3][4][]float64{paper.wasserstein, paper.ks, paper.negative}
	for s, name := range []string{"1d-Wasserstein", "KS", "negative share"} {
		fig := figure.Figure{Title: name + " over the number of features",
			X: figure.Axis{Label: "features (hybrids: of equal cost)",
				Log: true, Ticks: []float64{64, 128, 256, 512}}, Y: figure.Axis{Label: name}}
		for m, method := range wordMethods {
			if s == 2 && m == 0 {
				continue
			}
			series := figure.Series{Name: method}
			for i, size := range sizes {
				v := at(m, size)
				series.X, series.Y = append(series.X, float64(size)), append(series.Y, v.Mean[s])
				series.Low, series.High = append(series.Low, v.Mean[s]-v.SD[s]), append(series.High, v.Mean[s]+v.SD[s])
				c := lab.Check{What: fmt.Sprintf("%s, %s, %d", name, method, size),
					Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
					Ours: fmt.Sprintf("%.4g", v.Mean[s]), Interval: fmt.Sprintf("± %.2g", v.SD[s]),
					Verdict: lab.Shown}
				if row := printed[s][m]; row != nil {
					c.Source, c.Reference = lab.PrintedIn(paper.table), fmt.Sprintf("%.5g", row[i])
				}
				p.Add(c)
			}
			fig.Series = append(fig.Series, series)
		}
		if err := p.Draw([]string{"wasserstein", "ks", "negative"}[s], name+", means and deviations over draws.",
			&fig); err != nil {
			return nil, err
		}
	}
	wordClaims(p, paper, sizes, at, float64(keys[0].Runs))
	return p, nil
}

// told is the model's quality, where it is known.
func (m *wordModel) told() string {
	if m.perplexity == 0 {
		return ""
	}
	return fmt.Sprintf(" (held-out perplexity %.0f)", m.perplexity)
}

// every is n rows at equal distances.
func every(x dense.Matrix[float64], n int) dense.Matrix[float64] {
	n = min(n, x.Rows)
	out := dense.New[float64](n, x.Cols)
	for i := range n {
		copy(out.Row(i), x.Row(i*x.Rows/n))
	}
	return out
}

// wordDistances draws maps of one method and size.
func wordDistances(q, k dense.Matrix[float64], method, size, runs int, seed uint64) (v wordValue, err error) {
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Dim: k.Cols}
	switch method {
	case 0:
		spec.Family, spec.Coupling, spec.M = family.Positive{}, coupling.Orthogonal{}, size
	case 1:
		spec.Family, spec.M = family.Trig{}, size/2
	case 2:
		spec.Family, spec.M = family.GaussianLambda{N: 8}, size/8
	default:
		spec.Family, spec.M = family.Angular{N: 8}, size/8
	}
	exact := dense.New[float64](q.Rows, k.Rows)
	if err := kernel.LogGram(spec.Kernel, exact, q, k); err != nil {
		return v, err
	}
	got := dense.New[float64](q.Rows, k.Rows)
	var ws randfeat.Workspace[float64]
	ws.Workers = 1
	var all [3][]float64
	for r := range runs {
		m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(r))))
		if err != nil {
			return v, err
		}
		if err := m.Gram(got, q, k, &ws); err != nil {
			return v, err
		}
		var sum [3]float64
		for i := range q.Rows {
			a, b, n := distances(plain(exact.Row(i)), got.Row(i))
			for s, x := range []float64{a, b, n} {
				sum[s] += x / float64(q.Rows)
			}
		}
		for s := range sum {
			all[s] = append(all[s], sum[s])
		}
	}
	for s := range all {
		v.Mean[s], v.SD[s] = meanSD(all[s])
	}
	return v, nil
}

// plain are exponentials relative to the largest.
func plain(log []float64) []float64 {
	most := math.Inf(-1)
	for _, v := range log {
		most = max(most, v)
	}
	out := make([]float64, len(log))
	for i, v := range log {
		out[i] = math.Exp(v - most)
	}
	return out
}

// wordClaims are the paper's orders, with two standard errors of the means over draws.
func wordClaims(p *lab.Page, paper wordTable, sizes []int, at func(m, size int) wordValue, runs float64) {
	var fewer, better []lab.Verdict
	count := func(v []lab.Verdict) (n int) {
		for _, x := range v {
			if x == lab.Holds {
				n++
			}
		}
		return n
	}
	less := func(a, b wordValue, s int) lab.Verdict {
		return lab.Order(b.Mean[s]-a.Mean[s], 2*math.Hypot(a.SD[s], b.SD[s])/math.Sqrt(runs))
	}
	for _, size := range sizes {
		for m := 2; m < 4; m++ {
			fewer = append(fewer, less(at(m, size), at(1, size), 2))
			better = append(better, lab.Worst(less(at(m, size), at(0, size), 1), less(at(m, size), at(1, size), 1)))
		}
	}
	why := "a hybrid of equal cost has an eighth of the projections per base. The paper's distances hardly change from 64 to " +
		"512 features, so at its lengths no estimate comes near the distribution"
	if paper.negative[1] != nil {
		p.Claim("hybrids have fewer negative estimates than Trig.", lab.StatedIn(paper.table), "at all sizes",
			fmt.Sprintf("%d of 8", count(fewer)), lab.Worst(fewer...), why)
	}
	p.Claim("hybrids have the smallest KS distance", lab.StatedIn(paper.figure+", "+paper.table), "at all sizes",
		fmt.Sprintf("%d of 8", count(better)), lab.Worst(better...), why)
}
