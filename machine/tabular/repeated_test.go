package tabular

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// repeatable is a table of n rows and d columns of numbers and one of levels, with whole weights from 0 on.
type repeatable struct {
	x       dense.Matrix[float64]
	levels  []int8
	y       []float64
	class   []int8
	weights []float64
}

func newRepeatable(n, d int, seed uint64) *repeatable {
	src := rand.New(rand.NewPCG(seed, 1))
	t := &repeatable{x: dense.New[float64](n, d)}
	for i := range n {
		sum := 0.0
		for j := range d {
			v := src.NormFloat64()
			t.x.Set(i, j, v)
			sum += v * math.Sin(float64(j))
		}
		l := int8(src.IntN(3))
		t.levels = append(t.levels, l)
		t.y = append(t.y, math.Tanh(sum)+float64(l)+0.3*src.NormFloat64())
		class := int8(0)
		if sum+src.NormFloat64() > 0 {
			class = 1
		}
		t.class = append(t.class, class)
		t.weights = append(t.weights, float64(src.IntN(5)))
	}
	return t
}

// table has the given rows, with weights if asked for.
func (t *repeatable) table(test *testing.T, rows []int, weighted bool) *data.Columns {
	out := data.NewColumns("rows")
	add := func(name string, c data.Cells) {
		if err := out.Add(name, c); err != nil {
			test.Fatal(err)
		}
	}
	for j := range t.x.Cols {
		var v []float64
		for _, i := range rows {
			v = append(v, t.x.At(i, j))
		}
		add(fmt.Sprint("x", j), data.Cells{Values: v})
	}
	var levels, class []int8
	var y, w []float64
	for _, i := range rows {
		levels, class = append(levels, t.levels[i]), append(class, t.class[i])
		y, w = append(y, t.y[i]), append(w, t.weights[i])
	}
	add("level", data.Cells{Values: levels, Levels: []string{"a", "b", "c"}})
	add("y", data.Cells{Values: y})
	add("class", data.Cells{Values: class, Levels: []string{"no", "yes"}})
	if weighted {
		add("w", data.Cells{Values: w})
	}
	return out
}

// orders are all rows in a random order, and every row as often as its weight says.
func (t *repeatable) orders(seed uint64) (shuffled, repeated []int) {
	shuffled = rand.New(rand.NewPCG(seed, 2)).Perm(len(t.y))
	for i, w := range t.weights {
		for range int(w) {
			repeated = append(repeated, i)
		}
	}
	return shuffled, repeated
}

// kindsOfFits are fits with all choices open, and some made.
func kindsOfFits() map[string]Options {
	regression := data.LearnOptions{Targets: []string{"y"}, Skip: []string{"class"}}
	classes := data.LearnOptions{Targets: []string{"class"}, Skip: []string{"y"}}
	density := data.LearnOptions{Skip: []string{"class", "y"}}
	return map[string]Options{
		"regression":                {Learn: regression},
		"regression, λ":             {Learn: regression, Bandwidth: 3, Lambda: 0.5, Folds: 1},
		"landmarks":                 {Learn: regression, Map: MapNystrom, Features: 8},
		"random features":           {Learn: regression, Map: MapRandom, Features: 32},
		"Gaussian process":          {Learn: regression, Kind: machine.KindGP, Map: MapRandom, Features: 32},
		"smoother":                  {Learn: regression, Kind: machine.KindSmoother, Features: 32},
		"classes":                   {Learn: classes},
		"classes, landmarks":        {Learn: classes, Map: MapNystrom, Features: 8},
		"logistic":                  {Learn: classes, Kind: machine.KindLogistic, Features: 32},
		"classes with weights":      {Learn: classes, ClassWeights: []float64{1, 3}},
		"density":                   {Learn: density, Features: 32},
		"regression without scores": {Learn: regression, Folds: 1},
	}
}

// predictions of rows by a model of a table.
func predictions(t *testing.T, name string, src data.Source, o Options, rows data.Source) dense.Matrix[float64] {
	t.Helper()
	m, _, err := Fit(context.Background(), src, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := machine.TableRows(rows, m.Schema, false)
	if err != nil {
		t.Fatal(err)
	}
	var out dense.Matrix[float64]
	if err := r.Each(1000, func(x, _ dense.Matrix[float64]) error {
		out = dense.New[float64](x.Rows, m.Outputs)
		return p.Predict(out, x, nil)
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// A weight means that a row comes so often, whatever the order of rows: with all choices open, for every kind of model,
// as scikit-learn checks it of its estimators (check_sample_weight_equivalence), there to 1e-7.
func TestWeightsAreRepetitions(t *testing.T) {
	t.Parallel()
	for name, o := range kindsOfFits() {
		for n, d := range map[int]int{20: 30, 60: 4} {
			if n == 60 && name != "regression" && name != "classes" {
				continue
			}
			r := newRepeatable(n, d, uint64(n))
			shuffled, repeated := r.orders(3)
			all := r.table(t, shuffled, false)
			want := predictions(t, name, r.table(t, repeated, false), o, all)
			weighted := o
			weighted.Marks.Weight = "w"
			got := predictions(t, name, r.table(t, shuffled, true), weighted, all)
			if !slices.Equal(got.Data, want.Data) {
				t.Errorf("%s of %d rows: predictions are\n%v with weights\n%v of repeated rows", name, n, got.Data[:8],
					want.Data[:8])
			}
		}
	}
}

// Rows without weight are left out of tables of any size, and weights of 1 are none.
func TestRowsWithoutWeight(t *testing.T) {
	t.Parallel()
	r := newRepeatable(repeatedRows+500, 3, 1)
	var all, left []int
	for i := range r.weights {
		all = append(all, i)
		if r.weights[i] = float64(i % 3 % 2); r.weights[i] > 0 {
			left = append(left, i)
		}
	}
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}, Skip: []string{"class"}}, Map: MapRandom,
		Features: 16}
	rows := r.table(t, all[:100], false)
	want := predictions(t, "left out", r.table(t, left, false), o, rows)
	o.Marks.Weight = "w"
	if got := predictions(t, "weights", r.table(t, all, true), o, rows); !slices.Equal(got.Data, want.Data) {
		t.Errorf("predictions are %v with rows of no weight, %v without these rows", got.Data[:5], want.Data[:5])
	}
}

// Few distinct rows, as those of a design, come as often as their weights say: 4 rows cannot be dealt to 5 folds.
func TestFewDistinctRows(t *testing.T) {
	r := newRepeatable(4, 2, 5)
	r.class, r.levels = []int8{0, 0, 1, 1}, []int8{0, 0, 0, 1}
	for i := range r.weights {
		r.weights[i] = 4
	}
	o := Options{Learn: data.LearnOptions{Targets: []string{"class"}, Skip: []string{"y"}}}
	shuffled, repeated := r.orders(1)
	want := predictions(t, "repeated", r.table(t, repeated, false), o, r.table(t, shuffled, false))
	o.Marks.Weight = "w"
	got := predictions(t, "weights", r.table(t, shuffled, true), o, r.table(t, shuffled, false))
	if !slices.Equal(got.Data, want.Data) {
		t.Errorf("predictions are %v with weights, %v of repeated rows", got.Data, want.Data)
	}
}

// What is taken for repetitions: not rows of a few levels each, which agree by chance, nor single ones.
func TestSettledRows(t *testing.T) {
	tallyOf := func(weighted bool, columns int, weights ...float64) *tally {
		out := &tally{whole: true, weighted: weighted, columns: []map[string]bool{{}}}
		for i, w := range weights {
			out.columns[0][fmt.Sprint(i%columns)] = true
			out.distinct = append(out.distinct, &tallied{order: uint64(len(weights) - i), row: int64(i), weight: w})
			out.total += w
			if out.rows++; !weighted {
				out.rows += int(w) - 1
			}
		}
		return out
	}
	twelve := func(first, others float64) []float64 {
		out := slices.Repeat([]float64{others}, 12)
		out[0] = first
		return out
	}
	broken := &tally{distinct: make([]*tallied, 3), rows: 3, weighted: true, total: 4}
	for name, c := range map[string]struct {
		*tally
		rows     int
		weighted bool
	}{
		"nothing repeated":             {tallyOf(false, 12, twelve(1, 1)...), 0, false},
		"weights":                      {tallyOf(true, 12, twelve(2, 1)...), 12, true},
		"all twice":                    {tallyOf(false, 12, twelve(2, 2)...), 12, true},
		"a fifth are repetitions":      {tallyOf(false, 12, twelve(4, 1)...), 12, true},
		"fewer are":                    {tallyOf(false, 12, twelve(3, 1)...), 0, false},
		"six values of 12 rows":        {tallyOf(false, 6, twelve(2, 2)...), 12, true},
		"five values of 12 rows":       {tallyOf(false, 5, twelve(2, 2)...), 0, false},
		"few rows":                     {tallyOf(false, 2, 3, 1, 2), 6, false},
		"few rows with weights":        {tallyOf(true, 2, 3, 1, 2), 6, false},
		"few rows, nothing repeated":   {tallyOf(false, 2, 1, 1, 1), 0, false},
		"few rows of broken weights":   {broken, 0, false},
		"few rows that come too often": {tallyOf(true, 2, 3, 1, repeatedRows), 0, false},
	} {
		rows, weights := c.settled()
		if len(rows) != c.rows || (weights != nil) != c.weighted {
			t.Errorf("%s: rows %v with weights %v, want %d", name, rows, weights, c.rows)
		}
		if len(rows) > 1 && rows[0] != int64(len(c.distinct)-1) {
			t.Errorf("%s: the first is row %d, want that of the least hash", name, rows[0])
		}
	}
}
