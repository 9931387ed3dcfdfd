package linalg

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// The conditions of Karush, Kuhn and Tucker hold within activeShort: α is the shortfall of a row from its target, over
// λ, and sums to 0.
func TestSolveMargins(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n, outs = 700, 3
	x, y := dense.New[float64](n, 2), dense.New[float64](n, outs)
	for i := range n {
		x.Set(i, 0, r.NormFloat64())
		x.Set(i, 1, r.NormFloat64())
		c := 0
		if x.At(i, 0)+0.1*r.NormFloat64() > 0 {
			c++
		}
		if x.At(i, 1) > 0.5 {
			c++
		}
		y.Set(i, c, 1)
	}
	k := dense.New[float64](n, n)
	for i := range n {
		for j := range n {
			a, b := x.At(i, 0)-x.At(j, 0), x.At(i, 1)-x.At(j, 1)
			k.Set(i, j, math.Exp(-(a*a+b*b)/2))
		}
	}
	asked := map[int]bool{}
	rows := func(dst dense.Matrix[float64], rows []int) error {
		for at, i := range rows {
			if asked[i] {
				t.Errorf("row %d is asked for twice", i)
			}
			asked[i] = true
			copy(dst.Row(at), k.Row(i))
		}
		return nil
	}
	const most = n*n*n/6 + 20*n*n*outs
	for _, lambda := range []float64{1e-3, 0.1} {
		before := k.Clone()
		clear(asked)
		d, ok, err := SolveMargins(rows, y, lambda, most)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			t.Fatalf("λ = %g: too many rows", lambda)
		}
		none := 0
		for c := range outs {
			sum := 0.0
			for i := range n {
				f := d.Intercept[c]
				for j := range n {
					f += k.At(i, j) * d.Alpha.At(j, c)
				}
				want := min(-f, 0)
				if y.At(i, c) > 0 {
					want = max(1-f, 0)
				}
				if got := d.Alpha.At(i, c) * lambda; math.Abs(got-want) > 1.1*activeShort {
					t.Fatalf("λ = %g, class %d, row %d: α is %g, want %g", lambda, c, i, got/lambda, want/lambda)
				}
				if d.Alpha.At(i, c) == 0 {
					none++
				}
				sum += d.Alpha.At(i, c)
			}
			if math.Abs(sum)*lambda > 1e-9 {
				t.Errorf("λ = %g: α of class %d sum to %g", lambda, c, sum)
			}
		}
		if none < n*outs/4 {
			t.Errorf("λ = %g: %d rows beyond their target", lambda, none)
		}
		for i := range before.Data {
			if before.Data[i] != k.Data[i] {
				t.Fatal("kernels are not kept")
			}
		}
	}
	if !MarginsWorth(k, y, 1e-3, most*512) {
		t.Error("not worth it, though few of these rows are active")
	}
	for i := range n { // every row is short of its target: nothing to gain
		for j := range n {
			if i != j {
				k.Set(i, j, 0)
			}
		}
	}
	if MarginsWorth(k, y, 0.1, most*512) {
		t.Error("worth it, though all rows are active")
	}
	clear(asked)
	if _, ok, err := SolveMargins(rows, y, 1, most); ok || err != nil {
		t.Error("no row is beyond its target, and yet that was the shorter way", err)
	}
	broken := errors.New("broken")
	failing := func(dense.Matrix[float64], []int) error { return broken }
	if _, _, err := SolveMargins(failing, y, 1, most); err != broken {
		t.Errorf("error %v of rows that cannot be computed", err)
	}
}
