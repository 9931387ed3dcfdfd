package omega_test

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
)

// simplexRow is s_i by SimRF eq 9.
func simplexRow(i, d int) []float64 {
	n := float64(d)
	s := make([]float64, d)
	for j := range d - 1 {
		if i == d-1 {
			s[j] = 1 / math.Sqrt(n-1)
		} else {
			s[j] = -(math.Sqrt(n) + 1) / math.Pow(n-1, 1.5)
		}
	}
	if i < d-1 {
		s[i] += math.Sqrt(n / (n - 1))
	}
	return s
}

// The fast multiply is the matrix of eq 9.
func TestSimplexMultiplyIsEq9(t *testing.T) {
	for _, d := range []int{2, 3, 7, 64} {
		x := make([]float64, d)
		rng.Normals(x, rng.Stream(80))
		before := append([]float64(nil), x...)
		y := omega.SimplexMultiply(x)
		for i := range d {
			if want := dense.Dot(simplexRow(i, d), x); math.Abs(y[i]-want) > 1e-13 {
				t.Errorf("d=%d: y[%d] = %v, want %v", d, i, y[i], want)
			}
			if x[i] != before[i] {
				t.Fatal("input changed")
			}
		}
	}
	if y := omega.SimplexMultiply([]float64{3}); len(y) != 1 || y[0] != 3 {
		t.Errorf("d=1: %v, want the identity", y)
	}
	if y := omega.SimplexMultiply(nil); len(y) != 0 {
		t.Errorf("d=0: %v", y)
	}
}

func resultant(w dense.Matrix[float64]) float64 {
	sum := make([]float64, w.Cols)
	for i := range w.Rows {
		for j, v := range w.Row(i) {
			sum[j] += v
		}
	}
	return math.Sqrt(dense.Norm2(sum))
}

// docs/theory.md §4.8, d = 6: mean |T| falls from 1.6 to 4e-4 after one sweep and 3e-7 after two; it never grows.
func TestSimplexPlusConvergence(t *testing.T) {
	const d, reps = 6, 2000
	src := rng.Stream(91)
	var mean [3]stattest.Moments
	for range reps {
		norms := make([]float64, d)
		for i := range norms {
			norms[i] = rng.Chi(d, src)
		}
		start, err := omega.SimplexPlusSweeps(norms, 0, dense.Identity[float64](d))
		if err != nil {
			t.Fatal(err)
		}
		res, err := omega.SimplexPlusSweeps(norms, 5, dense.Identity[float64](d))
		if err != nil {
			t.Fatal(err)
		}
		last := resultant(dense.MustFromRows(start.W))
		mean[0].Add(last)
		mean[1].Add(res.Resultant[0])
		mean[2].Add(res.Resultant[1])
		for i, v := range res.Resultant {
			if v > last+1e-14 {
				t.Fatalf("|T| grew from %g to %g in pass %d", last, v, i+1)
			}
			last = v
		}
	}
	for i, c := range []struct{ lo, hi float64 }{{1.55, 1.65}, {1e-4, 2e-3}, {0, 1e-5}} {
		if m := mean[i].Mean(); m < c.lo || m > c.hi {
			t.Errorf("mean |T| after %d sweeps is %g, want %g to %g", i, m, c.lo, c.hi)
		}
	}
}

func TestSimplexPlusSweepsErrors(t *testing.T) {
	id := dense.Identity[float64](2)
	if _, err := omega.SimplexPlusSweeps(nil, 1, dense.Matrix[float64]{}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no norms: %v", err)
	}
	if _, err := omega.SimplexPlusSweeps([]float64{1, 2, 3}, 1, id); !errors.Is(err, dense.ErrShape) {
		t.Errorf("wrong R: %v", err)
	}
	if _, err := omega.SimplexPlusSweeps([]float64{1, 2}, -1, id); err == nil {
		t.Error("negative passes accepted")
	}
}

// The gradient of ConformityObjective is that of its value.
func TestConformityGradient(t *testing.T) {
	const m, d, v, h = 4, 3, 1.3, 1e-5
	w := dense.New[float64](m, d)
	rng.Normals(w.Data, rng.Stream(96))
	sum := func() float64 {
		r, err := omega.ConformityObjective(w, v)
		if err != nil {
			t.Fatal(err)
		}
		return r.Rho * m * (m - 1)
	}
	r, err := omega.ConformityObjective(w, v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m {
		for j := range d {
			x := w.At(i, j)
			w.Set(i, j, x+h)
			up := sum()
			w.Set(i, j, x-h)
			down := sum()
			w.Set(i, j, x)
			if num := (up - down) / (2 * h); math.Abs(num-r.GradSum[i][j]) > 1e-7*(1+math.Abs(num)) {
				t.Errorf("∂/∂w[%d][%d] = %v, difference quotient %v", i, j, r.GradSum[i][j], num)
			}
		}
	}
}

func TestConformityObjectiveErrors(t *testing.T) {
	if _, err := omega.ConformityObjective(dense.New[float64](1, 3), 1); !errors.Is(err, dense.ErrShape) {
		t.Errorf("one row: %v", err)
	}
}

func TestHaltonRowsErrors(t *testing.T) {
	if _, err := omega.HaltonRows(0, []float64{0}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no rows: %v", err)
	}
	if _, err := omega.HaltonRows(1, nil); !errors.Is(err, dense.ErrShape) {
		t.Errorf("no shift: %v", err)
	}
	if _, err := omega.HaltonRows(1, []float64{math.NaN()}); !errors.Is(err, dense.ErrNotFinite) {
		t.Errorf("NaN shift: %v", err)
	}
}

// A partial block has the first rows of the full block: Gram–Schmidt does not look ahead.
func TestOrthogonalPrefix(t *testing.T) {
	g := dense.New[float64](7, 7)
	rng.Normals(g.Data, rng.Stream(33))
	full, err := omega.HaarFromGaussian(g)
	if err != nil {
		t.Fatal(err)
	}
	part, err := omega.HaarFromGaussian(g.ColRange(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		for j := range 3 {
			if math.Abs(full.At(i, j)-part.At(i, j)) > 1e-14 {
				t.Fatalf("Q[%d][%d] is %v, from all columns %v", i, j, part.At(i, j), full.At(i, j))
			}
		}
	}
}

func TestHaarFromGaussianErrors(t *testing.T) {
	for _, g := range []dense.Matrix[float64]{{}, dense.New[float64](2, 3),
		{Rows: 2, Cols: 2, Stride: 1, Data: make([]float64, 4)}} {
		if _, err := omega.HaarFromGaussian(g); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%d×%d: %v", g.Rows, g.Cols, err)
		}
	}
}
