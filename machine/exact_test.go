package machine

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/krr"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// An exact kernel machine solves (K + λI) α + b = y with Σα = 0, for numbers and classes, and its file predicts the
// same.
func TestExact(t *testing.T) {
	for _, kind := range kernel.Kinds() {
		if !kind.Signed() {
			t.Run(kind.String(), func(t *testing.T) { testExact(t, kernel.Kernel{Kind: kind, Scale: 1.2}) })
		}
	}
	bessel := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Dim: 1}
	two := dense.New[float64](2, 1)
	_, err := FitExact(Setup{Task: Regression, Outputs: 1, Spec: bessel}, two, two, 1)
	if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "bessel") {
		t.Errorf("bessel: %v", err)
	}
}

func testExact(t *testing.T, k kernel.Kernel) {
	const n, dim, lambda = 90, 3, 0.2
	x, numbers := sample(4, n, dim, 2)
	fresh, _ := sample(5, 40, dim, 1)
	for _, c := range []struct {
		s Setup
		y dense.Matrix[float64]
	}{
		{Setup{Task: Regression, Outputs: 2}, numbers},
		{Setup{Task: Classification, Outputs: 3}, classes(numbers, 3)},
	} {
		c.s.Spec = randfeat.Spec{Kernel: k, Dim: dim}
		m, err := FitExact(c.s, x, c.y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		targets := c.y
		if c.s.Task == Classification {
			targets = oneHot(c.y, 3)
		}
		a, b := mat.NewDense(n+1, n+1, nil), mat.NewDense(n+1, targets.Cols, nil)
		for i := range n {
			for j := range n {
				a.Set(i, j, k.Eval(x.Row(i), x.Row(j)))
			}
			a.Set(i, i, a.At(i, i)+lambda)
			a.Set(i, n, 1)
			a.Set(n, i, 1)
			for j, v := range targets.Row(i) {
				b.Set(i, j, v)
			}
		}
		var solution mat.Dense
		if err := solution.Solve(a, b); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := m.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		again, err := Read(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		got, read := predict(t, m, fresh), predict(t, again, fresh)
		p, err := NewPredictor[float32](m)
		if err != nil {
			t.Fatal(err)
		}
		single := dense.New[float32](fresh.Rows, targets.Cols)
		if err := p.Predict(single, dense.Convert[float32](fresh), nil); err != nil {
			t.Fatal(err)
		}
		for i := range fresh.Rows {
			for j := range targets.Cols {
				want := solution.At(n, j)
				for r := range n {
					want += solution.At(r, j) * k.Eval(x.Row(r), fresh.Row(i))
				}
				if math.Abs(got.At(i, j)-want) > 1e-9 || math.Abs(float64(single.At(i, j))-want) > 1e-3 {
					t.Errorf("%s: row %d, output %d is %g, in float32 %g, want %g", c.s.Task, i, j, got.At(i, j),
						single.At(i, j), want)
				}
				if read.At(i, j) != got.At(i, j) {
					t.Errorf("%s: row %d of the file is %g, want %g", c.s.Task, i, read.At(i, j), got.At(i, j))
				}
			}
		}
		old := runtime.GOMAXPROCS(1)
		one, err := FitExact(c.s, x, c.y, lambda)
		runtime.GOMAXPROCS(old)
		var other bytes.Buffer
		if err == nil {
			_, err = one.WriteTo(&other)
		}
		if err != nil || !bytes.Equal(file.Bytes(), other.Bytes()) {
			t.Errorf("%s: other bytes with one goroutine (%v)", c.s.Task, err)
		}
	}
}

func TestExactErrors(t *testing.T) {
	x, y := sample(4, 10, 2, 1)
	good := Setup{Task: Regression, Outputs: 1, Spec: randfeat.Spec{Dim: 2}}
	bad := x.Clone()
	bad.Set(3, 1, math.NaN())
	twice := dense.New[float64](10, 2)
	for _, c := range []struct {
		name   string
		s      Setup
		x, y   dense.Matrix[float64]
		lambda float64
		want   error
	}{
		{"no penalty", good, x, y, 0, ErrSetup},
		{"density", Setup{Task: Unsupervised, Spec: good.Spec}, x, y, 1, ErrSetup},
		{"no rows", good, x.RowRange(0, 0), y.RowRange(0, 0), 1, ErrNoRows},
		{"another width", Setup{Task: Regression, Outputs: 1, Spec: randfeat.Spec{Dim: 3}}, x, y, 1, dense.ErrShape},
		{"not a number", good, bad, y, 1, dense.ErrNotFinite},
		{"equal rows", good, twice, y, 1e-300, ErrSingular},
	} {
		if _, err := FitExact(c.s, c.x, c.y, c.lambda); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Margins have the least hinge loss, not the least squares, and are for classes.
func TestFitMargins(t *testing.T) {
	x, numbers := sample(4, 120, 2, 1)
	y := classes(numbers, 3)
	s := Setup{Task: Classification, Outputs: 3, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 0.7}, Dim: 2}}
	loss := func(margins bool) (hinge float64) {
		const lambda = 0.01
		s := s
		s.Margins = margins
		m, err := FitExact(s, x, y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		out, indicator := predict(t, m, x), oneHot(y, 3)
		for i := range x.Rows {
			for c, want := range indicator.Row(i) {
				miss := want - out.At(i, c)
				if want > 0 == (miss > 0) {
					hinge += miss * miss
				}
				hinge += lambda * m.Weights.At(i, c) * (out.At(i, c) - m.Intercept[c]) // λ αᵀKα
			}
		}
		return hinge
	}
	if squares, margins := loss(false), loss(true); margins > 0.9*squares {
		t.Errorf("penalised hinge loss %.4f, of least squares %.4f", margins, squares)
	}
	s.Task, s.Outputs, s.Margins = Regression, 1, true
	if _, err := FitExact(s, x, numbers, 1); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "classes") {
		t.Errorf("margins of numbers: %v", err)
	}
	s.Spec.Family, s.Spec.M = family.Trig{}, 4
	if _, err := NewRidge(s); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "FitExact") {
		t.Errorf("margins of sums: %v", err)
	}
}

// Margins that start at the weights of most rows take fewer products and end at a fit as good.
func TestMarginsFromStart(t *testing.T) {
	stattest.SkipRace(t)
	const lambda, n = 0.1, startRows + 100
	x, numbers := sample(4, n, 2, 1)
	y := classes(numbers, 3)
	s := Setup{Task: Classification, Outputs: 3, Margins: true,
		Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 0.7}, Dim: 2}}
	most := n * 4 / 5
	few, _, err := FitExactIterative(s, x.RowRange(0, most), y.RowRange(0, most), lambda, Iterative{})
	if err != nil {
		t.Fatal(err)
	}
	want, whole, err := FitExactIterative(s, x, y, lambda, Iterative{})
	if err != nil {
		t.Fatal(err)
	}
	s.Start = &Start{Weights: dense.New[float64](n, 3), Intercept: few.Intercept, Rows: most}
	copy(s.Start.Weights.Data, few.Weights.Data)
	got, done, err := FitExactIterative(s, x, y, lambda, Iterative{})
	if err != nil {
		t.Fatal(err)
	}
	if done.Steps > (krr.MarginSteps+2)/3 || done.Steps > whole.Steps {
		t.Errorf("%d products from a start, %d without", done.Steps, whole.Steps)
	}
	// A start of half of the rows is as far away as without one, and a scored fit would end sooner than the model.
	s.Start.Rows = n / 2
	if _, half, err := FitExactIterative(s, x, y, lambda, Iterative{}); err != nil || half.Steps <= done.Steps {
		t.Errorf("%d products from half of the rows, %d from most, error %v", half.Steps, done.Steps, err)
	}
	// At the minimum, λα is the shortfall of a row.
	off := func(m *Model) (sum float64) {
		out, indicator := predict(t, m, x), oneHot(y, 3)
		for i := range x.Rows {
			for c, want := range indicator.Row(i) {
				short := min(-out.At(i, c), 0)
				if want > 0 {
					short = max(1-out.At(i, c), 0)
				}
				sum += math.Abs(lambda*m.Weights.At(i, c)-short) / float64(len(out.Data))
			}
		}
		return sum
	}
	if a, b := off(got), off(want); a > b {
		t.Errorf("λα differs from the shortfall by %.5f from a start, by %.5f without", a, b)
	}
	for name, bad := range map[string]*Start{
		"rows":       {Weights: dense.New[float64](n-1, 3), Intercept: few.Intercept},
		"classes":    {Weights: dense.New[float64](n, 2), Intercept: few.Intercept},
		"intercepts": {Weights: dense.New[float64](n, 3)},
	} {
		s.Start = bad
		if _, _, err := FitExactIterative(s, x, y, lambda, Iterative{}); !errors.Is(err, ErrSetup) {
			t.Errorf("a start of other %s: %v", name, err)
		}
	}
}

// Margins of many rows start from a fit of half of them: α is still the shortfall of a row over λ, the bits do not
// depend on goroutines, and the caller can end the fits of fewer rows too.
func TestMarginsFromFewerRows(t *testing.T) {
	stattest.SkipRace(t)
	const lambda = 0.1
	x, numbers := sample(4, startRows+100, 2, 1)
	y := classes(numbers, 3)
	s := Setup{Task: Classification, Outputs: 3, Margins: true,
		Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 0.7}, Dim: 2}}
	fit := func(workers int, o Iterative) (*Model, Iterations, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
		return FitExactIterative(s, x, y, lambda, o)
	}
	m, done, err := fit(1, Iterative{})
	if err != nil {
		t.Fatal(err)
	}
	if done.Steps > krr.MarginSteps/2 {
		t.Errorf("%d products from a start, at most %d are announced", done.Steps, krr.MarginSteps/2)
	}
	out, indicator := predict(t, m, x), oneHot(y, 3)
	miss := 0.0
	for i := range x.Rows {
		for c, want := range indicator.Row(i) {
			short := min(-out.At(i, c), 0)
			if want > 0 {
				short = max(1-out.At(i, c), 0)
			}
			miss += math.Abs(lambda*m.Weights.At(i, c) - short)
		}
	}
	if miss /= float64(len(out.Data)); miss > 0.005 {
		t.Errorf("λα differs from the shortfall by %.4f on average", miss)
	}
	again, _, err := fit(3, Iterative{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range m.Weights.Data {
		if again.Weights.Data[i] != v {
			t.Fatal("other bits with three goroutines")
		}
	}
	ended := errors.New("ended")
	_, _, err = fit(0, Iterative{Progress: func(step int, _ float64) error {
		if step > 0 {
			t.Error("the fit of fewer rows did not ask whether to go on")
		}
		return ended
	}})
	if !errors.Is(err, ended) {
		t.Errorf("error %v, want that of Progress", err)
	}
}
