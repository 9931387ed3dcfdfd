package machine

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
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
		if info, _ := c.kind.Info(); info.Bayesian {
			// Weights say how well a target is known, not how many were seen: the noise is that of 300 rows, not of 600.
			for k := range want.Noise {
				want.Noise[k] *= float64(rx.Rows-1) / float64(x.Rows-1)
			}
		}
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
		m, _, err := FitLogistic(s, rows, LogisticOptions{Lambda: lambda, Tolerance: 1e-9, ClassWeights: []float64{1, 3}})
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
	var out [2]dense.Matrix[float64]
	for k, m := range []*Model{got, want} {
		p, err := NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		out[k] = dense.New[float64](x.Rows, m.Outputs)
		if err := p.Predict(out[k], x, nil); err != nil {
			t.Fatal(err)
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
	s.Weighted = false
	plain, _ := NewRidge(s)
	if err := r.Merge(plain); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}
