package linalg

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// kernels of n rows in a line, and the indicator of two stretches of it.
func stretches(n int) (k, y dense.Matrix[float64]) {
	k, y = dense.New[float64](n, n), dense.New[float64](n, 2)
	for i := range n {
		for j := range n {
			d := float64(i-j) / float64(n) * 12
			k.Set(i, j, math.Exp(-d*d/2))
		}
		in := 0
		if 3*i > n && 3*i < 2*n || i%17 == 0 {
			in = 1
		}
		y.Set(i, in, 1)
	}
	return k, y
}

// At the least squared hinge loss, λα is the distance to the margin: 0 beyond it.
func TestMargins(t *testing.T) {
	const n, lambda = 150, 0.05
	k, y := stretches(n)
	d, err := SolveDual(k.Clone(), y, lambda)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Margins(y, lambda, 3000); err != nil {
		t.Fatal(err)
	}
	beyond := 0
	for i := range n {
		for c := range 2 {
			f := d.Intercept[c]
			for j := range n {
				f += k.At(i, j) * d.Alpha.At(j, c)
			}
			want := max(0, 1-f)
			if y.At(i, c) == 0 {
				want = min(0, -f)
			}
			if want == 0 {
				beyond++
			}
			if got := lambda * d.Alpha.At(i, c); math.Abs(got-want) > 0.01 {
				t.Errorf("row %d, column %d: f = %.3f, λα = %.3f, want %.3f", i, c, f, got, want)
			}
		}
	}
	if beyond < n/2 {
		t.Errorf("%d of %d beyond their margins", beyond, 2*n)
	}
	sum := 0.0
	for i := range n {
		sum += d.Alpha.At(i, 0)
	}
	if math.Abs(sum) > 1e-8 {
		t.Errorf("Σα = %g, want 0: the intercept is free", sum)
	}
}

// Few columns of a large factor are solved for in panels, with the same result as many.
func TestSolveFewColumns(t *testing.T) {
	const n, cols = 4*panel + 77, 3
	u := dense.New[float64](n, n)
	rng.Normals(u.Data, rng.Stream(3))
	for i := range n {
		for j := range u.Row(i) {
			u.Row(i)[j] *= 0.01
		}
		u.Row(i)[i] = 1 + math.Abs(u.At(i, i))
	}
	b := dense.New[float64](n, stripe+1)
	rng.Normals(b.Data, rng.Stream(4))
	few := dense.New[float64](n, cols)
	for i := range n {
		copy(few.Row(i), b.Row(i))
	}
	for _, side := range []func(u, b dense.Matrix[float64]) error{SolveT[float64], Solve[float64]} {
		wide, narrow := b.Clone(), few.Clone()
		if err := errors.Join(side(u, wide), side(u, narrow)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for c := range cols {
				if got, want := narrow.At(i, c), wide.At(i, c); math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("row %d, column %d: %g, want %g", i, c, got, want)
				}
			}
		}
	}
}
