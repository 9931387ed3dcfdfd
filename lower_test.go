package randfeat_test

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// lowerKernels have no embedding, a bandwidth and a matrix.
func lowerKernels(d int) map[string]kernel.Kernel {
	m := dense.New[float64](d, d+2)
	rng.Normals(m.Data, rng.Stream(21, uint64(d)))
	for i := range m.Data {
		m.Data[i] *= 0.5
	}
	kernels := map[string]kernel.Kernel{
		"plain":     {Kind: kernel.Softmax},
		"bandwidth": {Kind: kernel.Gaussian, Scale: 1.7},
		"matrix":    {Kind: kernel.Gaussian, M: m, Scale: 0.8},
	}
	for _, kind := range spectralKinds() {
		kernels[kind.String()] = kernel.Kernel{Kind: kind, M: m, Scale: 0.8}
	}
	return kernels
}

// A map computes the features that its plan defines: for every example of every family, both sides, plain and in the
// log domain.
func TestMapsAgreeWithEval(t *testing.T) {
	for _, d := range []int{1, 2, 5, 12} {
		for _, f := range allFamilies(t, d) {
			for kname, k := range lowerKernels(d) {
				spec := randfeat.Spec{Kernel: k, Family: f.Family, Dim: d, M: 9, Seed: 5}
				if !k.M.IsEmpty() {
					spec.Dim = k.M.Cols
				}
				if _, err := f.Family.Draws(k.Kind, d, 9); errors.Is(err, family.ErrKernel) {
					continue
				}
				if !agreesWithEval[float64](t, spec, 1e-11) || !agreesWithEval[float32](t, spec, 2e-4) {
					t.Errorf("%s, %s kernel, d = %d", f.Name, kname, d)
				}
			}
		}
	}
}

// A mutant in the compiled map must be seen: Eval with projections that are 1 % longer disagrees.
func TestEvalSeesMutants(t *testing.T) {
	for _, f := range allFamilies(t, 5) {
		spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: f.Family, Dim: 5, M: 9, Seed: 5}
		omega, err := randfeat.Draw(spec)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if len(omega) == 0 {
			continue
		}
		m, err := randfeat.NewWithOmega[float64](spec, omega)
		if err != nil {
			t.Fatal(err)
		}
		other := coupling.Omega{Rows: omega[0].Rows.Clone()}
		for i := range other.Rows.Data {
			other.Rows.Data[i] *= 1.01
		}
		moved := append([]coupling.Omega{other}, omega[1:]...)
		if _, err := randfeat.Lower(spec, moved); errors.Is(err, family.ErrParam) { // exponents must be counts
			for i := range other.Rows.Data {
				other.Rows.Data[i] = omega[0].Rows.Data[i] + 1
			}
		}
		if worst := evalDistance(t, m, spec, moved); worst < 1e-6 {
			t.Errorf("%s: other projections change the features by %.1e only", f.Name, worst)
		}
	}
}

func agreesWithEval[T dense.Float](t *testing.T, spec randfeat.Spec, tol float64) bool {
	t.Helper()
	omega, err := randfeat.Draw(spec)
	if err != nil {
		t.Error(err)
		return false
	}
	m, err := randfeat.NewWithOmega[T](spec, omega)
	if err != nil {
		t.Error(err)
		return false
	}
	worst := evalDistance(t, m, spec, omega)
	if !(worst <= tol) {
		t.Errorf("%T: the map is off by %.1e of its largest feature (bound %.0e)", *new(T), worst, tol)
	}
	return worst <= tol
}

// evalDistance is the largest difference between the features of m and those of the plan of omega, relative to the
// largest feature of the row: in Queries and Keys, plain and scaled, and in the log form.
func evalDistance[T dense.Float](t *testing.T, m *randfeat.Map[T], spec randfeat.Spec, omega []coupling.Omega) float64 {
	t.Helper()
	pair, err := randfeat.Lower(spec, omega)
	if err != nil {
		t.Fatal(err)
	}
	const n = 4
	x := dense.New[T](n, spec.Dim)
	src := rng.Stream(31, uint64(spec.Dim))
	v := make([]float64, spec.Dim)
	for i := range n {
		rng.Normals(v, src)
		for l := range v {
			x.Row(i)[l] = T(0.5 * v[l])
		}
	}
	f := m.OutDim()
	phi, scaled, e, value := dense.New[T](n, f), dense.New[T](n, f), dense.New[T](n, f), dense.New[T](n, f)
	scale, row := make([]float64, n), make([]float64, n)
	worst := 0.0
	for _, side := range []struct {
		eval func([]float64) []float64
		dim  int
		run  func(dst dense.Matrix[T], scale []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
		log  func(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
	}{
		{pair.Query.Eval, pair.Query.OutDim(spec.Dim), m.Queries, m.LogQueries},
		{pair.Key.Eval, pair.Key.OutDim(spec.Dim), m.Keys, m.LogKeys},
	} {
		if side.dim != f {
			t.Fatalf("the plan has %d features, the map %d", side.dim, f)
		}
		if err := errors.Join(side.run(phi, nil, x, nil), side.run(scaled, scale, x, nil), side.log(e, value, row, x,
			nil)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for l, c := range x.Row(i) {
				v[l] = float64(c)
			}
			want := side.eval(v)
			top := 0.0
			for _, w := range want {
				top = max(top, math.Abs(w))
			}
			for j, w := range want {
				log := float64(value.At(i, j))
				if log != 0 {
					log *= math.Exp(float64(e.At(i, j)) + row[i])
				}
				for _, got := range []float64{float64(phi.At(i, j)), float64(scaled.At(i, j)) * math.Exp(scale[i]),
					log} {
					if d := math.Abs(got-w) / top; !(d <= worst) { // NaN is worst
						worst = d
					}
				}
			}
		}
	}
	return worst
}
