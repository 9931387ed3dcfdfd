package machine

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

func iterate(t *testing.T, s Setup, x, y dense.Matrix[float64], lambda float64, o Iterative) (*Model, Iterations) {
	t.Helper()
	rows, err := MatrixRows(x, y)
	if err != nil {
		t.Fatal(err)
	}
	m, done, err := FitIterative(s, rows, lambda, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m, done
}

// Iterations that converge give the predictions of the factorisation, to a thousand times the residual relative to the
// spread of predictions: for numbers and classes, with a sketch of fewer rows than features and of more, in float32,
// and for landmarks of every kind of kernel that a machine may have.
func TestIterativeEqualsDirect(t *testing.T) {
	const n, dim, lambda = 400, 3, 0.05
	x, numbers := sample(4, n, dim, 2)
	fresh, _ := sample(5, 60, dim, 1)
	spec := trigSpec(dim, 60) // 120 features
	rough := spec
	rough.Kernel, rough.Coupling = kernel.Kernel{Kind: kernel.Laplace, Scale: 3}, nil
	for name, c := range map[string]struct {
		s      Setup
		y      dense.Matrix[float64]
		sketch int
	}{
		"numbers":     {Setup{Spec: spec, Task: Regression, Outputs: 2}, numbers, 0},
		"few rows":    {Setup{Spec: spec, Task: Regression, Outputs: 2}, numbers, 50},
		"classes":     {Setup{Spec: spec, Task: Classification, Outputs: 3}, classes(numbers, 3), 50},
		"float32":     {Setup{Spec: spec, Task: Regression, Outputs: 2, Float32: true}, numbers, 80},
		"laplace":     {Setup{Spec: rough, Task: Regression, Outputs: 2}, numbers, 80},
		"blocks":      {Setup{Spec: spec, Task: Regression, Outputs: 2, Block: 33}, numbers, 80},
		"landmarks":   {landmarkSetup(t, x, 70), numbers.ColRange(0, 1), 0},
		"few of them": {landmarkSetup(t, x, 70), numbers.ColRange(0, 1), 30},
		"rough landmarks": {landmarkSetupOf(t, kernel.Kernel{Kind: kernel.Matern32, Scale: 2}, x, 70),
			numbers.ColRange(0, 1), 40},
	} {
		direct, err := mustRidge(t, c.s, x, c.y).Model(lambda)
		if err != nil {
			t.Fatal(err)
		}
		m, done := iterate(t, c.s, x, c.y, lambda, Iterative{Sketch: c.sketch})
		if !done.Converged || done.Residual > defaultTolerance {
			t.Errorf("%s: %+v", name, done)
		}
		t.Logf("%s: %d steps, residual %.1e", name, done.Steps, done.Residual)
		got, want := predict(t, m, fresh), predict(t, direct, fresh)
		worst, lo, hi := 0.0, math.Inf(1), math.Inf(-1)
		for i, v := range want.Data {
			worst, lo, hi = max(worst, math.Abs(got.Data[i]-v)), min(lo, v), max(hi, v)
		}
		if worst > 1e3*defaultTolerance*(hi-lo) {
			t.Errorf("%s: predictions differ by %g of a spread of %g", name, worst, hi-lo)
		}
	}
}

// A wide kernel and a small penalty: eigenvalues of C from 10³ to 0, λ = 10⁻⁶. Plain gradients get nowhere (a sketch of
// one row is nearly none), a sketch of as many rows as there are features needs few steps.
func TestIterativeIllConditioned(t *testing.T) {
	x, y := sample(6, 600, 2, 1)
	spec := trigSpec(2, 100)
	spec.Kernel = kernel.Kernel{Scale: 4}
	s := Setup{Spec: spec, Task: Regression, Outputs: 1}
	const lambda = 1e-6
	_, none := iterate(t, s, x, y, lambda, Iterative{Sketch: 1, Steps: 60})
	if none.Converged || none.Steps != 60 {
		t.Errorf("a sketch of one row: %+v: the problem is too easy", none)
	}
	m, done := iterate(t, s, x, y, lambda, Iterative{Sketch: 300, Steps: 60})
	if !done.Converged {
		t.Errorf("a sketch of 300 rows: %+v", done)
	}
	t.Logf("one row %+v, 300 rows %+v", none, done)
	direct, err := mustRidge(t, s, x, y).Model(lambda)
	if err != nil {
		t.Fatal(err)
	}
	// Weights of nearly flat directions differ, predictions of the rows do not.
	got, want := predict(t, m, x), predict(t, direct, x)
	for i, v := range want.Data {
		if math.Abs(got.Data[i]-v) > 1e-3 {
			t.Fatalf("row %d is %g, want %g", i, got.Data[i], v)
		}
	}
}

// With a penalty far below what the sketch leaves of a row, directions that the sketch does not show must not pass for
// empty ones: steps would be several times as many (244 here).
func TestIterativeBeyondTheSketch(t *testing.T) {
	stattest.SkipRace(t)
	x, y := sample(11, 1500, 12, 2)
	rows, err := MatrixRows(x, y)
	if err != nil {
		t.Fatal(err)
	}
	s := Setup{Spec: trigSpec(12, 512), Task: Regression, Outputs: 2}
	_, done, err := FitIterative(s, rows, 0.01, Iterative{Tolerance: 1e-4, Steps: 300, Sketch: 128})
	if err != nil {
		t.Fatal(err)
	}
	if !done.Converged || done.Steps > 100 {
		t.Errorf("%d steps to a residual of %.2g, want at most 100 to 1e-4", done.Steps, done.Residual)
	}
}

func TestIterativeIsDeterministic(t *testing.T) {
	x, y := sample(7, 300, 3, 2)
	s := Setup{Spec: trigSpec(3, 200), Task: Regression, Outputs: 2}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, _ := iterate(t, s, x, y, 0.1, Iterative{Sketch: 90})
	runtime.GOMAXPROCS(8)
	eight, _ := iterate(t, s, x, y, 0.1, Iterative{Sketch: 90})
	if !slices.Equal(one.Weights.Data, eight.Weights.Data) || !slices.Equal(one.Intercept, eight.Intercept) {
		t.Error("the weights depend on the number of threads")
	}
}

func TestIterativeErrors(t *testing.T) {
	x, y := sample(8, 20, 2, 1)
	ok := Setup{Spec: trigSpec(2, 8), Task: Regression, Outputs: 1}
	asymmetric := ok
	asymmetric.Spec.Family = family.GERF{A: -0.1, S: -1}
	rows, err := MatrixRows(x, y)
	if err != nil {
		t.Fatal(err)
	}
	one, err := MatrixRows(x.RowRange(0, 1), y.RowRange(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		s      Setup
		rows   Rows
		lambda float64
		o      Iterative
		want   error
	}{
		"lambda":       {ok, rows, 0, Iterative{}, ErrSetup},
		"NaN":          {ok, rows, math.NaN(), Iterative{}, ErrSetup},
		"sketch":       {ok, rows, 1, Iterative{Sketch: -1}, ErrSetup},
		"one row":      {ok, one, 1, Iterative{}, ErrNoRows},
		"unsupervised": {Setup{Spec: ok.Spec, Task: Unsupervised}, rows, 1, Iterative{}, ErrSetup},
		"columns": {Setup{Spec: trigSpec(3, 8), Task: Regression, Outputs: 1}, rows, 1, Iterative{},
			dense.ErrShape},
		"asymmetric": {asymmetric, rows, 1, Iterative{}, ErrSetup},
		"progress": {ok, rows, 1e-3, Iterative{Sketch: 1, Progress: func(int, float64) error { return stop }},
			stop},
		"rows that grow": {ok, &growing{Rows: rows}, 1e-3, Iterative{Sketch: 1}, ErrMismatch},
	} {
		if _, _, err := FitIterative(c.s, c.rows, c.lambda, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// growing rows are more at every reading.
type growing struct {
	Rows
	read int
}

func (g *growing) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	g.read++
	for range g.read {
		if err := g.Rows.Each(block, f); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkIterative reports the cost of a step: 8192 features of 20,000 rows.
func BenchmarkIterative(b *testing.B) {
	x, y := sample(9, 20000, 10, 1)
	rows, err := MatrixRows(x, y)
	if err != nil {
		b.Fatal(err)
	}
	s := Setup{Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 3}, Family: trigSpec(10, 1).Family, Dim: 10, M: 4096},
		Task: Regression, Outputs: 1, Float32: true}
	steps := 0
	for b.Loop() {
		_, done, err := FitIterative(s, rows, 1, Iterative{Steps: 10, Sketch: 1024})
		if err != nil {
			b.Fatal(err)
		}
		steps += done.Steps
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(steps), "ms/step")
}
