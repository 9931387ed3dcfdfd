package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

func byName(t *testing.T, e *Evaluation) map[string]Score {
	t.Helper()
	out := map[string]Score{}
	for _, s := range e.Scores() {
		name := s.Name
		if s.Output > 0 {
			name += fmt.Sprintf(" %d", s.Output)
		}
		if _, twice := out[name]; twice {
			t.Errorf("score %s comes twice", name)
		}
		out[name] = s
	}
	return out
}

func close12(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }

// wantScore compares a score with the same number taken over all rows at once.
func wantScore(t *testing.T, s Score, value, low, high float64) {
	t.Helper()
	if !close12(s.Value, value) || !close12(s.Low, low) || !close12(s.High, high) {
		t.Errorf("%s: %.14g (%.14g to %.14g), want %.14g (%.14g to %.14g)", s.Name, s.Value, s.Low, s.High, value, low,
			high)
	}
}

// meanOf is a mean with the standard error and the skewness from the deviations.
func meanOf(v []float64) (mean, se, skewness float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	m2, m3 := 0.0, 0.0
	for _, x := range v {
		m2 += (x - mean) * (x - mean)
		m3 += (x - mean) * (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(m2 / (n - 1) / n), m3 / n / math.Pow(m2/n, 1.5)
}

// wantMean compares a score with the mean of numbers and its interval.
func wantMean(t *testing.T, s Score, v []float64, least float64) {
	t.Helper()
	mean, se, skewness := meanOf(v)
	low, high := skewed(mean, se, skewness, int64(len(v)))
	wantScore(t, s, mean, max(low, least), high)
}

// Every score of a classification by its definition.
func TestEvaluateClassification(t *testing.T) {
	const n, k = 500, 3
	r := rand.New(rand.NewPCG(1, 1))
	y, p := dense.New[float64](n, 1), dense.New[float64](n, k)
	var losses, squares []float64
	right := 0.0
	var of, hit [k]float64
	for i := range n {
		c := r.IntN(k)
		y.Set(i, 0, float64(c))
		sum := 0.0
		for j := range k {
			v := r.ExpFloat64()
			if j == c {
				v *= 3
			}
			p.Set(i, j, v)
			sum += v
		}
		square := 0.0
		best := 0
		for j := range k {
			p.Row(i)[j] /= sum
			d := p.At(i, j)
			if d > p.At(i, best) {
				best = j
			}
			if j == c {
				d--
			}
			square += d * d
		}
		of[c]++
		if best == c {
			right++
			hit[c]++
		}
		losses, squares = append(losses, -math.Log(p.At(i, c))), append(squares, square)
	}
	e := NewEvaluation(KindLogistic, Classification, k)
	if err := e.Add(y, p, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	s := byName(t, e)
	if e.Scores()[0].Name != "accuracy" || e.Len() != n {
		t.Error("accuracy is not the main score")
	}
	// At the limits of Clopper and Pearson, as many right ones or more, or fewer, have a chance of 0.025.
	acc := s["accuracy"]
	if acc.Value != right/n {
		t.Errorf("accuracy %g, want %g", acc.Value, right/n)
	}
	tail := func(p, from, to float64) (sum float64) {
		for k := from; k <= to; k++ {
			sum += distuv.Binomial{N: n, P: p}.Prob(k)
		}
		return sum
	}
	if above, below := tail(acc.Low, right, n), tail(acc.High, 0, right); math.Abs(above-0.025) > 1e-9 ||
		math.Abs(below-0.025) > 1e-9 {
		t.Errorf("limits %g and %g have tails of %g and %g", acc.Low, acc.High, above, below)
	}
	if b := s["balanced accuracy"]; !close12(b.Value, (hit[0]/of[0]+hit[1]/of[1]+hit[2]/of[2])/3) ||
		!(b.Low < b.Value &&
			b.Value < b.High) {
		t.Errorf("balanced accuracy %+v", b)
	}
	wantMean(t, s["log loss"], losses, 0)
	wantMean(t, s["Brier"], squares, 0)
	for c, row := range e.Confusion() {
		if float64(row[c]) != hit[c] || float64(row[0]+row[1]+row[2]) != of[c] {
			t.Errorf("confusion of class %d: %v", c, row)
		}
	}
	// Scores of ridge are no probabilities, nor are those of a smoother whose rows do not sum to 1.
	ridge := NewEvaluation(KindRidge, Classification, k)
	smoother := NewEvaluation(KindSmoother, Classification, k)
	likely := NewEvaluation(KindSmoother, Classification, k)
	off := p.Clone()
	off.Set(7, 1, off.At(7, 1)+0.01)
	for _, err := range []error{ridge.Add(y, p, dense.Matrix[float64]{}), smoother.Add(y, off, dense.Matrix[float64]{}),
		likely.Add(y, p, dense.Matrix[float64]{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(ridge.Scores()) != 3 || len(smoother.Scores()) != 3 || len(likely.Scores()) != 6 {
		t.Error("probabilities are not told from scores")
	}
	// A sure mistake costs much, not everything.
	sure := NewEvaluation(KindLogistic, Classification, 2)
	if err := sure.Add(dense.MustFromRows([][]float64{{1}}), dense.MustFromRows([][]float64{{1, 0}}),
		dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	if v := byName(t, sure)["log loss"].Value; v != 52*math.Ln2 {
		t.Errorf("log loss of a sure mistake %g", v)
	}
}

// Every score of a regression by its definition, with two outputs and variances.
func TestEvaluateRegression(t *testing.T) {
	const n = 400
	r := rand.New(rand.NewPCG(2, 1))
	y, p, v := dense.New[float64](n, 2), dense.New[float64](n, 2), dense.New[float64](n, 2)
	var square, abs, logs []float64
	var perSquare [2][]float64
	covered := 0.0
	for i := range n {
		q, a, l := 0.0, 0.0, 0.0
		for k := range 2 {
			v.Set(i, k, 0.5+r.Float64())
			p.Set(i, k, 1e4+3*r.NormFloat64()) // far from 0: powers about 0 would cancel
			e := math.Sqrt(v.At(i, k)) * r.NormFloat64()
			y.Set(i, k, p.At(i, k)+e)
			e = y.At(i, k) - p.At(i, k)
			q, a = q+e*e/2, a+math.Abs(e)/2
			l -= math.Log(2*math.Pi*v.At(i, k))/2 + e*e/(2*v.At(i, k))
			perSquare[k] = append(perSquare[k], e*e)
			if math.Abs(e) < 1.6448536*math.Sqrt(v.At(i, k)) {
				covered++
			}
		}
		square, abs, logs = append(square, q), append(abs, a), append(logs, l)
	}
	e := NewEvaluation(KindGP, Regression, 2)
	if err := e.Add(y, p, v); err != nil {
		t.Fatal(err)
	}
	s := byName(t, e)
	if e.Scores()[0].Name != "RMSE" || e.Scores()[0].Output != 0 {
		t.Error("RMSE is not the main score")
	}
	root := func(name string, v []float64) {
		got := s[name]
		got.Value, got.Low, got.High = got.Value*got.Value, got.Low*got.Low, got.High*got.High
		wantMean(t, got, v, 0)
	}
	root("RMSE", square)
	root("RMSE 1", perSquare[0])
	root("RMSE 2", perSquare[1])
	wantMean(t, s["MAE"], abs, 0)
	wantMean(t, s["mean log density of the targets"], logs, math.Inf(-1))
	if c := s["coverage of 90 % intervals"]; c.Value != covered/(2*n) || c.Low > 0.9 || c.High < 0.9 {
		t.Errorf("coverage %+v, counted %g", c, covered/(2*n))
	}
	// R² and its standard error by the jackknife, which agrees with the influence function to first order.
	r2 := func(k, without int) float64 {
		sum, c := 0.0, 0.0
		for i := range n {
			if i != without {
				sum += y.At(i, k)
				c++
			}
		}
		a, b := 0.0, 0.0
		for i := range n {
			if i != without {
				a += perSquare[k][i]
				b += (y.At(i, k) - sum/c) * (y.At(i, k) - sum/c)
			}
		}
		return 1 - a/b
	}
	for k := range 2 {
		got := s[fmt.Sprintf("R² %d", k+1)]
		if want := r2(k, -1); math.Abs(got.Value-want) > 1e-9 {
			t.Errorf("R² %.12g, want %.12g", got.Value, want)
		}
		var leave []float64
		for i := range n {
			leave = append(leave, r2(k, i))
		}
		_, se, skewness := meanOf(leave)
		low, high := skewed(got.Value, se*(n-1), -skewness, n) // a row that lowers R² raises it when it is left out
		if math.Abs(got.Low-low) > 0.03*(high-low) || math.Abs(got.High-high) > 0.03*(high-low) {
			t.Errorf("R² from %g to %g, by the jackknife from %g to %g", got.Low, got.High, low, high)
		}
	}
	if !close12(s["R²"].Value, (s["R² 1"].Value+s["R² 2"].Value)/2) {
		t.Error("R² is not the mean over the outputs")
	}
	// A variance of 0 has no density: an error, not a NaN among the scores.
	one := dense.New[float64](1, 1)
	if err := NewEvaluation(KindGP, Regression, 1).Add(one, one, one); !errors.Is(err, ErrSetup) ||
		!strings.Contains(err.Error(), "variance of row 0 is 0") {
		t.Errorf("variance 0: %v", err)
	}
	// Without variances and with constant targets there is less to say.
	flat := NewEvaluation(KindRidge, Regression, 1)
	if err := flat.Add(dense.MustFromRows([][]float64{{2}, {2}, {2}}), dense.MustFromRows([][]float64{{1}, {2}, {4}}),
		dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	if got := byName(t, flat); len(got) != 2 || !close12(got["RMSE"].Value, math.Sqrt(5./3)) || got["MAE"].Value != 1 {
		t.Errorf("constant targets: %+v", got)
	}
}

func TestEvaluateDensity(t *testing.T) {
	e := NewEvaluation(KindDensity, Unsupervised, 1)
	if e.Scores() != nil {
		t.Error("scores of no rows")
	}
	p := dense.MustFromRows([][]float64{{-1}, {-2}, {-4.5}})
	if err := e.Add(dense.Matrix[float64]{Rows: 3}, p, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	wantMean(t, e.Scores()[0], p.Data, math.Inf(-1))
	p.Set(1, 0, math.Inf(-1))
	for range 2 {
		if err := e.Add(dense.Matrix[float64]{}, p, dense.Matrix[float64]{}); err != nil {
			t.Fatal(err)
		}
	}
	s := e.Scores()[0]
	b, err := json.Marshal(s)
	if want := `{"name":"mean log density","value":null,"low":null,"high":null,"rows":9}`; err != nil ||
		string(b) != want || !math.IsInf(s.Value, -1) {
		t.Errorf("a density of zero: %s, want %s; %v", b, want, err)
	}
	var back Score
	if err := json.Unmarshal(b, &back); err != nil || !math.IsNaN(back.Value) || back.Rows != 9 {
		t.Errorf("read back: %+v, %v", back, err)
	}
	p.Set(1, 0, math.NaN())
	if err := e.Add(dense.Matrix[float64]{}, p, dense.Matrix[float64]{}); !errors.Is(err, dense.ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
}

// Parts merge to the whole, in any order and with empty ones.
func TestEvaluationMerge(t *testing.T) {
	const n = 300
	r := rand.New(rand.NewPCG(3, 1))
	y, p, v := dense.New[float64](n, 2), dense.New[float64](n, 2), dense.New[float64](n, 2)
	c := dense.New[float64](n, 1)
	for i := range n {
		c.Set(i, 0, float64(r.IntN(2)))
		for k := range 2 {
			y.Set(i, k, 100+float64(i)+r.NormFloat64()) // a trend: the parts have other means
			p.Set(i, k, y.At(i, k)+r.NormFloat64())
			v.Set(i, k, 1)
		}
	}
	q := dense.New[float64](n, 2)
	for i := range n {
		q.Set(i, 0, r.Float64())
		q.Set(i, 1, 1-q.At(i, 0))
	}
	for name, add := range map[string]func(e *Evaluation, lo, hi int) error{
		"gp": func(e *Evaluation, lo, hi int) error {
			return e.Add(y.RowRange(lo, hi), p.RowRange(lo, hi), v.RowRange(lo, hi))
		},
		"logistic": func(e *Evaluation, lo, hi int) error {
			return e.Add(c.RowRange(lo, hi), q.RowRange(lo, hi), dense.Matrix[float64]{})
		},
		"density": func(e *Evaluation, lo, hi int) error {
			return e.Add(dense.Matrix[float64]{}, q.ColRange(0, 1).RowRange(lo, hi), dense.Matrix[float64]{})
		},
	} {
		fresh := func() *Evaluation {
			return map[string]*Evaluation{"gp": NewEvaluation(KindGP, Regression, 2),
				"logistic": NewEvaluation(KindLogistic,
					Classification, 2),
				"density": NewEvaluation(KindDensity, Unsupervised, 1)}[name]
		}
		whole := fresh()
		if err := add(whole, 0, n); err != nil {
			t.Fatal(err)
		}
		for _, order := range [][]int{{0, 1, 2, 3}, {2, 3, 1, 0}} {
			cuts := []int{0, 100, 100, 101, n}
			merged := fresh()
			for _, k := range order {
				part := fresh()
				if err := errors.Join(add(part, cuts[k], cuts[k+1]), merged.Merge(part)); err != nil {
					t.Fatal(err)
				}
			}
			want := whole.Scores()
			for i, s := range merged.Scores() {
				for j, d := range []float64{s.Value - want[i].Value, s.Low - want[i].Low, s.High - want[i].High} {
					// Fourth powers of deviations of 100 about the shifts cancel by some digits.
					if math.Abs(d) > 1e-9*(1+math.Abs(want[i].Value)) || s.Rows != want[i].Rows ||
						s.Name != want[i].Name {
						t.Errorf("%s %v: part %d of %+v, want %+v", name, order, j, s, want[i])
					}
				}
			}
			if !slices.EqualFunc(merged.Confusion(), whole.Confusion(), slices.Equal[[]int64]) || merged.Len() != n {
				t.Errorf("%s: other counts", name)
			}
		}
		if err := whole.Merge(NewEvaluation(KindRidge, Regression, 3)); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s merged with another: %v", name, err)
		}
	}
}

func TestEvaluationErrors(t *testing.T) {
	one := func(v ...float64) dense.Matrix[float64] { return dense.MustFromRows([][]float64{v}) }
	none := dense.Matrix[float64]{}
	reg, cls := NewEvaluation(KindGP, Regression, 2), NewEvaluation(KindLogistic, Classification, 2)
	for _, c := range []struct {
		err  error
		want error
	}{
		{reg.Add(one(1, 2), one(1), none), dense.ErrShape},
		{reg.Add(one(1), one(1, 2), none), dense.ErrShape},
		{reg.Add(one(1, 2), one(1, 2), one(1)), dense.ErrShape},
		{reg.Add(one(1, math.NaN()), one(1, 2), none), dense.ErrNotFinite},
		{reg.Add(one(1, 2), one(1, math.Inf(1)), none), dense.ErrNotFinite},
		{cls.Add(one(2), one(0, 1), none), ErrClass},
		{cls.Add(one(-1), one(0, 1), none), ErrClass},
		{cls.Add(one(0.5), one(0, 1), none), ErrClass},
		{cls.Add(one(0, 1), one(0, 1), none), dense.ErrShape},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%v, want %v", c.err, c.want)
		}
	}
	if reg.Len() != 0 || cls.Len() != 0 {
		t.Error("rows in error were counted")
	}
	// One row has a value and no interval.
	if err := reg.Add(one(1, 2), one(1, 4), none); err != nil {
		t.Fatal(err)
	}
	if s := reg.Scores()[0]; s.Value != math.Sqrt2 || !math.IsNaN(s.Low) || !math.IsNaN(s.High) {
		t.Errorf("one row: %+v", s)
	}
}

// 95 % intervals of the scores hold the truth in 95 % of repeated samples.
func TestScoreIntervals(t *testing.T) {
	stattest.SkipRace(t)
	const repeats, n = 2000, 200
	r := rand.New(rand.NewPCG(4, 1))
	truth := map[string]float64{
		"accuracy": 0.8, "balanced accuracy": (0.85 + 0.65) / 2,
		"RMSE": 0.5, "MAE": 0.5 * math.Sqrt(2/math.Pi), "R²": 1 - 0.25/4.25,
	}
	held := map[string]int{}
	for range repeats {
		cls, reg := NewEvaluation(KindRidge, Classification, 2), NewEvaluation(KindRidge, Regression, 1)
		c, q := dense.New[float64](n, 1), dense.New[float64](n, 2)
		y, p := dense.New[float64](n, 1), dense.New[float64](n, 1)
		for i := range n {
			k, recall := 0, 0.85
			if r.Float64() < 0.25 {
				k, recall = 1, 0.65
			}
			c.Set(i, 0, float64(k))
			guess := k
			if r.Float64() > recall {
				guess = 1 - k
			}
			q.Set(i, guess, 1)
			p.Set(i, 0, 2*r.NormFloat64())
			y.Set(i, 0, p.At(i, 0)+0.5*r.NormFloat64())
		}
		if err := errors.Join(cls.Add(c, q, dense.Matrix[float64]{}),
			reg.Add(y, p, dense.Matrix[float64]{})); err != nil {
			t.Fatal(err)
		}
		for _, s := range append(cls.Scores(), reg.Scores()...) {
			if s.Low <= truth[s.Name] && truth[s.Name] <= s.High {
				held[s.Name]++
			}
		}
	}
	// The count is binomial: 3.5 standard deviations are 1.7 %. On top comes what normal limits of skewed sums lose at
	// 200 rows, about 1 % for R² and RMSE.
	for name := range truth {
		if got := float64(held[name]) / repeats; math.Abs(got-0.95) > 0.017+0.01 {
			t.Errorf("%s: the interval holds the truth in %.1f %% of samples", name, 100*got)
		}
	}
}

// One row that is far off, in its prediction or in its target, leaves nothing known of R²: no interval, and why. Errors
// that are large everywhere are known well.
func TestOneOutlierLeavesNoIntervalOfR2(t *testing.T) {
	const n = 40
	score := func(spoil func(y, p dense.Matrix[float64])) Score {
		r := rand.New(rand.NewPCG(5, 1))
		y, p := dense.New[float64](n, 1), dense.New[float64](n, 1)
		for i := range n {
			p.Set(i, 0, r.NormFloat64())
			y.Set(i, 0, p.At(i, 0)+r.NormFloat64()/2)
		}
		spoil(y, p)
		half := NewEvaluation(KindRidge, Regression, 1)
		rest := NewEvaluation(KindRidge, Regression, 1)
		if err := errors.Join(half.Add(y.RowRange(0, n/2), p.RowRange(0, n/2), dense.Matrix[float64]{}),
			rest.Add(y.RowRange(n/2, n), p.RowRange(n/2, n), dense.Matrix[float64]{})); err != nil {
			t.Fatal(err)
		}
		_, models, err := ScoresOfModels([]*Evaluation{half, rest})
		if err != nil {
			t.Fatal(err)
		}
		if err := half.Merge(rest); err != nil {
			t.Fatal(err)
		}
		s := byName(t, half)["R²"]
		if models[1].Name != "R²" || models[1].Value != s.Value || s.Note != "" && models[1].Note != s.Note {
			t.Errorf("of two models %+v, of all rows %+v", models[1], s)
		}
		return s
	}
	for name, spoil := range map[string]func(y, p dense.Matrix[float64]){
		"prediction": func(_, p dense.Matrix[float64]) { p.Set(3, 0, 1e8) },
		"target":     func(y, _ dense.Matrix[float64]) { y.Set(3, 0, 1e8) },
	} {
		s := score(spoil)
		if s.Note != tooUncertain || !math.IsNaN(s.Low) || !math.IsNaN(s.High) || math.IsNaN(s.Value) {
			t.Errorf("a far %s: %+v", name, s)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Score
		if err := json.Unmarshal(b, &back); err != nil || back.Note != s.Note || !math.IsNaN(back.Low) {
			t.Errorf("%s: %+v, %v", b, back, err)
		}
	}
	s := score(func(_, p dense.Matrix[float64]) {
		for i := range n {
			p.Set(i, 0, 100*p.At(i, 0))
		}
	})
	if s.Note != "" || !(s.Low < s.Value && s.Value < s.High && s.High < 0) {
		t.Errorf("predictions in another unit: %+v", s)
	}
	if s := score(func(_, _ dense.Matrix[float64]) {}); s.Note != "" || !(s.Low > 0 && s.High < 1) {
		t.Errorf("without outliers: %+v", s)
	}
}
