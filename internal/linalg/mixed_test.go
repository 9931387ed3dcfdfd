package linalg

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// gaussian are kernels of n random points of the plane.
func gaussian(n int, scale float64) dense.Matrix[float64] {
	x, k := dense.New[float64](n, 2), dense.New[float64](n, n)
	rng.Normals(x.Data, rng.Stream(7))
	for i := range n {
		for j := range n {
			a, b := x.At(i, 0)-x.At(j, 0), x.At(i, 1)-x.At(j, 1)
			k.Set(i, j, math.Exp(-(a*a+b*b)/(2*scale*scale)))
		}
	}
	return k
}

// A refined factor in float32 agrees with a factor in float64 far below the precision of float32; so do margins.
func TestDualMixed(t *testing.T) {
	const n, outs = 300, 3
	y := dense.New[float64](n, outs)
	for i := range n {
		y.Set(i, i%outs, 1)
	}
	k := gaussian(n, 0.3)
	for _, lambda := range []float64{1, 0.01, mixedShift(n)} {
		want, err := SolveDual(CopyUpper(dense.Matrix[float64]{}, k), y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SolveDualMixed(k, y, lambda, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		compare := func(what string, bound float64) {
			t.Helper()
			far, most := 0.0, 0.0
			for i := range n { // predictions of the rows: y − λα
				for c := range outs {
					far = max(far, math.Abs(got.Alpha.At(i, c)-want.Alpha.At(i, c))*lambda)
					most = max(most, math.Abs(got.Intercept[c]-want.Intercept[c]))
				}
			}
			if max(far, most) > bound {
				t.Errorf("λ = %g, %s: predictions differ by %.1g, intercepts by %.1g", lambda, what, far, most)
			}
		}
		compare("squares", 1e-7)
		if err := errors.Join(want.Margins(y, lambda, 200), got.Margins(y, lambda, 200)); err != nil {
			t.Fatal(err)
		}
		if lambda >= 20*mixedShift(n) {
			compare("margins", 5e-3) // both end where a step changes predictions by 1e-3 on average
		}
	}
	if _, err := SolveDualMixed(k, y, mixedShift(n)/4, 0.5); !errors.Is(err, ErrNotPositive) {
		t.Errorf("a penalty below the roundings: %v", err)
	}
	k.Set(5, 5, -1)
	if _, err := SolveDualMixed(k, y, 0.1, 0.5); !errors.Is(err, ErrNotPositive) {
		t.Errorf("a matrix that is not positive: %v", err)
	}
}

// TestSolveDualFloat32: the fit and its margins are those in float64 to the digits that float32 has left.
func TestSolveDualFloat32(t *testing.T) {
	const n, lambda = 150, 0.05
	k, y := stretches(n)
	for _, steps := range []int{0, 3000} {
		want, err := SolveDual(k.Clone(), y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SolveDualFloat32(dense.Convert[float32](k), y, lambda)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []*Dual{want, got} {
			if steps == 0 {
				continue
			}
			if err := d.Margins(y, lambda, steps); err != nil {
				t.Fatal(err)
			}
		}
		for i, a := range got.Alpha.Data { // λα is a residual of targets 0 and 1
			if math.Abs(lambda*(a-want.Alpha.Data[i])) > 2e-3 {
				t.Fatalf("%d steps: coefficient %d is %g, want %g", steps, i, a, want.Alpha.Data[i])
			}
		}
	}
	if _, err := SolveDualFloat32(dense.New[float32](3, 3), y, lambda); !errors.Is(err, dense.ErrShape) {
		t.Errorf("%v for another number of rows", err)
	}
}
