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
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/repro/lab"
)

var simplexFig8 = &lab.Item{
	ID: "simplex-fig8", Paper: simplex, Title: "Fig 8 and Table 2: classification over the number of features, and SimRFs+",
	Data: uciFiles(), Version: 3, Run: runSimplexFig8,
}

var simplexFig10 = &lab.Item{
	ID: "simplex-fig10", Paper: simplex, Title: "Fig 10: accuracy over σ, exact kernel and IIDRFs", Data: uciFiles(),
	Version: 3,
	Run:     runSimplexFig10,
}

var simplexTable3 = &lab.Item{
	ID: "simplex-table3", Paper: simplex, Title: "Table 3: classification with regular and fast couplings, m = d", Data: uciFiles(),
	Version: 3, Run: runSimplexTable3,
}

// simplexPrinted has the numbers of Tables 2 and 3: the mean |x+y| of scaled rows, and accuracies with the largest
// standard error of a row.
var simplexPrinted = [8]struct {
	vBar   float64
	table2 [2]float64
	se2    float64
	table3 [5]float64
	se3    float64
}{
	{1.7, [2]float64{.1421, .1419}, .0002, [5]float64{.1432, .1445, .1447, .1455, .1462}, .0003},
	{2.6, [2]float64{.7229, .7132}, .0012, [5]float64{.6441, .6612, .6596, .7196, .7296}, .0025},
	{5.0, [2]float64{.6754, .6751}, .0004, [5]float64{.6768, .6788, .6784, .6797, .6800}, .0006},
	{3.1, [2]float64{.3202, .3208}, .0004, [5]float64{.3187, .3193, .3171, .3187, .3195}, .0006},
	{2.0, [2]float64{.4047, .4065}, .0005, [5]float64{.4088, .4149, .4159, .4206, .4222}, .0009},
	{1.4, [2]float64{.6874, .6917}, .0005, [5]float64{.5870, .6213, .6193, .7030, .7037}, .0019},
	{.8, [2]float64{.6314, .6473}, .0018, [5]float64{.4914, .5224, .5310, .6509, .6533}, .0027},
	{2.3, [2]float64{.2000, .2000}, .0001, [5]float64{.2011, .2017, .2016, .2021, .2021}, .0002},
}

// simplexKey is an accuracy of positive features with m = times·d projections, on one split, over seeds.
type simplexKey struct {
	Set          int
	Coupling     string
	Times        int
	Padded       bool // columns of zeros up to a power of two
	Split, Seeds int
	Rows         int
}

func simplexCoupling(name string) coupling.Coupling {
	switch name {
	case "IIDRFs":
		return coupling.IID{}
	case "ORFs":
		return coupling.Orthogonal{}
	case "SimRFs":
		return coupling.Simplex{}
	case "SimRFs+":
		return coupling.SimplexPlus{}
	case "fast ORFs":
		return coupling.Hadamard{K: 3}
	}
	return coupling.FastSimplex{K: 3}
}

// printedSplit is the number of the papers' split; others are random ones.
const printedSplit = -1

// simplexSplit returns a standardised split with rows scaled by the paper's σ. rows bounds the training rows, 0 means
// all.
func simplexSplit(l *lab.Lab, set, number, rows int, padded bool) (parts split, err error) {
	s := uciSets[set]
	t, err := readUCI(l, s)
	if err != nil {
		return parts, err
	}
	if number == printedSplit {
		parts = t.known(.95)
	} else {
		parts = t.cut(uint64(number)<<8 | uint64(set))
		parts.train = parts.train.first(rows)
	}
	parts = parts.standardise()
	for _, t := range []*table{parts.train, parts.valid, parts.test} {
		t.x = scaled(t.x, s.sigma)
		if padded {
			wide := 1
			for wide < t.x.Cols {
				wide *= 2
			}
			x := dense.New[float64](t.x.Rows, wide)
			for i := range x.Rows {
				copy(x.Row(i), t.x.Row(i))
			}
			t.x = x
		}
	}
	return parts, nil
}

// meanSum is the mean |x+y| of training and test rows.
func (s split) meanSum() float64 {
	x, y, sum := s.train.first(2000).x, s.test.first(300).x, 0.0
	for i := range x.Rows {
		for j := range y.Rows {
			v := 0.0
			for c, a := range x.Row(i) {
				v += (a + y.Row(j)[c]) * (a + y.Row(j)[c])
			}
			sum += math.Sqrt(v)
		}
	}
	return sum / float64(x.Rows*y.Rows)
}

type simplexValue struct{ Mean, SE float64 }

func simplexCell(l *lab.Lab, k simplexKey) (v simplexValue, err error) {
	parts, err := simplexSplit(l, k.Set, k.Split, k.Rows, k.Padded)
	if err != nil {
		return v, err
	}
	acc := make([]float64, k.Seeds)
	d := parts.train.x.Cols
	for seed := range acc {
		m, err := randfeat.New[float64](randfeat.Spec{Family: family.Positive{}, Coupling: simplexCoupling(k.Coupling),
			Dim: d, M: k.Times * d, Seed: rng.Mix64(lab.Seed + uint64(10000*k.Split+seed))})
		if err != nil {
			return v, err
		}
		voter, err := newVoter(m, parts.train.x, parts.train.y, parts.train.classes, false)
		if err != nil {
			return v, err
		}
		if acc[seed], err = voter.accuracy(parts.test.x, parts.test.y); err != nil {
			return v, err
		}
	}
	v.Mean, v.SE = meanSD(acc)
	v.SE /= math.Sqrt(float64(k.Seeds))
	return v, nil
}

// simplexAccuracies computes cells and returns a function of (set, coupling, times): the mean accuracy and its standard
// error over draws of features, on the papers' split or, with m = d, over random splits.
func simplexAccuracies(l *lab.Lab, couplings []string, times []int, padded bool) (of func(set int, coupling string,
	times int, random bool) (mean, se float64), err error) {
	var keys []simplexKey
	for set := range uciSets {
		for _, c := range couplings {
			for _, t := range times {
				seeds := lab.Pick(l, 10, 100)
				if t == 1 {
					seeds *= 10
				}
				keys = append(keys, simplexKey{set, c, t, padded, printedSplit, seeds, 0})
			}
			for split := range lab.Pick(l, 3, 10) {
				keys = append(keys, simplexKey{set, c, 1, padded, split, lab.Pick(l, 20, 100), lab.Pick(l, 2000, 0)})
			}
		}
	}
	values, err := lab.Cells(l, "accuracy", keys, func(k simplexKey, _ uint64) (simplexValue, error) {
		return simplexCell(l, k)
	})
	if err != nil {
		return nil, err
	}
	return func(set int, coupling string, times int, random bool) (mean, se float64) {
		n := 0.0
		for i, k := range keys {
			if k.Set == set && k.Coupling == coupling && k.Times == times && random == (k.Split != printedSplit) {
				mean, se, n = mean+values[i].Mean, se+values[i].SE*values[i].SE, n+1
			}
		}
		return mean / n, math.Sqrt(se) / n
	}, nil
}

const simplexSetting = "Kernel regression as in Chefs' Table 1, positive features, m = d unless said. Printed values are compared on " +
	"the split of the paper's public code, with its σ; both means have errors of their draws of features alone. Random splits show " +
	"what holds on other rows."

// addAccuracy compares an accuracy on the papers' split with the printed one. The interval is one for all 56 values of
// Tables 2 and 3 together.
func addAccuracy(p *lab.Page, table string, set int, column string, printed, se, ours, ourSE float64, guess lab.Rival) {
	bound := stattest.Bound(1e-3, 56)
	half := bound * math.Hypot(se, ourSE)
	name := uciSets[set].name
	p.Measured(lab.Check{What: name + ", " + column, Source: lab.PrintedIn(table),
		Reference: fmt.Sprintf("%.4f ± %.4f", printed, se), Ours: fmt.Sprintf("%.4f ± %.4f", ours, ourSE),
		Interval: fmt.Sprintf("± %.4f", half)},
		lab.Numbers{Reference: printed, Ours: ours, Half: half, Rivals: guess.Unless(printed, bound*se)},
		"other draws on the same rows differ by less; a setting of this set that the public code does not have")
	p.InTable(table+": accuracy, m = d", name, column)
}

// guessing is the rival of accuracies: always answering with the most frequent class of the papers' test rows.
func guessing(l *lab.Lab, set int, scale float64) (r lab.Rival, err error) {
	parts, err := simplexSplit(l, set, printedSplit, 0, false)
	if err != nil {
		return r, err
	}
	return lab.Rival{Name: "guessing the most frequent class", Value: scale * parts.test.majority()}, nil
}

func runSimplexFig8(l *lab.Lab) (*lab.Page, error) {
	couplings, times := []string{"IIDRFs", "ORFs", "SimRFs", "SimRFs+"}, []int{1, 2, 4, 8}
	of, err := simplexAccuracies(l, couplings, times, false)
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{simplexSetting}}
	var best, above [2]int // on the papers' split and on random ones
	var orders, orthogonal [2][]lab.Verdict
	for set, s := range uciSets {
		fig := figure.Figure{Title: "Accuracy over the number of features, " + s.name, X: figure.Axis{Label: "m / d",
			Log:   true,
			Ticks: []float64{1, 2, 4, 8}}, Y: figure.Axis{Label: "test accuracy"}}
		for _, c := range couplings[:3] {
			series := figure.Series{Name: c}
			for _, t := range times {
				m, se := of(set, c, t, false)
				series.X, series.Y = append(series.X, float64(t)), append(series.Y, m)
				series.Low, series.High = append(series.Low, m-se), append(series.High, m+se)
			}
			fig.Series = append(fig.Series, series)
		}
		if err := p.Draw(s.name, "Mean accuracy with one standard error over draws of features, "+s.name+".", &fig); err != nil {
			return nil, err
		}
		for i, random := range []bool{false, true} {
			var m, se [4]float64
			for j, c := range couplings {
				m[j], se[j] = of(set, c, 1, random)
			}
			over := func(a, b int) lab.Verdict { return lab.Order(m[a]-m[b], 2*math.Hypot(se[a], se[b])) }
			verdict := lab.Worst(over(2, 0), over(2, 1))
			if orders[i] = append(orders[i], verdict); verdict == lab.Holds {
				best[i]++
			}
			verdict = lab.Worst(over(2, 1), over(3, 1))
			if orthogonal[i] = append(orthogonal[i], verdict); verdict == lab.Holds {
				above[i]++
			}
		}
		guess, err := guessing(l, set, 1)
		if err != nil {
			return nil, err
		}
		printed := simplexPrinted[set]
		for i, c := range couplings[2:] {
			ours, se := of(set, c, 1, false)
			addAccuracy(p, "Table 2", set, c, printed.table2[i], printed.se2, ours, se, guess)
		}
		parts, err := simplexSplit(l, set, printedSplit, 0, false)
		if err != nil {
			return nil, err
		}
		v := parts.meanSum()
		p.Claim(s.name+": mean |x+y| of scaled rows, v̄", lab.PrintedIn("Table 2"), fmt.Sprintf("%.1f", printed.vBar),
			fmt.Sprintf("%.2f", v), lab.Judge(math.Abs(v-printed.vBar) <= .05),
			"σ or the scaling of columns is another")
		p.InTable("Table 2: mean |x+y|", s.name, "v̄")
	}
	for i, rows := range []string{"the paper's split", "random splits"} {
		p.Claim("SimRFs best at m = d, "+rows, lab.StatedIn("§5.3"), "consistently",
			fmt.Sprintf("above IIDRFs and ORFs by two standard errors on %d of 8 sets", best[i]),
			lab.Worst(orders[i]...), "not on every set: accuracy is no monotone function of the error of the kernel")
		p.Claim("SimRFs and SimRFs+ above ORFs, "+rows, lab.StatedIn("Table 2, caption"),
			"substantially on every data set",
			fmt.Sprintf("both by two standard errors on %d of 8 sets", above[i]), lab.Worst(orthogonal[i]...),
			"not on every set")
	}
	return p, nil
}

func runSimplexTable3(l *lab.Lab) (*lab.Page, error) {
	couplings := []string{"IIDRFs", "ORFs", "fast ORFs", "SimRFs", "fast SimRFs"}
	of, err := simplexAccuracies(l, couplings, []int{1}, true)
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{simplexSetting, "Rows are padded with zeros to a power of two, for regular couplings too; fast ones " +
		"are products of three HD blocks."}}
	same, bound, widest, gain := 0, 0.0, 0.0, 0.0
	for set := range uciSets {
		guess, err := guessing(l, set, 1)
		if err != nil {
			return nil, err
		}
		var got, se [5]float64
		for i, c := range couplings {
			ours, ourSE := of(set, c, 1, false)
			printed := simplexPrinted[set]
			addAccuracy(p, "Table 3", set, c, printed.table3[i], printed.se3, ours, ourSE, guess)
			got[i], se[i] = of(set, c, 1, true)
		}
		for _, pair := range [][2]int{{1, 2}, {3, 4}} {
			if math.Abs(got[pair[0]]-got[pair[1]]) <= 3*math.Hypot(se[pair[0]], se[pair[1]]) {
				same++
			}
			bound = max(bound, math.Abs(got[pair[0]]-got[pair[1]]))
			widest = max(widest, 3*math.Hypot(se[pair[0]], se[pair[1]]))
		}
		gain = max(gain, got[3]-got[0])
	}
	verdict := lab.Judge(same >= 15)
	if verdict == lab.Holds && widest > gain { // intervals wider than the whole effect of a coupling show nothing
		verdict = lab.TooNoisy
	}
	p.Claim("fast couplings have the accuracy of regular ones", lab.StatedIn("Table 3, caption"), "does not change",
		fmt.Sprintf("%d of 16 within three standard errors, which are at most %.3f; largest difference %.3f; SimRFs gain "+
			"up to %.3f over IIDRFs", same, widest, bound, gain), verdict, "a difference beyond chance: with n = 4 and 8 the rows of HD products are far from "+
			"normal, which biases the kernel by per cents")
	return p, nil
}

func runSimplexFig10(l *lab.Lab) (*lab.Page, error) {
	type key struct{ Set, Split, Rows int }
	var keys []key
	for set := range uciSets {
		for split := range lab.Pick(l, 2, 5) {
			keys = append(keys, key{set, split, 1000})
		}
	}
	var sigmas []float64
	for i := range 9 {
		sigmas = append(sigmas, math.Pow(10, -2+float64(i)*3/8))
	}
	type value struct{ Exact, Random, SE []float64 }
	values, err := lab.Cells(l, "accuracy", keys, func(k key, _ uint64) (v value, err error) {
		s := uciSets[k.Set]
		t, err := readUCI(l, s)
		if err != nil {
			return v, err
		}
		parts := t.cut(uint64(k.Split)<<8 | uint64(k.Set))
		parts.train, parts.valid = parts.train.first(k.Rows), parts.valid.first(100)
		parts = parts.standardise()
		d := parts.train.x.Cols
		for _, sigma := range sigmas {
			v.Exact = append(v.Exact, exactAccuracy(parts.train, parts.valid.x, parts.valid.y, sigma))
			acc := make([]float64, 10)
			x, q := scaled(parts.train.x, sigma), scaled(parts.valid.x, sigma)
			for seed := range acc {
				m, err := randfeat.New[float64](randfeat.Spec{Family: family.Positive{}, Dim: d, M: 10 * d,
					Seed: rng.Mix64(lab.Seed + uint64(seed))})
				if err != nil {
					return v, err
				}
				voter, err := newVoter(m, x, parts.train.y, t.classes, false)
				if err != nil {
					return v, err
				}
				if acc[seed], err = voter.accuracy(q, parts.valid.y); err != nil {
					return v, err
				}
			}
			mean, sd := meanSD(acc)
			v.Random, v.SE = append(v.Random, mean), append(v.SE, sd/math.Sqrt(10))
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{"Accuracy on validation rows over the scale σ, m = 10d iid positive features, 10 draws; at most 1000 " +
		"training and 100 validation rows. Means over splits."}}
	for set, s := range uciSets {
		exact, random := figure.Series{Name: "exact kernel"}, figure.Series{Name: "IIDRFs, m = 10d"}
		for j, sigma := range sigmas {
			var e, r, se, n float64
			for i, k := range keys {
				if k.Set == set {
					e, r, se, n = e+values[i].Exact[j], r+values[i].Random[j], se+values[i].SE[j], n+1
				}
			}
			exact.X, exact.Y = append(exact.X, sigma), append(exact.Y, e/n)
			random.X, random.Y = append(random.X, sigma), append(random.Y, r/n)
			random.Low, random.High = append(random.Low, (r-se)/n), append(random.High, (r+se)/n)
		}
		if err := p.Draw(s.name, "Accuracy over σ, "+s.name+".", &figure.Figure{Title: "Accuracy over σ, " + s.name,
			X: figure.Axis{Label: "σ", Log: true}, Y: figure.Axis{Label: "validation accuracy"},
			Series: []figure.Series{exact, random}}); err != nil {
			return nil, err
		}
		best, last := 0, len(sigmas)-1
		for j := range sigmas {
			if random.Y[j] > random.Y[best] {
				best = j
			}
		}
		c := lab.Check{What: s.name + ": σ where IIDRFs peak", Source: lab.PrintedIn("Fig 10 and public code"),
			Reference: fmt.Sprintf("%.2f", s.sigma),
			Ours:      fmt.Sprintf("%.2f", sigmas[best]), Interval: "the grid has steps of a factor 2.4",
			Verdict: lab.Judge(math.Abs(math.Log(sigmas[best]/s.sigma)) <= 1.5*math.Log(2.4))}
		if c.Verdict == lab.Misses {
			c.Why = "a flat or noisy peak on 100 validation rows"
		}
		p.Add(c)
		p.InTable("σ of the best validation accuracy", s.name, "σ")
		p.Claim(s.name+": random features fall behind the exact kernel at large σ", lab.StatedIn("Fig 10"), "so",
			fmt.Sprintf("%.2f against %.2f at σ = 10", random.Y[last], exact.Y[last]),
			lab.Order(exact.Y[last]-random.Y[last], 2*(random.High[last]-random.Y[last])), "they do not")
	}
	return p, nil
}
