package machine

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func logisticCase(n int) (Setup, Rows, dense.Matrix[float64], dense.Matrix[float64]) {
	x, raw := sample(11, n, 2, 1)
	y := classes(raw, 3)
	rows, _ := MatrixRows(x, y)
	return Setup{Spec: trigSpec(2, 12), Outputs: 3, Block: 64}, rows, x, y
}

// The gradient against central differences of the loss, and the loss against its definition.
func TestLogisticGradient(t *testing.T) {
	s, rows, x, y := logisticCase(150)
	s.Task = Classification
	s, err := s.prepared()
	if err != nil {
		t.Fatal(err)
	}
	// one block of three is kept
	o := LogisticOptions{Lambda: 0.7, ClassWeights: []float64{1, 2.5, 0.5}, Memory: 64 * 24 * 8}
	if err := o.defaults(3); err != nil {
		t.Fatal(err)
	}
	l, err := newLogistic[float64](s, rows, o)
	if err != nil {
		t.Fatal(err)
	}
	if l.kept != 64 {
		t.Fatalf("%d rows kept, want 64", l.kept)
	}
	r := rand.New(rand.NewPCG(1, 1))
	w := make([]float64, 25*3)
	for i := range w {
		w[i] = r.NormFloat64()
	}
	grad, scratch := make([]float64, len(w)), make([]float64, len(w))
	loss, err := l.eval(grad, w)
	if err != nil {
		t.Fatal(err)
	}
	phi := features(t, &Model{Spec: s.Spec, Omega: s.Omega}, x)
	want := 0.0
	for i := range 150 {
		var z [3]float64
		sum := 0.0
		for c := range z {
			z[c] = w[24*3+c]
			for f, v := range phi.Row(i) {
				z[c] += v * w[3*f+c]
			}
			sum += math.Exp(z[c])
		}
		c := int(y.At(i, 0))
		want += o.ClassWeights[c] * (math.Log(sum) - z[c]) / 150
	}
	want += 0.35 * dense.Norm2(w[:72]) / 150
	if math.Abs(loss-want) > 1e-12*want {
		t.Errorf("loss %.15g, want %.15g", loss, want)
	}
	const h = 1e-5 // truncation h² and rounding 1e-16/h are both some 1e-10
	for i := range w {
		v := w[i]
		w[i] = v + h
		up, _ := l.eval(scratch, w)
		w[i] = v - h
		down, _ := l.eval(scratch, w)
		w[i] = v
		if d := (up-down)/(2*h) - grad[i]; math.Abs(d) > 1e-8 {
			t.Errorf("derivative %d is %.10g, differences say %.10g", i, grad[i], (up-down)/(2*h))
		}
	}
}

func TestLogistic(t *testing.T) {
	s, rows, x, y := logisticCase(600)
	want, rep, err := FitLogistic(s, rows, LogisticOptions{Lambda: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Converged || rep.Cached != 600 || rep.Passes < rep.Iterations {
		t.Errorf("report %+v", rep)
	}
	p := predict(t, want, x)
	right := 0
	for i := range p.Rows {
		if math.Abs(p.At(i, 0)+p.At(i, 1)+p.At(i, 2)-1) > 1e-12 {
			t.Fatal("probabilities do not sum to 1")
		}
		if slices.Index(p.Row(i), slices.Max(p.Row(i))) == int(y.At(i, 0)) {
			right++
		}
	}
	if right < 480 { // the classes are a function of the inputs with little noise
		t.Errorf("%d of 600 rows right", right)
	}
	// The same bits with no memory for features and on one core.
	func() {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		got, rep, err := FitLogistic(s, rows, LogisticOptions{Lambda: 0.1, Memory: 1})
		if err != nil || rep.Cached != 0 {
			t.Fatal(rep, err)
		}
		if !slices.Equal(got.Weights.Data, want.Weights.Data) || !slices.Equal(got.Intercept, want.Intercept) {
			t.Error("other bits without memory")
		}
	}()
	s.Float32 = true
	got, rep, err := FitLogistic(s, rows, LogisticOptions{Lambda: 0.1})
	if err != nil || !rep.Converged {
		t.Fatal(rep, err)
	}
	for i, v := range predict(t, got, x).Data {
		if math.Abs(v-p.Data[i]) > 0.02 { // both stop at a small gradient
			t.Fatalf("float32: probability %g, want %g", v, p.Data[i])
		}
	}
}

func TestLogisticErrors(t *testing.T) {
	s, rows, x, _ := logisticCase(50)
	same, _ := MatrixRows(x, dense.New[float64](50, 1))
	if _, _, err := FitLogistic(s, same, LogisticOptions{}); !errors.Is(err, ErrClass) || !strings.Contains(err.Error(),
		"one class") {
		t.Errorf("one class: %v", err)
	}
	none, _ := MatrixRows(x.RowRange(0, 0), dense.New[float64](0, 1))
	if _, _, err := FitLogistic(s, none, LogisticOptions{}); !errors.Is(err, ErrNoRows) {
		t.Errorf("no rows: %v", err)
	}
	for _, o := range []LogisticOptions{{Lambda: -1}, {Lambda: math.NaN()}, {Tolerance: -1}, {ClassWeights: []float64{1,
		1, 0}}, {MaxIterations: -1}} {
		if _, _, err := FitLogistic(s, rows, o); !errors.Is(err, ErrSetup) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, _, err := FitLogistic(s, rows, LogisticOptions{ClassWeights: []float64{1}}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("one weight: %v", err)
	}
	s.Task = Regression
	if _, _, err := FitLogistic(s, rows, LogisticOptions{}); !errors.Is(err, ErrSetup) {
		t.Errorf("regression: %v", err)
	}
}

// A fit that goes on from a state has the bits and the report of one that was never interrupted, before and after
// L-BFGS begins to forget.
func TestLogisticGoesOn(t *testing.T) {
	s, rows, _, _ := logisticCase(300)
	for _, single := range []bool{false, true} {
		s.Float32 = single
		o := LogisticOptions{Lambda: 0.01, MaxIterations: 45, Tolerance: 1e-9}
		states := map[int]*LogisticState{}
		o.Step = func(at *LogisticState) error {
			states[at.Iterations] = at.clone()
			return nil
		}
		want, rep, err := FitLogistic(s, rows, o)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Iterations != 45 || len(states) != 44 {
			t.Fatalf("%d states, %+v", len(states), rep)
		}
		for i, start := range states {
			if i%5 != 1 && i != 20 && i != 44 {
				continue
			}
			o.Start, o.Step = start, nil
			before := start.clone()
			got, again, err := FitLogistic(s, rows, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Weights.Data, want.Weights.Data) || !slices.Equal(got.Intercept, want.Intercept) ||
				again != rep {
				t.Errorf("float32 %v, from iteration %d: other bits, %+v, want %+v", single, i, again, rep)
			}
			if !reflect.DeepEqual(before, start) {
				t.Error("the state to start from was changed")
			}
		}
	}
	// An error of Step ends the fit, and the states before it are usable.
	stop := errors.New("stop")
	if _, _, err := FitLogistic(s, rows,
		LogisticOptions{Step: func(*LogisticState) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("an error of Step: %v", err)
	}
	size := 25 * 3
	good := func() *LogisticState {
		return &LogisticState{Iterations: 1, Passes: 2, Points: [][]float64{make([]float64, size),
			make([]float64, size)},
			Gradients: [][]float64{make([]float64, size), make([]float64, size)}}
	}
	for name, c := range map[string]struct {
		change func(*LogisticState)
		want   error
	}{
		"a point too few":     {func(s *LogisticState) { s.Points = s.Points[1:] }, ErrMismatch},
		"gradients too few":   {func(s *LogisticState) { s.Gradients = nil }, ErrMismatch},
		"too many iterations": {func(s *LogisticState) { s.Iterations = 2000 }, ErrMismatch},
		"no iterations":       {func(s *LogisticState) { s.Iterations = -1 }, ErrMismatch},
		"another size":        {func(s *LogisticState) { s.Points[1] = s.Points[1][1:] }, ErrMismatch},
		"a weight of NaN":     {func(s *LogisticState) { s.Points[1][3] = math.NaN() }, dense.ErrNotFinite},
		"an infinite loss":    {func(s *LogisticState) { s.Loss = math.Inf(1) }, dense.ErrNotFinite},
	} {
		start := good()
		c.change(start)
		if _, _, err := FitLogistic(s, rows, LogisticOptions{Start: start}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
