package papers

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/repro/lab"
)

var chefsTable1 = &lab.Item{
	ID: "chefs-table1", Paper: chefs, Title: "Tables 1 and 3: classification by kernel regression, eight UCI sets",
	Data: uciFiles(), Version: 4, Run: runChefsTable1,
}

// chefsFamily is a column of the tables: test accuracy and its standard deviation over 50 seeds, in per cent. "<
// 0.05" is entered as 0.05.
type chefsFamily struct {
	name       string
	family     family.Family
	m          int // 128 real features or 64 complex ones (CRT 9.10.2)
	orthogonal bool
	means, sds [8]float64
}

var chefsFamilies = []chefsFamily{
	{"TrigRF", family.Trig{}, 64, true, [8]float64{12.0, 66.2, 66.3, 29.7, 46.6, 31.3, 15.2, 16.5},
		[8]float64{.05, .05, .05, .05, .05, .05, .05, .05}},
	{"PosRF", family.Positive{}, 128, true, [8]float64{16.0, 83.4, 69.2, 34.4, 45.1, 77.4, 88.8, 20.2},
		[8]float64{2.1, 3.7, 3.0, 3.2, 4.0, 6.3, 6.2, 1.3}},
	{"GERF", family.GERF{}, 64, true, [8]float64{17.0, 92.4, 70.9, 42.9, 47.8, 63.8, 93.3, 20.4},
		[8]float64{1.9, 4.3, 2.5, 5.0, 3.9, 3.2, 4.1, 1.2}},
	{"PoisRF", family.Poisson{}, 128, false, [8]float64{18.0, 84.4, 66.3, 36.9, 46.6, 77.1, 95.3, 19.1},
		[8]float64{1.8, 2.1, 0, 6.0, 4.3, 7.2, 2.8, 1.8}},
	{"GeomRF", family.Geometric{}, 128, false, [8]float64{18.3, 94.5, 66.3, 35.9, 47.3, 77.1, 95.8, 19.5},
		[8]float64{1.3, 3.0, .05, 3.4, 3.4, 7.3, 2.0, 2.0}},
	{"OPRF", family.OPRF{}, 128, true, [8]float64{17.1, 92.6, 69.5, 44.4, 46.3, 78.9, 93.3, 20.2},
		[8]float64{1.7, 3.4, 3.0, 4.9, 3.8, 6.3, 4.1, 1.2}},
	{"PoisRF+", family.PoissonPlus{}, 128, false, [8]float64{14.0, 80.1, 66.3, 29.7, 35.5, 77.3, 77.2, 19.2},
		[8]float64{2.9, 5.9, .05, .05, 5.3, 5.6, 13.1, 1.7}},
	{"GeomRF+", family.GeometricPlus{}, 128, false, [8]float64{15.1, 85.6, 67.2, 31.0, 43.5, 71.0, 82.9, 22.5},
		[8]float64{2.9, 7.7, 1.5, 2.4, 5.2, 8.2, 9.8, 1.9}},
}

// chefsKey is one accuracy: a set, a family and one random split.
type chefsKey struct {
	Set, Family, Variant string
	Split, Seeds, Rows   int // Rows bounds the training rows; 0 means all
}

// Variants of what the paper leaves open.
const (
	asPrinted  = ""           // standardised columns, Re(f1 f2)
	raw        = "raw"        // columns as they are in the file
	conjugated = "conjugated" // Re(f1 f2*), as CRT eq 1 prints it
	allReal    = "m=128"      // GERF with as many features as the others if its A is real
)

type chefsValue struct {
	Sigma    float64 // chosen by validation
	Mean, SD float64 // test accuracy over seeds, %
	Rows     int     // rows of the test set
}

// guessing is the rival of accuracies: always answering with the most frequent class of the file.
func guessing(l *lab.Lab, s uciSet, scale float64) (lab.Rival, error) {
	t, err := readUCI(l, s)
	if err != nil {
		return lab.Rival{}, err
	}
	return lab.Rival{Name: "guessing the most frequent class", Value: scale * t.majority()}, nil
}

func chefsCell(l *lab.Lab, k chefsKey) (v chefsValue, err error) {
	set := slices.IndexFunc(uciSets, func(s uciSet) bool { return s.name == k.Set })
	s := uciSets[set]
	f := chefsFamilies[slices.IndexFunc(chefsFamilies, func(f chefsFamily) bool { return f.name == k.Family })]
	t, err := readUCI(l, s)
	if err != nil {
		return v, err
	}
	parts := t.cut(s, uint64(k.Split)<<8|uint64(set)) // all families share the split
	if n := parts.train.x.Rows; k.Rows > 0 && n > k.Rows {
		order := make([]int, k.Rows)
		for i := range order {
			order[i] = i
		}
		parts.train = parts.train.rows(order)
	}
	if k.Variant != raw {
		parts = parts.standardise()
	}
	accuracy := func(sigma float64, on *table, seeds int, base uint64) ([]float64, error) {
		x, q := scaled(parts.train.x, sigma), scaled(on.x, sigma)
		spec := randfeat.Spec{Family: f.family, Dim: x.Cols, M: f.m}
		if f.orthogonal {
			spec.Coupling = coupling.Orthogonal{}
		}
		spec, err := randfeat.Fit(spec, x, x)
		if err != nil {
			return nil, err
		}
		if g, ok := spec.Family.(family.GERF); ok && k.Variant == allReal && imag(complex128(g.A)) == 0 && g.S != -1 {
			spec.M = 128
		}
		var acc []float64
		for seed := range seeds {
			m, err := randfeat.New[float64](spec.WithSeed(base + uint64(seed)))
			if err != nil {
				return nil, err
			}
			voter, err := newVoter(m, x, parts.train.y, t.classes, k.Variant == conjugated && m.OutDim() > spec.M)
			if err != nil {
				return nil, err
			}
			a, err := voter.accuracy(q, on.y)
			if err != nil {
				return nil, err
			}
			acc = append(acc, 100*a)
		}
		return acc, nil
	}
	best := -1.0
	for i := range 10 { // log-uniform from 1e-2 to 1e2
		sigma := math.Pow(10, -2+4*float64(i)/9)
		acc, err := accuracy(sigma, parts.valid, min(10, k.Seeds), lab.Seed)
		if err != nil {
			return v, fmt.Errorf("σ = %.3g: %w", sigma, err)
		}
		if m, _ := meanSD(acc); m > best {
			best, v.Sigma = m, sigma
		}
	}
	acc, err := accuracy(v.Sigma, parts.test, k.Seeds, lab.Seed+1000)
	v.Mean, v.SD = meanSD(acc)
	v.Rows = parts.test.x.Rows
	return v, err
}

func runChefsTable1(l *lab.Lab) (*lab.Page, error) {
	splits, seeds, rows := lab.Pick(l, 4, 3), lab.Pick(l, 4, 50), lab.Pick(l, 1500, 0)
	var keys []chefsKey
	at := func(set, family, variant string, splits int) {
		for split := range splits {
			keys = append(keys, chefsKey{set, family, variant, split, seeds, rows})
		}
	}
	for _, s := range uciSets {
		for _, f := range chefsFamilies {
			at(s.name, f.name, asPrinted, splits)
			at(s.name, f.name, raw, 1)
		}
		at(s.name, "TrigRF", conjugated, splits)
		at(s.name, "GERF", allReal, splits)
	}
	values, err := lab.Cells(l, "accuracy", keys, func(k chefsKey, _ uint64) (chefsValue, error) {
		return chefsCell(l,
			k)
	})
	if err != nil {
		return nil, err
	}
	// of returns the mean over splits and its standard error, the mean deviation over seeds, and the standard
	// deviation of an accuracy on so many test rows, which is the luck of a single split.
	of := func(set, family, variant string) (mean, se, seeds, luck float64) {
		var m []float64
		for i, k := range keys {
			if k.Set == set && k.Family == family && k.Variant == variant {
				m = append(m, values[i].Mean)
				seeds += values[i].SD
				luck = float64(values[i].Rows)
			}
		}
		mean, se = meanSD(m)
		n := float64(len(m))
		return mean, se / math.Sqrt(n), seeds / n, math.Sqrt(mean * (100 - mean) / luck)
	}
	average := func(family, variant string) (mean float64) {
		for _, s := range uciSets {
			m, _, _, _ := of(s.name, family, variant)
			mean += m / float64(len(uciSets))
		}
		return mean
	}

	p := &lab.Page{Setting: []string{
		fmt.Sprintf("Kernel regression with the Gaussian kernel of σx: the class with the greatest sum. 90 %% of the rows to "+
			"learn from, 5 %% to choose σ on a grid of ten from 0.01 to 100 with at most ten seeds, 5 %% to test, %d random "+
			"splits (the paper has one) and %d seeds of the features per split (the paper: 50). 128 real features, or 64 complex ones; orthogonal "+
			"ω for Trig, Pos, GERF and OPRF.", splits, seeds),
		"The paper does not say how columns are scaled. With raw columns positive features fall 10 points short of its table, " +
			"with standardised ones they agree (below); and the mean |x+y| of Simplex's Table 2, on the same task, is that of " +
			"standardised columns. So columns are standardised here by the rows to learn from. A " +
			"column of words becomes one column per word: Simplex's Table 3 pads rows to a power of two, which changes " +
			"abalone and nursery, so these had more than 8 columns.",
	}}
	if rows > 0 {
		p.Setting = append(p.Setting, fmt.Sprintf("Quick: at most %d rows to learn from (chess has 25249, nursery 11664, "+
			"abalone 3758).", rows))
	}
	var guesses []lab.Rival
	guess := 0.0
	for _, s := range uciSets {
		r, err := guessing(l, s, 100)
		if err != nil {
			return nil, err
		}
		guesses = append(guesses, r)
		guess += r.Value / float64(len(uciSets))
	}
	const splitWhy = "further than the luck of one split explains; how the paper prepared this set is not printed"
	for _, f := range chefsFamilies {
		within, paper := 0, 0.0
		for si, s := range uciSets {
			variant, what := asPrinted, ""
			if f.name == "TrigRF" {
				variant, what = conjugated, " (conjugated)"
			}
			mean, se, _, luck := of(s.name, f.name, variant)
			// The paper's value comes from one split; ours is a mean over splits.
			tol := 2 * math.Sqrt(se*se+luck*luck+f.sds[si]*f.sds[si]/50)
			why, rival := splitWhy, guesses[si]
			if variant == conjugated { // guessing is expected here, so the rival is the right product
				why = "the classes are nearly equally frequent: guesses at a large σ can beat the constant class in the " +
					"validation, and which class is the constant one is the luck of a split"
				right, _, _, _ := of(s.name, f.name, asPrinted)
				rival = lab.Rival{Name: "TrigRF with the right product", Value: right}
			}
			if rows > 0 && (s.name == "chess" || s.name == "nursery") {
				why += fmt.Sprintf("; quick mode learns from %d rows", rows)
			}
			p.Measured(lab.Check{What: f.name + what + ", " + s.name, Source: lab.PrintedIn("Tables 1 and 3"),
				Reference: fmt.Sprintf("%.1f ± %.1f", f.means[si], f.sds[si]), Ours: fmt.Sprintf("%.1f", mean),
				Interval: fmt.Sprintf("± %.1f; luck of the paper's split ± %.1f", 2*se, 2*luck)},
				lab.Numbers{Reference: f.means[si], Ours: mean, Half: max(tol, f.sds[si]), Rivals: []lab.Rival{rival}},
				why)
			p.InTable("Table 1 with the standard deviations of Table 3: test accuracy, %", s.name, f.name+what)
			if math.Abs(mean-f.means[si]) <= f.sds[si] {
				within++
			}
			paper += f.means[si] / 8
		}
		variant := asPrinted
		if f.name == "TrigRF" {
			variant = conjugated
		}
		ours, rival := average(f.name, variant), lab.Rival{Name: "guessing the most frequent classes", Value: guess}
		if variant == conjugated {
			rival = lab.Rival{Name: "TrigRF with the right product", Value: average(f.name, asPrinted)}
		}
		p.Measured(lab.Check{What: f.name + ", average", Source: lab.PrintedIn("Table 1"),
			Reference: fmt.Sprintf("%.1f", paper), Ours: fmt.Sprintf("%.1f", ours),
			Interval: fmt.Sprintf("± 3 points; %d of 8 sets within the paper's sd", within)},
			lab.Numbers{Reference: paper, Ours: ours, Half: 3, Rivals: []lab.Rival{rival}},
			"more than 3 points apart: see the sets above")
		what := ""
		if variant == conjugated {
			what = " (conjugated)"
		}
		p.InTable("Table 1 with the standard deviations of Table 3: test accuracy, %", "average", f.name+what)
	}
	printed, here := figure.Series{Name: "paper"}, figure.Series{Name: "ours"}
	for i, f := range chefsFamilies {
		paper := 0.0
		for _, v := range f.means {
			paper += v / 8
		}
		printed.X, printed.Y = append(printed.X, float64(i+1)), append(printed.Y, paper)
		here.X, here.Y = append(here.X, float64(i+1)), append(here.Y, average(f.name, asPrinted))
	}
	if err := p.Draw("averages", "Average accuracy over the eight sets. TrigRF with the right product; its row in the paper is that of "+
		"the conjugated one.", &figure.Figure{Title: "Average accuracy of eight families, %",
		X: figure.Axis{Label: "Trig, Pos, GERF, Pois, Geom, OPRF, Pois+, Geom+", Ticks: []float64{1, 2, 3, 4, 5, 6, 7,
			8}},
		Y: figure.Axis{Label: "test accuracy, %"}, Series: []figure.Series{printed, here}}); err != nil {
		return nil, err
	}
	header := []string{"family", "paper", "standardised", "raw"}
	var tab [][]string
	for _, f := range chefsFamilies {
		paper := 0.0
		for _, v := range f.means {
			paper += v / 8
		}
		tab = append(tab, []string{f.name, fmt.Sprintf("%.1f", paper), fmt.Sprintf("%.1f", average(f.name, asPrinted)),
			fmt.Sprintf("%.1f", average(f.name, raw))})
	}
	p.Tables = append(p.Tables, lab.Table{Title: "Average over the sets, by how columns are scaled", Header: header,
		Rows: tab})
	_, _, spread, _ := of("nursery", "TrigRF", conjugated)
	p.Notes = append(p.Notes,
		fmt.Sprintf("TrigRF. With the right product, Re(f1 f2), its average is %.1f, and it is among the best; the paper has "+
			"35.5 with deviations below 0.05 on all sets, which no random feature can have unless the predictions do not "+
			"depend on the features. Its eq 1 conjugates f2, but f2 is already the conjugate: Re(f1 f2*) estimates "+
			"exp(−|x+y|²/2), a kernel that votes for what is opposite. With that product σ = 0.01 is chosen, all kernel "+
			"values are 1, the majority class of the training rows wins everywhere: %.1f on average, deviation over seeds "+
			"%.2f on nursery. That the paper's code did this is a conclusion from its numbers: all eight are shares of one "+
			"class. For instance wifi has 25 %% in each of four classes; 15.2 %% is a class that was rare in the test rows, "+
			"hence frequent in the training rows.", average("TrigRF", asPrinted), average("TrigRF", conjugated),
			spread),
		fmt.Sprintf("GERF. The fitted A is real and s = +1 nearly everywhere on standardised columns, so GERF is OPRF. "+
			"Counted as a complex map it gets 64 projections and averages %.1f (paper 56.1); with 128 real features, which "+
			"is what it needs, %.1f: the same as OPRF. The gap seen in earlier trials was this budget.",
			average("GERF", asPrinted), average("GERF", allReal)),
		"The paper's deviations (Table 3) are over draws of features on one split. Banknote, car, yeast, cmc and wifi have 69 to "+
			"100 test rows, whose accuracy moves by 9 to 12 points from split to split, more than most of those deviations: "+
			"verdicts count the luck of a split, and the rows of averages say how many sets are within the paper's deviation.")
	return p, nil
}
