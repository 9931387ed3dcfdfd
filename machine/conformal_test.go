package machine

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// Intervals hold at least the share of new observations that they promise, however few residuals there are and whatever
// their law: the mean over many draws of the residuals, each with its exact chance.
func TestConformalCoverage(t *testing.T) {
	reps := 1000
	if stattest.Full() {
		reps = 4000
	}
	law := func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) - 2 } // skewed
	chance := func(v float64) float64 { return 0.5 * math.Erfc(-math.Log(v+2)/math.Sqrt2) }
	sizes, levels := []int{25, 100, 1000}, []float64{0.5, 0.8, 0.9}
	bound := stattest.Bound(1e-4, 2*len(sizes)*len(levels))
	for _, n := range sizes {
		r := rand.New(rand.NewPCG(uint64(n), 2))
		sums := make([]moments, len(levels))
		for range reps / max(1, n/100) {
			y, pred := dense.New[float64](n, 1), dense.New[float64](n, 1)
			for i := range n {
				pred.Set(i, 0, r.NormFloat64())
				y.Set(i, 0, pred.At(i, 0)+law(r))
			}
			var all Residuals
			all.Add(y, pred, dense.Matrix[float64]{}, nil)
			m := &Model{Task: Regression, Outputs: 1, Residuals: all.Quantiles()}
			for i, c := range levels {
				low, high, err := m.Interval(0, c)
				if err != nil {
					t.Fatal(err)
				}
				sums[i].add(chance(high) - chance(max(low, -2)))
			}
		}
		for i, c := range levels {
			se := sums[i].standardError()
			t.Logf("n = %d: %g %% intervals hold %.4f ± %.4f", n, 100*c, sums[i].mean, se)
			// 1/(n+1) on either side is what whole ranks may add, and 1/1000 the steps of the tails.
			if z := (sums[i].mean - c) / se; z < -bound || sums[i].mean > c+2/float64(n+1)+0.002+bound*se {
				t.Errorf("n = %d: %g %% intervals hold %.4f ± %.4f", n, 100*c, sums[i].mean, se)
			}
		}
	}
}

// Few residuals have no interval of a high share; variances make it as wide as each row asks for; memory is bounded.
func TestResiduals(t *testing.T) {
	var r Residuals
	y, pred := dense.New[float64](9, 2), dense.New[float64](9, 2)
	variance := dense.New[float64](9, 2)
	for i := range 9 {
		y.Set(i, 0, float64(i))
		y.Set(i, 1, -2*float64(i))
		variance.Set(i, 0, 1)
		variance.Set(i, 1, 4)
	}
	r.Add(y, pred, variance, nil)
	m := &Model{Task: Regression, Outputs: 2, Residuals: r.Quantiles()}
	for k, want := range [][2]float64{{0, 8}, {-8, 0}} { // the second in units of 2
		if low, high, err := m.Interval(k, 0.8); err != nil || low != want[0] || high != want[1] {
			t.Errorf("output %d: %g to %g, %v, want %v", k, low, high, err, want)
		}
	}
	if low, high, err := m.Interval(0, 0.9); err != nil || !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("90 %% of 9 residuals: %g to %g, %v", low, high, err)
	}
	if err := m.checkInterval(0.9); err == nil ||
		err.Error() != "too few rows were held out at the fit for intervals of "+
			"90 %: at most 80 % can be had: invalid setup" {
		t.Error(err)
	}
	for _, c := range []float64{0, 1, -1, math.NaN()} {
		if _, _, err := m.Interval(0, c); !errors.Is(err, ErrSetup) {
			t.Errorf("coverage %g: %v", c, err)
		}
	}
	if _, _, err := new(Model).Interval(0, 0.9); !errors.Is(err, ErrSetup) {
		t.Errorf("no residuals: %v", err)
	}
	for name, bad := range map[string]func(q dense.Matrix[float64]){
		"NaN":           func(q dense.Matrix[float64]) { q.Set(0, 300, math.NaN()) },
		"falling lower": func(q dense.Matrix[float64]) { q.Set(0, 300, -100) },
		"rising upper":  func(q dense.Matrix[float64]) { q.Set(1, 300, 100) },
		"infinite":      func(q dense.Matrix[float64]) { q.Set(0, 500, math.Inf(1)) },
	} {
		b := &Model{Task: Regression, Outputs: 2, Residuals: m.Residuals.Clone()}
		if bad(b.Residuals); b.validateResiduals() == nil {
			t.Errorf("%s: valid", name)
		}
	}
	if err := m.validateResiduals(); err != nil {
		t.Error(err)
	}
	var many Residuals
	one, zero := dense.New[float64](1, 1), dense.New[float64](1, 1)
	for i := range 3 * maxScores / 2 {
		one.Set(0, 0, float64(i%1000))
		many.Add(one, zero, dense.Matrix[float64]{}, nil)
	}
	if n := len(many.kept[0]); n > maxScores || n < maxScores/2 {
		t.Errorf("%d residuals kept", n)
	}
	if q := many.Quantiles(); math.Abs(q.At(0, 100)-100) > 2 || math.Abs(q.At(1, 100)-899) > 2 {
		t.Errorf("tails of 10 %% at %g and %g", q.At(0, 100), q.At(1, 100))
	}
}

// numbersOf are predictions by column.
func numbersOf(t *testing.T, p *TablePredictor, src data.Source) [][]float64 {
	t.Helper()
	columns, cells := predicted(t, p, src, 50)
	out := make([][]float64, len(columns))
	for _, row := range cells {
		for j, c := range row {
			v, err := strconv.ParseFloat(c, 64)
			if err != nil {
				t.Fatal(err)
			}
			out[j] = append(out[j], v)
		}
	}
	return out
}

// lower and upper are the prediction and the offsets of the model, in units of the standard deviation of a GP.
func TestTableIntervals(t *testing.T) {
	models, src := tableModels(t)
	for _, name := range []string{"ridge", "gp", "two"} {
		m := *models[name]
		var r Residuals
		rnd := rand.New(rand.NewPCG(2, 9))
		y, zero := dense.New[float64](200, m.Outputs), dense.New[float64](200, m.Outputs)
		for i := range y.Data {
			y.Data[i] = rnd.NormFloat64()
		}
		r.Add(y, zero, dense.Matrix[float64]{}, nil)
		m.Residuals = r.Quantiles()
		o := TableOptions{Interval: 0.9, NoIDs: true}
		o.Variance = name != "ridge"
		p, err := NewTablePredictor(&m, o)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := p.Columns()
		at := map[string]int{}
		for j, c := range columns {
			at[c] = j
		}
		cols := numbersOf(t, p, src)
		for k := range m.Outputs {
			suffix := ""
			if m.Outputs > 1 {
				suffix = "_" + m.Schema.Targets[k].Name
			}
			low, high, err := m.Interval(k, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range cols[at["prediction"+suffix]] {
				sd := 1.0
				if o.Variance {
					sd = math.Sqrt(cols[at["variance"+suffix]][i])
				}
				if l, u := cols[at["lower"+suffix]][i], cols[at["upper"+suffix]][i]; math.Abs(l-v-low*sd) > 1e-9 ||
					math.Abs(u-v-high*sd) > 1e-9 || l >= u {
					t.Fatalf("%s: row %d: %g in %g to %g", name, i, v, l, u)
				}
			}
		}
	}
	if _, err := NewTablePredictor(models["classes"], TableOptions{Interval: 0.9}); !errors.Is(err, ErrSetup) {
		t.Errorf("intervals of classes: %v", err)
	}
}

// The importance of columns of a linear function is known: shuffling a column of slope b and variance v costs 2b²v. The
// interval of some rows holds it, and a column that is not used has none.
func TestImportances(t *testing.T) {
	models, src := tableModels(t)
	m := models["ridge"]
	rows, err := TableRows(src, m.Schema, true)
	if err != nil {
		t.Fatal(err)
	}
	all := NewReservoir(1<<20, 1)
	if err := rows.Each(64, func(x, y dense.Matrix[float64]) error { all.Add(x, y); return nil }); err != nil {
		t.Fatal(err)
	}
	n := all.X.Rows
	got, err := m.Importances(all.X, all.Y, ImportanceOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	// The mean over all pairs of rows, not over some shuffles.
	mean, lo := 0.0, 0
	for i := range n {
		mean += all.Y.At(i, 0) / float64(n)
	}
	total := 0.0
	for i := range n {
		total += (all.Y.At(i, 0) - mean) * (all.Y.At(i, 0) - mean) / float64(n)
	}
	x, out := dense.New[float64](n, all.X.Cols), dense.New[float64](n, 1)
	for k := range m.Schema.Fields {
		f := &m.Schema.Fields[k]
		hi := lo + f.Width()
		want := 0.0
		for shift := range n {
			for i := range n {
				copy(x.Row(i), all.X.Row(i))
				copy(x.Row(i)[lo:hi], all.X.Row((i + shift) % n)[lo:hi])
			}
			if err := p.Predict(out, x, nil); err != nil {
				t.Fatal(err)
			}
			loss := 0.0
			for i := range n {
				d := all.Y.At(i, 0) - out.At(i, 0)
				loss += d * d / float64(n)
			}
			if shift == 0 {
				want -= loss / total
			}
			want += loss / total / float64(n)
		}
		lo = hi
		for _, g := range got {
			if g.Column == f.Name && !(g.Drop.Low <= want && want <= g.Drop.High && g.Drop.Name == "R²") {
				t.Errorf("%s: %+v, over all pairs %g", f.Name, g.Drop, want)
			}
		}
	}
	for i := 1; i < len(got); i++ {
		if got[i].Drop.Value > got[i-1].Drop.Value {
			t.Errorf("not in order: %+v", got)
		}
	}
	again, err := m.Importances(all.X, all.Y, ImportanceOptions{Seed: 1})
	if err != nil || again[0] != got[0] {
		t.Errorf("another result: %v, %v", again, err)
	}
	for name, c := range map[string]struct {
		m    *Model
		x, y dense.Matrix[float64]
	}{
		"density":  {models["density"], all.X, all.Y},
		"one row":  {m, all.X.RowRange(0, 1), all.Y.RowRange(0, 1)},
		"y":        {m, all.X, all.X},
		"x":        {m, all.X.ColRange(0, 1), all.Y},
		"no class": {models["classes"], all.X, all.Y},
	} {
		if _, err := c.m.Importances(c.x, c.y, ImportanceOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Every row has the same chance to be kept.
func TestReservoir(t *testing.T) {
	const n, most, reps = 40, 10, 4000
	counts := make([]float64, n)
	x, y := dense.New[float64](n, 1), dense.New[float64](n, 1)
	for i := range n {
		x.Set(i, 0, float64(i))
		y.Set(i, 0, -float64(i))
	}
	for rep := range reps {
		v := NewReservoir(most, uint64(rep))
		v.Add(x.RowRange(0, 7), y.RowRange(0, 7))
		v.Add(x.RowRange(7, n), y.RowRange(7, n))
		if v.X.Rows != most || v.Y.Rows != most {
			t.Fatalf("%d rows", v.X.Rows)
		}
		for i := range most {
			counts[int(v.X.At(i, 0))]++
			if v.Y.At(i, 0) != -v.X.At(i, 0) {
				t.Fatal("targets of another row")
			}
		}
	}
	for i, c := range counts {
		const p = float64(most) / n
		if z := stattest.Z(c/reps, p, math.Sqrt(p*(1-p)), reps); math.Abs(z) > stattest.Bound(1e-4, n) {
			t.Errorf("row %d is kept in %g of samples, z = %.1f", i, c/reps, z)
		}
	}
}

// Weights of 1 change nothing, a weight of 2 is a row twice but for the row that is new, and no weight no row.
func TestWeightedResiduals(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const n = 41
	y, pred := dense.New[float64](n, 1), dense.New[float64](n, 1)
	ones, weights := make([]float64, n), make([]float64, n)
	var twice Residuals
	for i := range n {
		y.Set(i, 0, r.NormFloat64())
		ones[i], weights[i] = 1, float64(i%3)
		for range i % 3 {
			twice.Add(y.RowRange(i, i+1), pred.RowRange(i, i+1), dense.Matrix[float64]{}, nil)
		}
	}
	quantiles := func(w []float64) dense.Matrix[float64] {
		var r Residuals
		r.Add(y, pred, dense.Matrix[float64]{}, w)
		return r.Quantiles()
	}
	for _, c := range []struct{ got, want dense.Matrix[float64] }{{quantiles(ones), quantiles(nil)},
		{quantiles(weights), twice.Quantiles()}} {
		for i, v := range c.got.Data {
			if v != c.want.Data[i] {
				t.Errorf("quantile %d is %g, want %g", i, v, c.want.Data[i])
			}
		}
	}
}
