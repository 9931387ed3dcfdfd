package randfeat_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// mapCases are specs of every family, with both kernels, a matrix kernel and projections by fast transforms.
func mapCases(t *testing.T) map[string]randfeat.Spec {
	const d, m = 5, 13
	specs := map[string]randfeat.Spec{}
	for _, f := range allFamilies(t, d) {
		soft := kernel.Kernel{Kind: kernel.Softmax, Scale: 1.3}
		specs[f.Name] = randfeat.Spec{Kernel: soft, Family: f.Family, Dim: d, M: m, Seed: 3}
		specs[f.Name+"/gaussian"] = randfeat.Spec{Family: f.Family, Dim: d, M: m, Seed: 4}
	}
	for _, kind := range spectralKinds() {
		for _, f := range accepting(t, allFamilies(t, d), kind, d) {
			specs[f.Name+"/"+kind.String()] = randfeat.Spec{Kernel: kernel.Kernel{Kind: kind, Scale: 1.3},
				Family: f.Family,
				Dim:    d, M: m, Seed: 3}
		}
	}
	mat := dense.New[float64](3, d)
	rng.Normals(mat.Data, rng.Stream(6))
	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 1.4, M: mat}
	for _, f := range allFamilies(t, mat.Rows) {
		if f.Name == f.Info.Name {
			specs[f.Name+"/matrix"] = randfeat.Spec{Kernel: k, Family: f.Family, Dim: d, M: m, Seed: 5}
		}
	}
	for _, c := range []coupling.Coupling{coupling.Hadamard{}, coupling.FastSimplex{}} {
		specs["fast-"+c.Name()] = randfeat.Spec{Family: family.OPRF{A: -0.01}, Coupling: c, Dim: 300, M: 700, Seed: 3}
		specs["fast-hyperbolic-"+c.Name()] = randfeat.Spec{Family: family.Hyperbolic{}, Coupling: c, Dim: 300, M: 700,
			Seed: 3}
		specs["fast-trig-"+c.Name()] = randfeat.Spec{Family: family.Trig{}, Coupling: c, Dim: 300, M: 700, Seed: 3}
	}
	return specs
}

// rowsOfNorm are n rows of the given norm.
func rowsOfNorm[T dense.Float](n, d int, norm float64, seed uint64) dense.Matrix[T] {
	x := dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(seed, uint64(d)))
	for i := range n {
		c := norm / math.Sqrt(dense.Norm2(x.Row(i)))
		for j := range x.Row(i) {
			x.Row(i)[j] *= c
		}
	}
	return dense.Convert[T](x)
}

// side is one side of a map, by the names of its methods.
type side[T dense.Float] struct {
	plain  func(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
	log    func(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
	scaled func(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
}

func sidesOf[T dense.Float](m *randfeat.Map[T]) map[string]side[T] {
	return map[string]side[T]{"queries": {m.Queries, m.LogQueries, m.QueriesScaled}, "keys": {m.Keys, m.LogKeys,
		m.KeysScaled}}
}

func epsilon[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 0x1p-23
	}
	return 0x1p-52
}

// The log form and the scaled form are the features of Queries, for inputs up to |x| = 10³ in float32.
func TestLogForm(t *testing.T) {
	for name, s := range mapCases(t) {
		t.Run(name, func(t *testing.T) {
			for _, norm := range []float64{0, 1, 30, 1000} {
				t.Run(fmt.Sprintf("float32/%v", norm), func(t *testing.T) { logForm[float32](t, s, norm) })
				t.Run(fmt.Sprintf("float64/%v", norm), func(t *testing.T) { logForm[float64](t, s, norm) })
			}
		})
	}
}

func logForm[T dense.Float](t *testing.T, s randfeat.Spec, norm float64) {
	m, err := randfeat.New[T](s)
	if err != nil {
		t.Fatal(err)
	}
	const n = 19
	f := m.OutDim()
	x := rowsOfNorm[T](n, s.Dim, norm, 7)
	clear(x.Row(0))
	x.Row(1)[0] = 0 // 0⁰ in monomials
	col := make([]T, f)
	for k := range col {
		col[k] = T(k%5) - 2
	}
	// Exponents are at most about |ω||x| and row terms about |x|², in float64; both are rounded a few times each.
	tolerance := 100*(1+norm)*epsilon[T]() + 4*norm*norm*0x1p-52
	var ws randfeat.Workspace[T]
	for name, side := range sidesOf(m) {
		phi, scale := dense.New[T](n, f), make([]float64, n)
		if err := side.plain(phi, scale, x, &ws); err != nil {
			t.Fatal(err)
		}
		e, value, row := dense.New[T](n, f), dense.New[T](n, f), make([]float64, n)
		if err := side.log(e, value, row, x, &ws); err != nil {
			t.Fatal(err)
		}
		got := dense.New[T](n, f)
		if err := side.scaled(got, col, scale, x, &ws); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			top := 0.0
			for _, v := range phi.Row(i) {
				top = max(top, math.Abs(float64(v)))
			}
			for k, want := range phi.Row(i) {
				v, ek := float64(value.At(i, k)), float64(e.At(i, k))
				if math.IsNaN(v) || math.IsNaN(ek) || math.IsInf(v, 0) || math.IsInf(ek, 1) {
					t.Fatalf("%s row %d feature %d: value %v, exponent %v", name, i, k, v, ek)
				}
				if d := v*math.Exp(ek+row[i]-scale[i]) - float64(want); !(math.Abs(d) <= tolerance*top) {
					t.Fatalf("%s row %d feature %d: %v·exp(%v + %v), want %v·exp(%v)", name, i, k, v, ek, row[i], want,
						scale[i])
				}
				d := float64(got.At(i, k))*math.Exp(-float64(col[k])) - float64(want)
				if !(math.Abs(d) <= tolerance*top) {
					t.Fatalf("%s row %d feature %d: %v scaled by exp(%v), want %v", name, i, k, got.At(i, k), col[k],
						want)
				}
				if !m.Signed() && v != 1 && !math.IsInf(ek, -1) {
					t.Fatalf("%s row %d feature %d has value %v in a map without signs", name, i, k, v)
				}
			}
		}
		if !m.Signed() {
			again := dense.New[T](n, f)
			if err := side.log(again, dense.Matrix[T]{}, row, x, &ws); err != nil {
				t.Fatal(err)
			}
			for k, v := range again.Data {
				if v != e.Data[k] {
					t.Fatalf("%s element %d: exponent %v without values, %v with them", name, k, v, e.Data[k])
				}
			}
		}
		if allocs := testing.AllocsPerRun(2, func() {
			err = errors.Join(side.log(e, value, row, x, &ws), side.scaled(got, col, scale, x, &ws))
		}); allocs > 0 || err != nil {
			t.Errorf("%s: %v allocations with a warm workspace, error %v", name, allocs, err)
		}
	}
}

// Rows do not depend on how many goroutines share them, and Workers bounds these.
func TestWorkers(t *testing.T) {
	s := randfeat.Spec{Family: family.Hyperbolic{}, Dim: 64, M: 256, Seed: 1}
	m, err := randfeat.New[float32](s)
	if err != nil {
		t.Fatal(err)
	}
	x := rowsOfNorm[float32](3000, 64, 2, 1)
	shift := make([]float64, x.Rows)
	var want dense.Matrix[float32]
	for _, workers := range []int{0, 1, 3} {
		got := dense.New[float32](x.Rows, m.OutDim())
		if err := m.KeysScaled(got, nil, shift, x, &randfeat.Workspace[float32]{Workers: workers}); err != nil {
			t.Fatal(err)
		}
		if want.IsEmpty() {
			want = got
		}
		for i, v := range got.Data {
			if v != want.Data[i] {
				t.Fatalf("%d workers: element %d is %v, was %v", workers, i, v, want.Data[i])
			}
		}
	}
}

func TestLogFormErrors(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Family: family.Trig{}, Dim: 3, M: 4})
	if err != nil {
		t.Fatal(err)
	}
	f := m.OutDim()
	x, e, row := dense.New[float32](2, 3), dense.New[float32](2, f), make([]float64, 2)
	bad := x.Clone()
	bad.Data[4] = float32(math.NaN())
	for name, c := range map[string]struct{ got, want error }{
		"input columns":   {m.LogKeys(e, e.Clone(), row, dense.New[float32](2, 4), nil), dense.ErrShape},
		"exponents":       {m.LogKeys(dense.New[float32](2, f-1), e.Clone(), row, x, nil), dense.ErrShape},
		"no values":       {m.LogKeys(e, dense.Matrix[float32]{}, row, x, nil), dense.ErrShape},
		"row terms":       {m.LogQueries(e, e.Clone(), row[:1], x, nil), dense.ErrShape},
		"not finite":      {m.LogQueries(e, e.Clone(), row, bad, nil), dense.ErrNotFinite},
		"scaled dst":      {m.QueriesScaled(dense.New[float32](1, f), nil, row, x, nil), dense.ErrShape},
		"scaled col":      {m.QueriesScaled(e, make([]float32, f+1), row, x, nil), dense.ErrShape},
		"scaled shift":    {m.KeysScaled(e, nil, row[:1], x, nil), dense.ErrShape},
		"scaled infinite": {m.KeysScaled(e, nil, row, bad, nil), dense.ErrNotFinite},
		"no rows":         {m.KeysScaled(dense.New[float32](0, f), nil, nil, dense.New[float32](0, 3), nil), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: error %v, want %v", name, c.got, c.want)
		}
	}
}
