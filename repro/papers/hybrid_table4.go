package papers

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

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
	Data: []string{ptb.keys, ptb.queries}, Version: 1,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridWords(l, ptb) },
}

var hybridFig8 = &lab.Item{
	ID: "hybrid-fig8", Paper: hybrid, Title: "Fig 8 and Table 5: softmax distributions over words, WikiText-2",
	Data: []string{wikiText2.keys, wikiText2.queries}, Version: 1,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridWords(l, wikiText2) },
}

// hybridText is a text of the paper's language models, and what it prints for 128 features.
type hybridText struct {
	name          string
	keys, queries string  // files: the words of the first give keys, places in the second queries
	length        float64 // mean length of keys and queries
	lengthWhy     string
	classes       string // of the paper
	figure, table string
	paper         [4][]float64 // per method: Wasserstein, KS, and the share of negative estimates where it is printed
	textWhy       string
	otherWhy      string // what else was tried where claims miss
}

var ptb = hybridText{
	name: "the Penn Treebank", keys: "ptb/ptb.train.txt.gz", queries: "ptb/ptb.valid.txt.gz",
	length: 2, lengthWhy: "a choice: the paper shows a histogram", classes: "10k", figure: "Fig 3", table: "Table 4",
	paper:    [4][]float64{{3142.65, .569, 0}, {1582.50, .427, .258}, {1521.10, .410, .159}, {1445.24, .419, .158}},
	otherWhy: "also not with mean lengths 1.5, 2.5 and 3: ",
}

var wikiText2 = hybridText{
	name: "WikiText-2", keys: "wikitext2/wiki.valid.tokens.gz", queries: "wikitext2/wiki.test.tokens.gz",
	// A regulariser keeps the lengths close to 1, and dot products are multiplied by τ = 6 (appendix I).
	length: math.Sqrt(6), lengthWhy: "the paper's lengths are close to 1 and its dot products are multiplied by 6",
	classes: "all", figure: "Fig 8", table: "Table 5",
	paper: [4][]float64{{12971.67, .687}, {12912.65, .685}, {12805.71, .683}, {12765.44, .682}},
	textWhy: " The paper's model learned from the training part; here the validation part gives the keys and the test part the " +
		"places.",
}

// readWords reads at most limit tokens.
func readWords(l *lab.Lab, file string, limit int) (words []string, err error) {
	f, err := os.Open(l.Path(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	scan := bufio.NewScanner(z)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() && len(words) < limit {
		words = append(append(words, strings.Fields(scan.Text())...), "<eos>")
	}
	return words, scan.Err()
}

// wordVectors makes keys (a vector per frequent word) and queries (the mean vector of the four words before a place):
// the leading singular directions of the positive pointwise mutual information of words and their neighbours (Levy and
// Goldberg 2014). Keys and queries have the mean length of the text.
func wordVectors(l *lab.Lab, text hybridText, classes, contexts, d, places int) (q, k dense.Matrix[float64],
	err error) {
	train, err := readWords(l, text.keys, 1<<30)
	if err != nil {
		return q, k, err
	}
	valid, err := readWords(l, text.queries, 50000)
	if err != nil {
		return q, k, err
	}
	count := map[string]int{}
	for _, w := range train {
		count[w]++
	}
	var order []string
	for w := range count {
		order = append(order, w)
	}
	slices.SortFunc(order, func(a, b string) int {
		if c := count[b] - count[a]; c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	if len(order) < classes {
		return q, k, fmt.Errorf("%d different words, want at least %d", len(order), classes)
	}
	id := map[string]int{}
	for i, w := range order[:classes] {
		id[w] = i
	}
	index := func(words []string) []int {
		at := make([]int, len(words))
		for i, w := range words {
			if j, ok := id[w]; ok {
				at[i] = j
			} else {
				at[i] = -1
			}
		}
		return at
	}
	tokens := index(train)
	m := mat.NewDense(classes, contexts, nil)
	rows, cols, total := make([]float64, classes), make([]float64, contexts), 0.0
	for i, a := range tokens {
		for _, j := range []int{i - 2, i - 1, i + 1, i + 2} {
			if a < 0 || j < 0 || j >= len(tokens) || tokens[j] < 0 || tokens[j] >= contexts {
				continue
			}
			m.Set(a, tokens[j], m.At(a, tokens[j])+1)
			rows[a]++
			cols[tokens[j]]++
			total++
		}
	}
	m.Apply(func(i, j int, v float64) float64 {
		if v == 0 {
			return 0
		}
		return max(0, math.Log(v*total/(rows[i]*cols[j])))
	}, m)
	var gram mat.SymDense
	gram.SymOuterK(1, m.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&gram, true) {
		return q, k, fmt.Errorf("no eigenvectors")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	var e mat.Dense
	e.Mul(m, vectors.Slice(0, contexts, contexts-d, contexts))
	k = dense.New[float64](classes, d)
	for i := range classes {
		copy(k.Row(i), e.RawRowView(i))
	}
	q = dense.New[float64](places, d)
	at := index(valid)
	for p := range places {
		for j := 4 + p*(len(at)-4)/places; j >= 0; j-- { // the place, and what is before it
			if w := at[j]; w >= 0 && j < 4+p*(len(at)-4)/places {
				for c, v := range k.Row(w) {
					q.Row(p)[c] += v
				}
			}
			if j <= p*(len(at)-4)/places {
				break
			}
		}
	}
	length := func(x dense.Matrix[float64]) dense.Matrix[float64] {
		sum := 0.0
		for i := range x.Rows {
			sum += math.Sqrt(dense.Norm2(x.Row(i))) / float64(x.Rows)
		}
		return scaled(x, text.length/sum)
	}
	return length(q), length(k), nil
}

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

func runHybridWords(l *lab.Lab, text hybridText) (*lab.Page, error) {
	const classes, contexts, d = 2000, 300, 64
	methods := []string{"FAVOR+", "Trig.", "Gaussian", "Angular"}
	sizes := []int{64, 128, 256, 512}
	q, k, err := wordVectors(l, text, classes, contexts, d, lab.Pick(l, 40, 400))
	if err != nil {
		return nil, err
	}
	type key struct {
		Method, Size, Runs, Queries int
		Length                      float64
	}
	var keys []key
	for m := range methods {
		for _, s := range sizes {
			keys = append(keys, key{m, s, lab.Pick(l, 5, 10), q.Rows, text.length})
		}
	}
	type value struct{ Mean, SD [3]float64 } // Wasserstein, KS, negative share
	values, err := lab.Cells(l, "distances", keys, func(c key, seed uint64) (v value, err error) {
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Dim: d}
		switch c.Method {
		case 0:
			spec.Family, spec.Coupling, spec.M = family.Positive{}, coupling.Orthogonal{}, c.Size
		case 1:
			spec.Family, spec.M = family.Trig{}, c.Size/2
		case 2:
			spec.Family, spec.M = family.GaussianLambda{N: 8}, c.Size/8
		default:
			spec.Family, spec.M = family.Angular{N: 8}, c.Size/8
		}
		exact, got := dense.New[float64](q.Rows, k.Rows), dense.New[float64](q.Rows, k.Rows)
		if err := kernel.Gram(spec.Kernel, exact, q, k); err != nil {
			return v, err
		}
		var ws randfeat.Workspace[float64]
		ws.Workers = 1
		var all [3][]float64
		for r := range c.Runs {
			m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(r))))
			if err != nil {
				return v, err
			}
			if err := m.Gram(got, q, k, &ws); err != nil {
				return v, err
			}
			var sum [3]float64
			for i := range q.Rows {
				a, b, n := distances(exact.Row(i), got.Row(i))
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
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("The paper trains LSTMs and takes their outputs and embeddings, which are not "+
		"published. Here keys are vectors of the %d most frequent words of %s (singular directions of their mutual information "+
		"with neighbours, d = %d) and queries the mean of the four words before %d places, both of mean length %.4g (%s). Sizes as "+
		"in %s: hybrids have an eighth of the projections per base and 8 of the coefficient. Distances are over words in the "+
		"order of frequency. Values depend on the vectors; orders are compared.%s", classes, text.name, d, q.Rows, text.length,
		text.lengthWhy, text.table, text.textWhy)}}
	at := func(m, size int) (v value) {
		for i, c := range keys {
			if c.Method == m && c.Size == size {
				v = values[i]
			}
		}
		return v
	}
	for s, name := range []string{"1d-Wasserstein", "KS", "negative share"} {
		fig := figure.Figure{Title: name + " over the number of features",
			X: figure.Axis{Label: "features (hybrids: of equal cost)",
				Log: true, Ticks: []float64{64, 128, 256, 512}}, Y: figure.Axis{Label: name}}
		for m, method := range methods {
			if s == 2 && m == 0 {
				continue
			}
			series := figure.Series{Name: method}
			for _, size := range sizes {
				v := at(m, size)
				series.X, series.Y = append(series.X, float64(size)), append(series.Y, v.Mean[s])
				series.Low, series.High = append(series.Low, v.Mean[s]-v.SD[s]), append(series.High, v.Mean[s]+v.SD[s])
			}
			fig.Series = append(fig.Series, series)
			c := lab.Check{What: name + ", " + method + ", 128", Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
				Ours: fmt.Sprintf("%.4g", at(m, 128).Mean[s]), Interval: fmt.Sprintf("± %.2g", at(m, 128).SD[s]),
				Verdict: lab.Shown}
			if s < len(text.paper[m]) {
				c.Source = lab.PrintedIn(text.table)
				c.Reference = fmt.Sprintf("%.5g (%s classes of an LSTM)", text.paper[m][s], text.classes)
			}
			p.Add(c)
		}
		if err := p.Draw([]string{"wasserstein", "ks", "negative"}[s], name+", means and deviations over draws.",
			&fig); err != nil {
			return nil, err
		}
	}
	// Claims of order, with two standard errors of the means over runs. The paper prints KS distances for both texts
	// and negative shares for one.
	runs := float64(keys[0].Runs)
	var fewer, better []lab.Verdict
	count := func(v []lab.Verdict) (n int) {
		for _, x := range v {
			if x == lab.Holds {
				n++
			}
		}
		return n
	}
	less := func(a, b value, s int) lab.Verdict {
		return lab.Order(b.Mean[s]-a.Mean[s], 2*math.Hypot(a.SD[s], b.SD[s])/math.Sqrt(runs))
	}
	for _, size := range sizes {
		for m := 2; m < 4; m++ {
			fewer = append(fewer, less(at(m, size), at(1, size), 2))
			better = append(better, lab.Worst(less(at(m, size), at(0, size), 1), less(at(m, size), at(1, size), 1)))
		}
	}
	why := text.otherWhy + "a hybrid of equal cost has an eighth of the projections per base. The paper's distances hardly " +
		"change from 64 to 512 features, so at its lengths no estimate comes near the distribution"
	if len(text.paper[1]) > 2 {
		p.Claim("hybrids have fewer negative estimates than Trig.", lab.StatedIn(text.table), "at all sizes",
			fmt.Sprintf("%d of 8", count(fewer)), lab.Worst(fewer...), why)
	}
	p.Claim("hybrids have the smallest KS distance", lab.StatedIn(text.figure+", "+text.table), "at all sizes",
		fmt.Sprintf("%d of 8", count(better)), lab.Worst(better...), why)
	return p, nil
}
