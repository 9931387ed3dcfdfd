package linalg

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// sides returns n×cols right-hand sides and a factor of a matrix of n rows, with NaN below its diagonal.
func sides[T dense.Float](t *testing.T, n, cols int) (b, u dense.Matrix[T]) {
	t.Helper()
	u, b = dense.Convert[T](gaussian(n, 0.3)), dense.New[T](n, cols)
	for i := range n {
		u.Row(i)[i] += 0.1
		for c := range cols {
			b.Set(i, c, T(math.Sin(float64(i*(c+1)))))
		}
	}
	if err := Cholesky(u); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for j := range i {
			u.Set(i, j, T(math.NaN()))
		}
	}
	return b, u
}

// Solutions for columns as rows, and by the inverse, are those of substitutions, read the upper triangle alone, and do
// not depend on goroutines.
func TestSolver(t *testing.T) {
	const bound = 1e-4
	for _, n := range []int{1, 63, 64, 65, 300} {
		for _, cols := range []int{1, 2, 5, 18, 33} {
			b, u := sides[float32](t, n, cols)
			want := b.Clone()
			if err := errors.Join(SolveT(u, want), Solve(u, want)); err != nil {
				t.Fatal(err)
			}
			inverse := dense.New[float32](n, n)
			got := b.Clone()
			if err := errors.Join(Inverse(inverse, u), SolveByInverse(inverse, got)); err != nil {
				t.Fatal(err)
			}
			s, err := newSolver(u)
			if err != nil {
				t.Fatal(err)
			}
			first := dense.New[float64](n, cols)
			s.columns(first, dense.Convert[float64](b))
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
				again := dense.New[float64](n, cols)
				if s.columns(again, dense.Convert[float64](b)); !slices.Equal(again.Data, first.Data) {
					t.Errorf("%d rows, %d columns: other bits with other goroutines, or the second time", n, cols)
				}
			}()
			most, one, two := 0.0, 0.0, 0.0
			for i, v := range want.Data {
				most = max(most, math.Abs(float64(v)))
				one = max(one, math.Abs(float64(v-got.Data[i])))
				two = max(two, math.Abs(float64(v)-first.Data[i]))
			}
			if max(one, two) > bound*most {
				t.Errorf("%d rows, %d columns: off by %.2g by the inverse, by %.2g by the solver, of %.2g", n, cols, one,
					two, most)
			}
		}
	}
	if err := SolveByInverse(dense.New[float32](3, 3), dense.New[float32](2, 1)); !errors.Is(err, dense.ErrShape) {
		t.Errorf("an inverse of 3 rows for 2: %v", err)
	}
}
