package linalg

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

func random(seed uint64, rows, cols int) dense.Matrix[float64] {
	r := rand.New(rand.NewPCG(seed, 1))
	m := dense.New[float64](rows, cols)
	for i := range m.Data {
		m.Data[i] = r.NormFloat64()
	}
	return m
}

// positive is GᵀG + I of n×n, with eigenvalues from 1 to about 4n.
func positive(seed uint64, n int) dense.Matrix[float64] {
	g := random(seed, n, n)
	a := dense.Identity[float64](n)
	kern.Best[float64]().TMul(a, g, g)
	return a
}

func gonum(m dense.Matrix[float64]) *mat.Dense { return mat.NewDense(m.Rows, m.Cols, m.Clone().Data) }

// sizes lie on both sides of every block.
var sizes = []int{1, 2, 15, 16, 17, 33, 256, 257, 513}

func near(t *testing.T, what string, got, want, scale float64) {
	t.Helper()
	if !(math.Abs(got-want) <= scale) {
		t.Fatalf("%s: %.17g, want %.17g within %.2g", what, got, want, scale)
	}
}

func TestCholesky(t *testing.T) {
	for _, n := range sizes {
		a := positive(uint64(n), n)
		var want mat.Cholesky
		sym := mat.NewSymDense(n, a.Clone().Data)
		if !want.Factorize(sym) {
			t.Fatal("gonum refuses")
		}
		var wu mat.TriDense
		want.UTo(&wu)
		// A padded copy with NaN below the diagonal and beside the rows: they must not spread.
		u := dense.New[float64](n, n+3).ColRange(0, n)
		for i := range u.Data {
			u.Data[i] = math.NaN()
		}
		for i := range n {
			copy(u.Row(i)[i:], a.Row(i)[i:])
		}
		if err := Cholesky(u); err != nil {
			t.Fatal(err)
		}
		// The condition is below 10⁵, entries of U are below 2√n: both factors have errors of some n·ε·√cond.
		tol := 1e-13 * float64(n+10)
		for i := range n {
			for j := i; j < n; j++ {
				near(t, fmt.Sprintf("n = %d, U[%d,%d]", n, i, j), u.At(i, j), wu.At(i, j), tol)
			}
		}
		near(t, "log det", LogDet(u), want.LogDet(), tol)
		var inv mat.SymDense
		if err := want.InverseTo(&inv); err != nil {
			t.Fatal(err)
		}
		trace, err := TraceInverse(u)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "trace of the inverse", trace, mat.Trace(&inv), 1e-11*trace)

		w := random(3, n, n)
		if err := Inverse(w, u); err != nil {
			t.Fatal(err)
		}
		b := random(7, n, 300)
		x, y := b.Clone(), b.Clone()
		if err := errors.Join(Solve(u, x), SolveT(u, y)); err != nil {
			t.Fatal(err)
		}
		var wx, wy, prod mat.Dense
		if err := errors.Join(wx.Solve(&wu, gonum(b)), wy.Solve(wu.T(), gonum(b))); err != nil {
			t.Fatal(err)
		}
		prod.Mul(gonum(w), gonum(b))
		for i := range n {
			for j := range 300 {
				near(t, "Solve", x.At(i, j), wx.At(i, j), 1e-10)
				near(t, "SolveT", y.At(i, j), wy.At(i, j), 1e-10)
				near(t, "Inverse", prod.At(i, j), wx.At(i, j), 1e-10)
			}
			for j := range i {
				if w.At(i, j) != 0 {
					t.Fatal("the inverse is not triangular")
				}
			}
		}
	}
}

func TestSameBitsOnAnyNumberOfCores(t *testing.T) {
	run := func(procs int) []float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		a := positive(5, 700)
		if err := Cholesky(a); err != nil {
			t.Fatal(err)
		}
		w, b := dense.New[float64](700, 700), random(8, 700, 600)
		if err := errors.Join(Inverse(w, a), SolveT(a, b)); err != nil {
			t.Fatal(err)
		}
		trace, _ := TraceInverse(a)
		return append(append(append(w.Data, a.Data...), b.Data...), trace)
	}
	one, many := run(1), run(5)
	for i, v := range one {
		if math.Float64bits(v) != math.Float64bits(many[i]) {
			t.Fatalf("number %d: %v and %v", i, v, many[i])
		}
	}
}

func TestBadMatrices(t *testing.T) {
	for _, at := range []int{0, 14, 16, 255, 256, 299} {
		a := positive(2, 300)
		a.Set(at, at, -1)
		err := Cholesky(a)
		if want := fmt.Sprintf("pivot %d of 300", at); !errors.Is(err, ErrNotPositive) ||
			err.Error()[:len(want)] != want {
			t.Errorf("pivot %d: %v", at, err)
		}
		a = positive(2, 300)
		a.Set(0, at, math.NaN())
		if err := Cholesky(a); !errors.Is(err, ErrNotPositive) {
			t.Errorf("NaN in column %d: %v", at, err)
		}
	}
	u := dense.Identity[float64](4)
	for _, err := range []error{
		Cholesky(dense.New[float64](3, 4)), Solve(u, dense.New[float64](3, 1)), SolveT(u, dense.Matrix[float64]{Rows: 4,
			Cols: 1, Stride: 1}),
		Inverse(dense.New[float64](3, 3), u), Inverse(u, dense.New[float64](3, 4)),
	} {
		if !errors.Is(err, dense.ErrShape) {
			t.Errorf("wrong shape: %v", err)
		}
	}
	if err := Cholesky(dense.Matrix[float64]{}); err != nil {
		t.Errorf("empty matrix: %v", err)
	}
}

func BenchmarkCholesky(b *testing.B) {
	for _, n := range []int{512, 1024, 2048, 4096} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			a, u := positive(1, n), dense.New[float64](n, n)
			for b.Loop() {
				copy(u.Data, a.Data)
				if err := Cholesky(u); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, n)
		})
	}
}

func BenchmarkTraceInverse(b *testing.B) {
	const n = 2048
	u := positive(1, n)
	if err := Cholesky(u); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := TraceInverse(u); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, n)
}

// The alternative to one factorisation and trace per λ: one tridiagonal form for all.
func BenchmarkGonum(b *testing.B) {
	const n = 1024
	a := positive(1, n)
	b.Run("cholesky", func(b *testing.B) {
		for b.Loop() {
			s := blas64.Symmetric{N: n, Stride: n, Data: a.Clone().Data, Uplo: blas.Upper}
			if _, ok := lapack64.Potrf(s); !ok {
				b.Fatal("not positive")
			}
		}
		rate(b, n)
	})
	b.Run("eigenvalues", func(b *testing.B) {
		for b.Loop() {
			var e mat.EigenSym
			if !e.Factorize(mat.NewSymDense(n, a.Clone().Data), false) {
				b.Fatal("no convergence")
			}
		}
	})
}

func rate(b *testing.B, n int) {
	flops := float64(n) * float64(n) * float64(n) / 3
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
