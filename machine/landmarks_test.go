package machine

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/kernel"
)

func landmarkSetup(t *testing.T, x dense.Matrix[float64], m int) Setup {
	t.Helper()
	return landmarkSetupOf(t, kernel.Kernel{Scale: 0.9}, x, m)
}

func landmarkSetupOf(t *testing.T, k kernel.Kernel, x dense.Matrix[float64], m int) Setup {
	t.Helper()
	rows, omega, err := Landmarks(k, x, m, 3)
	if err != nil {
		t.Fatal(err)
	}
	return Setup{Task: Regression, Outputs: 1, Omega: omega, Spec: randfeat.Spec{Kernel: k,
		Family: family.Landmarks{}, Dim: x.Cols, M: len(rows)}}
}

// Nyström with all rows as landmarks is the exact kernel, for ridge; with half of them it is near. Rougher kernels need
// more of them.
func TestNystromTendsToTheExactKernel(t *testing.T) {
	for kind, half := range map[kernel.Kind]float64{kernel.Gaussian: 0.05, kernel.Matern52: 0.25, kernel.Matern32: 0.3,
		kernel.Matern12: 0.6, kernel.Laplace: 0.6} {
		t.Run(kind.String(), func(t *testing.T) { testNystrom(t, kernel.Kernel{Kind: kind, Scale: 0.9}, half) })
	}
}

func testNystrom(t *testing.T, k kernel.Kernel, half float64) {
	const n, lambda = 120, 0.1
	x, y := sample(6, n, 2, 1)
	fresh, _ := sample(7, 50, 2, 1)
	exact, err := FitExact(Setup{Task: Regression, Outputs: 1, Spec: randfeat.Spec{Kernel: k, Dim: 2}}, x, y, lambda)
	if err != nil {
		t.Fatal(err)
	}
	want := predict(t, exact, fresh)
	// Rows whose kernel is told to 10⁻⁸ are no landmarks: what they leave of K is at most 10⁻⁸·n, which moves
	// predictions by at most that over λ of the targets, here up to 12.
	for m, most := range map[int]float64{n: 12 * 1e-8 * n / lambda, n / 2: half, n / 8: 2} {
		model, err := mustRidge(t, landmarkSetupOf(t, k, x, m), x, y).Model(lambda)
		if err != nil {
			t.Fatal(err)
		}
		got, worst := predict(t, model, fresh), 0.0
		for i, v := range got.Data {
			worst = max(worst, math.Abs(v-want.Data[i]))
		}
		t.Logf("%d landmarks: %g", model.Weights.Rows, worst)
		if worst > most {
			t.Errorf("%d landmarks: off by %g, want at most %g", m, worst, most)
		}
		if m == n/8 && worst < 1e-3 {
			t.Errorf("%d landmarks are as good as all: the test shows nothing", m)
		}
	}
}

// Landmarks of a rough kernel have the same models in float32, up to its rounding. Smooth kernels are refused, and so
// are landmarks that are nearly equal.
func TestNystromFloat32(t *testing.T) {
	x, y := sample(8, 2000, 3, 1)
	for _, kind := range []kernel.Kind{kernel.Laplace, kernel.Matern12} {
		k := kernel.Kernel{Kind: kind, Scale: 2}
		rows, omega, err := Landmarks(k, x, 200, 1)
		if err != nil {
			t.Fatal(err)
		}
		s := Setup{Spec: randfeat.Spec{Kernel: k, Family: family.Landmarks{}, Dim: 3, M: len(rows)}, Omega: omega,
			Task: Regression, Outputs: 1}
		var got [2]dense.Matrix[float64]
		for i := range got {
			s.Float32 = i == 1
			m, err := mustRidge(t, s, x, y).Model(0.1)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = predict(t, m, x)
		}
		worst := 0.0
		for i, v := range got[0].Data {
			worst = max(worst, math.Abs(v-got[1].Data[i]))
		}
		if worst > 1e-4 || worst == 0 {
			t.Errorf("%v: float32 is off by %g", kind, worst)
		}
		near := omega[0].Rows.Clone()
		for j, v := range near.Row(0) {
			near.Row(1)[j] = v + 1e-6
		}
		s.Omega = []coupling.Omega{{Rows: near}}
		if _, err := NewRidge(s); !errors.Is(err, ErrSetup) {
			t.Errorf("%v: nearly equal landmarks in float32: %v", kind, err)
		}
		s.Float32 = false
		if _, err := NewRidge(s); err != nil {
			t.Errorf("%v: nearly equal landmarks in float64: %v", kind, err)
		}
	}
}

// Variances and probabilities by columns of the kernel are those by features φ = R⁻ᵀk.
func TestNystromModels(t *testing.T) {
	x, y := sample(8, 150, 2, 1)
	s := landmarkSetup(t, x, 30)
	fresh, _ := sample(9, 20, 2, 1)
	white, err := s.whitened()
	if err != nil {
		t.Fatal(err)
	}
	columns := dense.New[float64](fresh.Rows, 30)
	for i := range fresh.Rows {
		for j := range 30 {
			u := s.Spec.Kernel.Embed(make([]float64, 2), fresh.Row(i))
			columns.Set(i, j, kernel.Kernel{}.Eval(u, s.Omega[0].Rows.Row(j)))
		}
	}
	phi := columns.Clone()
	whiten(phi, white.stripes)
	r := mustRidge(t, s, x, y)
	gp, err := r.GP(0.3, nil)
	if err != nil {
		t.Fatal(err)
	}
	sol, err := r.solve(0.3, dense.Matrix[float64]{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor[float64](gp)
	if err != nil {
		t.Fatal(err)
	}
	variance, mean := dense.New[float64](fresh.Rows, 1), predict(t, gp, fresh)
	if err := p.Variance(variance, fresh, nil); err != nil {
		t.Fatal(err)
	}
	b := sol.Intercept()[0]
	for i := range fresh.Rows {
		centred := dense.New[float64](30, 1)
		want := b
		for j, v := range phi.Row(i) {
			centred.Set(j, 0, v-sol.Mu[j])
			want += v * sol.W.At(j, 0)
		}
		if err := linalg.SolveT(sol.U, centred); err != nil {
			t.Fatal(err)
		}
		h := 0.0
		for _, v := range centred.Data {
			h += v * v
		}
		if v := gp.Noise[0] * (1 + 1.0/150 + h); math.Abs(variance.At(i, 0)-v) > 1e-7*v ||
			math.Abs(mean.At(i, 0)-want) > 1e-7 {
			t.Errorf("row %d: %g ± %g, want %g ± %g", i, mean.At(i, 0), variance.At(i, 0), want, v)
		}
	}
	s.Task, s.Outputs = Classification, 3
	rows, err := MatrixRows(x, classes(y, 3))
	if err != nil {
		t.Fatal(err)
	}
	m, rep, err := FitLogistic(s, rows, LogisticOptions{Lambda: 0.1})
	if err != nil || !rep.Converged {
		t.Fatalf("%v, %+v", err, rep)
	}
	right, out := 0, predict(t, m, x)
	for i, c := range classes(y, 3).Data {
		if Class(out.Row(i)) == int(c) {
			right++
		}
	}
	if right < 110 {
		t.Errorf("%d of 150 rows right", right)
	}
}

func TestLandmarks(t *testing.T) {
	x, _ := sample(10, 400, 2, 1)
	for i := range 200 { // half of the rows are one
		copy(x.Row(i), x.Row(0))
	}
	k := kernel.Kernel{Scale: 0.5}
	rows, _, err := Landmarks(k, x, 100, 1)
	if err != nil || len(rows) != 100 {
		t.Fatalf("%d landmarks, %v", len(rows), err)
	}
	same := 0
	for i, r := range rows {
		if r < 200 {
			same++
		}
		if slices.Contains(rows[:i], r) {
			t.Errorf("row %d twice", r)
		}
	}
	if same > 1 {
		t.Errorf("%d landmarks are the same row", same)
	}
	old := runtime.GOMAXPROCS(1)
	again, _, _ := Landmarks(k, x, 100, 1)
	runtime.GOMAXPROCS(old)
	if other, _, _ := Landmarks(k, x, 100, 2); !slices.Equal(rows, again) || slices.Equal(rows, other) {
		t.Error("landmarks depend on goroutines, or not on the seed")
	}
	if rows, _, err = Landmarks(kernel.Kernel{Scale: 1e4}, x, 300, 1); err != nil || len(rows) > 20 {
		t.Errorf("%d landmarks of rows that a wide kernel hardly tells apart, %v", len(rows), err)
	}
	bad := landmarkSetup(t, x, 10)
	bad.Float32 = true
	if _, err := NewRidge(bad); !errors.Is(err, ErrSetup) {
		t.Errorf("float32: %v", err)
	}
	bad.Float32, bad.Omega = false, []coupling.Omega{{Rows: x.RowRange(0, 150)}}
	bad.Spec.M = 150
	if _, err := NewRidge(bad); err != nil && !errors.Is(err, ErrSetup) {
		t.Errorf("equal landmarks: %v", err)
	}
	if _, err := newSmoother(landmarkSetup(t, x, 10)); !errors.Is(err, ErrSetup) {
		t.Errorf("smoother: %v", err)
	}
	if _, _, err := Landmarks(kernel.Kernel{Kind: kernel.Softmax}, x, 3, 1); !errors.Is(err, ErrSetup) {
		t.Errorf("softmax kernel: %v", err)
	}
}
