package tabular

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// repeats is n rows of 6 columns with a target of which a part is smooth and a part belongs to one of 700 things that
// rows are nearly equal pictures of. Few rows know nothing of most things; many do.
func repeats(n int, seed uint64) *numbers {
	things := rand.New(rand.NewPCG(5, 5))
	r := rand.New(rand.NewPCG(seed, 6))
	s := &numbers{names: []string{"a", "b", "c", "d", "e", "f", "y"}}
	var at [700][7]float64
	for i := range at {
		for j := range at[i] {
			at[i][j] = things.NormFloat64()
		}
	}
	for range n {
		thing := at[r.IntN(len(at))]
		row := make([]float64, 7)
		for j := range 6 {
			row[j] = thing[j] + 0.02*r.NormFloat64()
		}
		row[6] = 2*(row[0]+row[1]+row[2]) + thing[6] + 0.3*r.NormFloat64()
		s.rows = append(s.rows, row)
	}
	return s
}

// A second minimum of the loss far below the bandwidth of few rows is found where it will be the better one: the search
// without the look for narrower kernels ends above.
func TestNarrowerKernelsAreFound(t *testing.T) {
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1, Kernel: kernel.Gaussian.String()}
	c, order := searched(t, repeats(1400, 1), o)
	find := func(final bool) *exactSearch {
		e := c.exactSearch(order, finalSizes(len(order))...)
		// Where few rows are best: the wide minimum.
		e.at, e.final = exactPoint{8, 0.1}, final
		if err := e.search(); err != nil {
			t.Fatal(err)
		}
		return e
	}
	climbed, found := find(false), find(true)
	loss := func(e *exactSearch) float64 { return mean(e.all[best(e.all)].loss) }
	t.Logf("climbed to %.3g, loss %.3f; found %.3g, loss %.3f of %d rows", climbed.at.scale, loss(climbed),
		found.at.scale, loss(found), found.tries.x.Rows)
	if found.at.scale > climbed.at.scale/3 || loss(found) > 0.7*loss(climbed) {
		t.Errorf("bandwidth %.3g and loss %.3f, a climb has %.3g and %.3f", found.at.scale, loss(found),
			climbed.at.scale, loss(climbed))
	}
}

// chosenFor is a fit whose choices are made.
func chosenFor(t testing.TB, in job) *chosen {
	t.Helper()
	c, err := begin(in, nil, new(journal), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// searched is a chooser of a table, its rows drawn, and their order.
func searched(t testing.TB, src data.Source, o Options) (*chooser, []int) {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	in := job{ctx: t.Context(), src: src, o: o, deal: newDealer(o.Seed, nil), weighs: true}
	f, _, err := learnTable(in, new(journal), nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := machine.TableRows(src, f.schema, true)
	if err != nil {
		t.Fatal(err)
	}
	s, n, err := f.take(f.watch(rows, stageSample))
	if err != nil {
		t.Fatal(err)
	}
	return &chooser{f: &search{job: f}, s: s, rows: n, d: &decision{}}, shuffled(s.len(), o.Seed)
}

// Of two scalings the one stays that more rows confirm, whichever was found first, with settings of its own.
func TestScalingsAreConfirmed(t *testing.T) {
	c, order := searched(t, board(700, 3), Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1})
	judge, others := order[:300], order[300:]
	good := &scalingOf{"good", []float64{1, 1, 0.01}, exactPoint{0.4, 0.1}}
	bad := &scalingOf{"bad", []float64{0.01, 1, 1}, exactPoint{0.4, 0.1}}
	for _, pair := range [][2]*scalingOf{{good, bad}, {bad, good}} {
		won, n, err := c.confirmed(pair[0], pair[1], others, judge)
		if err != nil {
			t.Fatal(err)
		}
		if won != good || n != 700 {
			t.Errorf("%s against %s: %s by %d rows", pair[0].name, pair[1].name, won.name, n)
		}
	}
	if won, n, err := c.confirmed(bad, good, others[:20], judge); err != nil || won != bad || n != 0 {
		t.Errorf("20 rows more: %v, %d, %v", won, n, err)
	}
}

// Choices of a table of which one fold is scored have seen nothing of that fold, and its columns are those of all rows.
func TestChoicesAreMadeApart(t *testing.T) {
	old := apartRows
	apartRows = 250
	defer func() { apartRows = old }()
	o := Options{Learn: learn("y"), Folds: 3, Kernel: kernel.Gaussian.String(), Scaling: scalingStandard}
	fit := func(src *numbers) *Report {
		_, r, err := Fit(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain, spoiled := waves(400, 1), waves(400, 1)
	deal := newDealer(o.Seed, nil)
	at := slices.Index(plain.names, "y")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range spoiled.rows {
		if deal.of(int64(i), o.Folds) == 0 { // about the same mean and scale, or units would differ
			spoiled.rows[i][at] = plain.rows[(i*7+r.IntN(400))%400][at]
		}
	}
	a, b := fit(plain), fit(spoiled)
	for _, name := range []string{"bandwidth", "lambda"} {
		x, y := choice(t, a, name), choice(t, b, name)
		if x.Number != y.Number || len(x.Trials) < 2 {
			t.Errorf("%s: %g, and %g with other targets in the fold that judges", name, x.Number, y.Number)
		}
	}
	if x, y := a.Scores[0].Value, b.Scores[0].Value; !(y > 1.1*x) {
		t.Errorf("RMSE %g, and %g of targets that are noise in a third of the rows", x, y)
	}
	apartRows = math.MaxInt64 / 8
	if c := fit(spoiled); choice(t, c, "lambda").Number == choice(t, b, "lambda").Number &&
		choice(t, c, "bandwidth").Number == choice(t, b, "bandwidth").Number {
		t.Error("choices by all rows are the same: the test has no power")
	}
}

// Choices for two folds that are scored have seen nothing of either, and are those of the fits that are judged.
func TestChoicesOfTwoFolds(t *testing.T) {
	old := sharedRows
	sharedRows = 200
	defer func() { sharedRows = old }()
	o := Options{Learn: learn("y"), Folds: 5, Kernel: kernel.Gaussian.String(), Scaling: scalingStandard}
	at := slices.Index(waves(1, 1).names, "y")
	pair := func(spoil ...int) (a, b *chosen, by *prior) {
		src := waves(400, 1)
		deal, r := newDealer(o.Seed, nil), rand.New(rand.NewPCG(1, 1))
		for i := range src.rows {
			if slices.Contains(spoil, deal.of(int64(i), o.Folds)) {
				src.rows[i][at] = src.rows[(i*7+r.IntN(400))%400][at]
			}
		}
		given, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		f := chosenFor(t, job{ctx: context.Background(), src: src, o: given, weighs: true})
		if a, by, err = withoutFold(f, 2, nil); err != nil {
			t.Fatal(err)
		}
		b, again, err := withoutFold(f, 3, by)
		if err != nil || again != by {
			t.Fatalf("%v, choices of the pair made twice: %t", err, again != by)
		}
		return a, b, by
	}
	point := func(c *chosen) exactPoint { return exactPoint{c.d.Spec.Kernel.Scale, c.d.Lambda} }
	a, b, by := pair()
	if by == nil || point(a) != point(b) || a.d.Rows != 320 || by.d.Rows != 240 {
		t.Fatalf("folds of a pair choose %v and %v of %d rows by %v", point(a), point(b), a.d.Rows, by)
	}
	if c, d, _ := pair(2, 3); point(c) != point(a) || point(d) != point(a) {
		t.Errorf("%v with targets of the pair that are noise, %v without", point(c), point(a))
	}
	if c, _, _ := pair(0, 1); point(c) == point(a) {
		t.Error("targets that are noise in other folds change nothing: the test has no power")
	}
	sharedRows = 241
	if _, _, by := pair(); by != nil {
		t.Errorf("choices of a pair by %d rows", by.d.Rows)
	}
}
