package machine

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// repeatedRows are rows as often as their weight says.
func repeatedRows(x, y dense.Matrix[float64]) (dense.Matrix[float64], dense.Matrix[float64]) {
	var rows []int
	for i := range x.Rows {
		for range int(y.At(i, y.Cols-1)) {
			rows = append(rows, i)
		}
	}
	a, b := dense.New[float64](len(rows), x.Cols), dense.New[float64](len(rows), y.Cols-1)
	for to, from := range rows {
		copy(a.Row(to), x.Row(from))
		copy(b.Row(to), y.Row(from)[:y.Cols-1])
	}
	return a, b
}

// A row of weight 2 is two rows, and one of weight 0 is none, for every kind that adds up, for logistic regression and
// for the exact kernel.
func TestWeightsAreRepetitions(t *testing.T) {
	const lambda = 0.3
	for name, c := range codecs() {
		if !c.setup.Weighted || c.setup.Float32 {
			continue
		}
		x, y := c.data()
		for i := range y.Rows {
			y.Set(i, y.Cols-1, float64(i%4))
		}
		plain := c.setup
		plain.Weighted = false
		rx, ry := repeatedRows(x, y)
		model := func(s Setup, x, y dense.Matrix[float64]) *Model {
			sums, err := NewSums(c.kind, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := sums.Add(x, y); err != nil {
				t.Fatal(err)
			}
			m, err := sums.Model(lambda)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		got, want := model(c.setup, x, y), model(plain, rx, ry)
		samePredictions(t, name, got, want, x)
	}
	s := Setup{Spec: trigSpec(3, 7), Task: Classification, Outputs: 2, Weighted: true}
	c := codec{setup: s}
	x, y := c.data()
	for i := range y.Rows {
		y.Set(i, y.Cols-1, float64(i%4))
	}
	plain := s
	plain.Weighted = false
	rx, ry := repeatedRows(x, y)
	logistic := func(s Setup, x, y dense.Matrix[float64]) *Model {
		rows, err := MatrixRows(x, y)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := FitLogistic(s, rows, LogisticOptions{Lambda: lambda, Tolerance: 1e-9, ClassWeights: []float64{1,
			3}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	samePredictions(t, "logistic", logistic(s, x, y), logistic(plain, rx, ry), x)
	got, err := FitExact(s, x, y, lambda)
	if err != nil {
		t.Fatal(err)
	}
	want, err := FitExact(plain, rx, ry, lambda)
	if err != nil {
		t.Fatal(err)
	}
	samePredictions(t, "exact", got, want, x)
}

func samePredictions(t *testing.T, name string, got, want *Model, x dense.Matrix[float64]) {
	t.Helper()
	var out, spread [2]dense.Matrix[float64]
	var file bytes.Buffer
	if _, err := got.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	read, err := Read(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for k, m := range []*Model{read, want} {
		p, err := NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		out[k] = dense.New[float64](x.Rows, m.Outputs)
		if err := p.Predict(out[k], x, nil); err != nil {
			t.Fatal(err)
		}
		if spread[k] = out[k]; len(m.Noise) > 0 {
			spread[k] = dense.New[float64](x.Rows, m.Outputs)
			if err := p.Variance(spread[k], x, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, v := range spread[0].Data {
		if math.Abs(v-spread[1].Data[i]) > 1e-6*(1+math.Abs(v)) {
			t.Fatalf("%s: variance %d is %.9g, want %.9g", name, i, v, spread[1].Data[i])
		}
	}
	for i, v := range out[0].Data {
		if math.Abs(v-out[1].Data[i]) > 1e-6*(1+math.Abs(v)) {
			t.Fatalf("%s: prediction %d is %.9g, want %.9g", name, i, v, out[1].Data[i])
		}
	}
	for k, v := range got.Noise {
		if math.Abs(v-want.Noise[k]) > 1e-9*v {
			t.Errorf("%s: noise %g, want %g", name, v, want.Noise[k])
		}
	}
}

// Leaving a weighted row out is a fit without it, for features and for the exact kernel.
func TestWeightedLeaveOneOut(t *testing.T) {
	const lambda = 0.2
	s := Setup{Spec: trigSpec(3, 7), Task: Regression, Outputs: 2, Weighted: true}
	x, y := codec{setup: s}.data()
	x, y = x.RowRange(0, 40), y.RowRange(0, 40)
	r, err := NewRidge(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(x, y); err != nil {
		t.Fatal(err)
	}
	rows, _ := MatrixRows(x, y)
	loo := dense.New[float64](40, 2)
	if _, err := r.LeaveOneOut(rows, lambda, func(first int64, _, p dense.Matrix[float64]) error {
		copy(loo.Data[int(first)*2:], p.Data)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	some, spread, err := r.LeftOut(x.RowRange(18, 40), y.RowRange(18, 40), lambda)
	if err != nil {
		t.Fatal(err)
	}
	for i := range some.Rows {
		for k, v := range some.Row(i) {
			if math.Abs(v-loo.At(18+i, k)) > 1e-12 {
				t.Errorf("row %d of some: %g, of all rows %g", 18+i, v, loo.At(18+i, k))
			}
		}
	}
	for _, i := range []int{3, 18, 39} {
		rest, err := NewRidge(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][2]int{{0, i}, {i + 1, 40}} {
			if err := rest.Add(x.RowRange(part[0], part[1]), y.RowRange(part[0], part[1])); err != nil {
				t.Fatal(err)
			}
		}
		m, err := rest.Model(lambda)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := NewPredictor[float64](m)
		out := dense.New[float64](1, 2)
		if err := p.Predict(out, x.RowRange(i, i+1), nil); err != nil {
			t.Fatal(err)
		}
		for k, v := range out.Row(0) {
			if math.Abs(v-loo.At(i, k)) > 1e-8 {
				t.Errorf("row %d: %g, want %g", i, loo.At(i, k), v)
			}
		}
		if i < 18 {
			continue
		}
		// The process of the other rows with noise 1 has variance 1 + spread.
		if m, err = rest.GP(lambda, []float64{1, 1}); err != nil {
			t.Fatal(err)
		}
		if p, err = NewPredictor[float64](m); err != nil {
			t.Fatal(err)
		}
		if err := p.Variance(out, x.RowRange(i, i+1), nil); err != nil {
			t.Fatal(err)
		}
		want := out.At(0, 0)
		if got := 1 + spread[i-18]; math.Abs(got-want) > 1e-8 {
			t.Errorf("row %d: variance %g, want %g", i, got, want)
		}
	}
}

// Negative weights, and weights that are all 0, are refused; sums with and without do not merge.
func TestWeightsRefused(t *testing.T) {
	s := Setup{Spec: trigSpec(3, 7), Task: Regression, Outputs: 2, Weighted: true}
	x, y := codec{setup: s}.data()
	r, _ := NewRidge(s)
	for i := range y.Rows {
		y.Set(i, 2, 0)
	}
	if err := r.Add(x, y); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Model(1); !errors.Is(err, ErrNoRows) {
		t.Error(err)
	}
	y.Set(7, 2, -1)
	if err := r.Add(x, y); !errors.Is(err, ErrSetup) {
		t.Error(err)
	}
	rows, _ := MatrixRows(x, y)
	if _, _, err := FitIterative(s, rows, 1, Iterative{}); !errors.Is(err, ErrSetup) {
		t.Error(err)
	}
	s.Weighted = false
	plain, _ := NewRidge(s)
	if err := r.Merge(plain); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

// Scores of weighted rows are those of repeated ones, and intervals of equal weights those of rows.
func TestWeightedScores(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	const n = 90
	for _, task := range []Task{Regression, Classification, Unsupervised} {
		outputs := map[Task]int{Regression: 2, Classification: 3, Unsupervised: 1}[task]
		kind := map[Task]Kind{Regression: KindGP, Classification: KindLogistic, Unsupervised: KindDensity}[task]
		whole := func() *Evaluation { return NewEvaluation(kind, task, outputs) }
		weighted, repeated, plain, equal := whole(), whole(), whole(), whole()
		halves := [2]*Evaluation{whole(), whole()}
		for i := range n {
			y, pred := dense.New[float64](1, outputs), dense.New[float64](1, outputs)
			variance := dense.Matrix[float64]{}
			switch task {
			case Regression:
				variance = dense.New[float64](1, outputs)
				for k := range outputs {
					y.Set(0, k, r.NormFloat64())
					pred.Set(0, k, y.At(0, k)+r.NormFloat64())
					variance.Set(0, k, 0.5+r.Float64())
				}
			case Classification:
				y = dense.New[float64](1, 1)
				y.Set(0, 0, float64(r.IntN(3)))
				sum := 0.0
				for k := range pred.Data {
					pred.Data[k] = 0.1 + float64(r.IntN(4))
					sum += pred.Data[k]
				}
				for k := range pred.Data {
					pred.Data[k] /= sum
				}
			default:
				y = dense.Matrix[float64]{}
				pred.Set(0, 0, r.NormFloat64())
			}
			w := float64(i % 3)
			add := func(e *Evaluation, weights []float64) {
				if err := e.AddWeighted(y, pred, variance, weights); err != nil {
					t.Fatal(err)
				}
			}
			add(weighted, []float64{w})
			add(halves[i%2], []float64{w})
			add(plain, nil)
			add(equal, []float64{2.5})
			for range i % 3 {
				add(repeated, nil)
			}
		}
		if err := halves[0].Merge(halves[1]); err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want []Score, limits bool) {
			t.Helper()
			if len(got) != len(want) {
				t.Fatalf("%s, %s: %d scores, want %d", task, what, len(got), len(want))
			}
			for i, s := range got {
				for k, v := range [][2]float64{{s.Value, want[i].Value}, {s.Low, want[i].Low}, {s.High, want[i].High}} {
					if (k == 0 || limits) && math.Abs(v[0]-v[1]) > 1e-9 {
						t.Errorf("%s, %s: %s is %.12g, want %.12g (%d)", task, what, s.Name, v[0], v[1], k)
					}
				}
			}
		}
		near("weights", weighted.Scores(), repeated.Scores(), false)
		near("merged", halves[0].Scores(), weighted.Scores(), true)
		near("equal weights", equal.Scores(), plain.Scores(), true)
		for i, s := range weighted.Scores() {
			if p := plain.Scores()[i]; s.High-s.Low < 0.9*(p.High-p.Low) {
				t.Errorf("%s: the interval of %s by 60 rows of two weights, %g to %g, is shorter than that of 90 rows, %g to %g",
					task, s.Name, s.Low, s.High, p.Low, p.High)
			}
		}
		if task == Classification {
			var got, want []Score
			for c := range outputs {
				a, b := weighted.Classes()[c], repeated.Classes()[c]
				got = append(got, a.Precision, a.Recall, a.F1, a.AUC)
				want = append(want, b.Precision, b.Recall, b.F1, b.AUC)
			}
			near("classes", got, want, false)
		}
	}
	e := NewEvaluation(KindRidge, Regression, 1)
	one := dense.New[float64](1, 1)
	for _, w := range [][]float64{{-1}, {math.NaN()}, {1, 1}} {
		if e.AddWeighted(one, one, dense.Matrix[float64]{}, w) == nil {
			t.Errorf("weights %v", w)
		}
	}
}

// Intervals cover the weighted truth as often as they say, weights that grow with the errors among them.
func TestWeightedIntervalsCover(t *testing.T) {
	stattest.SkipRace(t)
	r := rand.New(rand.NewPCG(9, 2))
	const repeats, n = 600, 150
	var rmse, accuracy int
	for range repeats {
		e, c := NewEvaluation(KindRidge, Regression, 1), NewEvaluation(KindRidge, Classification, 2)
		y, pred := dense.New[float64](n, 1), dense.New[float64](n, 1)
		class, score := dense.New[float64](n, 1), dense.New[float64](n, 2)
		weights := make([]float64, n)
		for i := range n {
			large := r.IntN(4) == 0 // errors of 2 with weight 3, else of 1 with weight 1
			sd, wrong := 1.0, 0.1
			if weights[i] = 1; large {
				weights[i], sd, wrong = 3, 2, 0.3
			}
			y.Set(i, 0, sd*r.NormFloat64())
			if score.Set(i, 0, 1); r.Float64() < wrong {
				class.Set(i, 0, 1)
			}
		}
		if err := e.AddWeighted(y, pred, dense.Matrix[float64]{}, weights); err != nil {
			t.Fatal(err)
		}
		if err := c.AddWeighted(class, score, dense.Matrix[float64]{}, weights); err != nil {
			t.Fatal(err)
		}
		// Means by weight: (3·4 + 3·1)/6 = 2.5 and (3·0.3 + 3·0.1)/6 = 0.2.
		if s := e.Scores()[0]; s.Low <= math.Sqrt(2.5) && math.Sqrt(2.5) <= s.High {
			rmse++
		}
		if s := c.Scores()[0]; s.Low <= 0.8 && 0.8 <= s.High {
			accuracy++
		}
	}
	for name, covered := range map[string]int{"RMSE": rmse, "accuracy": accuracy} {
		if p := float64(covered) / repeats; p < 0.93 { // 0.95 less two standard errors
			t.Errorf("intervals of %s cover in %.3f", name, p)
		} else {
			t.Logf("%s %.3f", name, p)
		}
	}
}
