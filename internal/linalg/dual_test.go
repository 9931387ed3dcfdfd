package linalg

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/rng"
)

// The dual fit is the primal one of the same features, and leaving a row out is fitting the others.
func TestDual(t *testing.T) {
	const n, f, outs, lambda = 60, 9, 2, 0.3
	phi, y := dense.New[float64](n, f), dense.New[float64](n, outs)
	rng.Normals(phi.Data, rng.Stream(1))
	rng.Normals(y.Data, rng.Stream(2))
	fit := func(phi, y dense.Matrix[float64]) (*Solution, []float64) {
		var p Normal
		p.Reset(f, outs)
		t1 := dense.New[float64](phi.Rows, outs+1)
		for i := range phi.Rows {
			copy(t1.Row(i), y.Row(i))
			t1.Row(i)[outs] = 1
		}
		p.N = int64(phi.Rows)
		var g Gram[float64]
		tab := kern.Best[float64]()
		g.Add(tab, p.Gram, phi)
		AddProduct(tab, p.Cross, phi, t1)
		p.AddTargets(t1)
		s, err := p.Solve(lambda, dense.Matrix[float64]{})
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Intercept()
	}
	k := dense.New[float64](n, n)
	for i := range n {
		for j := range n {
			k.Set(i, j, dense.Dot(phi.Row(i), phi.Row(j)))
		}
	}
	d, err := SolveDual(k.Clone(), y, lambda)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-10*(1+math.Abs(want)) {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	s, b := fit(phi, y)
	for c := range outs {
		near("intercept", d.Intercept[c], b[c])
		for j := range f {
			w := 0.0
			for i := range n {
				w += d.Alpha.At(i, c) * phi.At(i, j)
			}
			near("weight", w, s.W.At(j, c))
		}
	}
	loo := dense.New[float64](n, outs)
	if err := d.LeaveOneOut(loo, y, dense.New[float64](n, n), 0); err != nil {
		t.Fatal(err)
	}
	const from = 23
	last := dense.New[float64](n-from, outs)
	if err := d.LeaveOneOut(last, y, dense.New[float64](n-from, n-from), from); err != nil {
		t.Fatal(err)
	}
	for i := range last.Data {
		near("left out of the last rows", last.Data[i], loo.Data[from*outs+i])
	}
	for _, i := range []int{0, 17, n - 1} {
		rest := func(m dense.Matrix[float64]) dense.Matrix[float64] {
			out := dense.New[float64](n-1, m.Cols)
			copy(out.Data, m.Data[:i*m.Cols])
			copy(out.Data[i*m.Cols:], m.Data[(i+1)*m.Cols:])
			return out
		}
		s, b := fit(rest(phi), rest(y))
		for c := range outs {
			want := b[c]
			for j := range f {
				want += s.W.At(j, c) * phi.At(i, j)
			}
			near("left out", loo.At(i, c), want)
		}
	}
	if _, err := SolveDual(k.Clone(), y, 0); !errors.Is(err, ErrNotPositive) {
		t.Errorf("a singular matrix: %v", err)
	}
	if _, err := SolveDual(k.Clone(), y.RowRange(0, 5), 1); !errors.Is(err, dense.ErrShape) {
		t.Errorf("other rows: %v", err)
	}
}

// Rows of weight 2 are rows twice, and left out they are both gone.
func TestDualWeighted(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const n, lambda = 20, 0.3
	x := make([]float64, n)
	y, weights := dense.New[float64](n, 1), make([]float64, n)
	for i := range n {
		x[i], weights[i] = r.NormFloat64(), float64(i%3)
		y.Set(i, 0, r.NormFloat64())
	}
	fit := func(use func(i int) int) (f func(at float64) float64) {
		var rows []int
		for i := range n {
			for range use(i) {
				rows = append(rows, i)
			}
		}
		k, t1 := dense.New[float64](len(rows), len(rows)), dense.New[float64](len(rows), 1)
		for a, i := range rows {
			t1.Set(a, 0, y.At(i, 0))
			for b, j := range rows {
				k.Set(a, b, math.Exp(-(x[i]-x[j])*(x[i]-x[j])/2))
			}
		}
		d, err := SolveDual(k, t1, lambda)
		if err != nil {
			t.Fatal(err)
		}
		return func(at float64) float64 {
			v := d.Intercept[0]
			for a, i := range rows {
				v += d.Alpha.At(a, 0) * math.Exp(-(x[i]-at)*(x[i]-at)/2)
			}
			return v
		}
	}
	k, roots := dense.New[float64](n, n), make([]float64, n)
	for i := range n {
		roots[i] = math.Sqrt(weights[i])
		for j := range n {
			k.Set(i, j, math.Exp(-(x[i]-x[j])*(x[i]-x[j])/2))
		}
	}
	d, err := SolveDualWeighted(k, y, roots, lambda)
	if err != nil {
		t.Fatal(err)
	}
	loo := dense.New[float64](n, 1)
	if err := d.LeaveOneOut(loo, y, dense.New[float64](n, n), 0); err != nil {
		t.Fatal(err)
	}
	all := fit(func(i int) int { return int(weights[i]) })
	for i := range n {
		v := d.Intercept[0]
		for j := range n {
			v += d.Alpha.At(j, 0) * math.Exp(-(x[i]-x[j])*(x[i]-x[j])/2)
		}
		if want := all(x[i]); math.Abs(v-want) > 1e-9 {
			t.Errorf("row %d: %g, want %g", i, v, want)
		}
		if weights[i] == 0 {
			continue
		}
		rest := fit(func(j int) int {
			if j == i {
				return 0
			}
			return int(weights[j])
		})
		if want := rest(x[i]); math.Abs(loo.At(i, 0)-want) > 1e-9 {
			t.Errorf("row %d left out: %g, want %g", i, loo.At(i, 0), want)
		}
	}
}
