package metric

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

func normal(r *rand.Rand, rows, cols int) dense.Matrix[float64] {
	m := dense.New[float64](rows, cols)
	for i := range m.Data {
		m.Data[i] = r.NormFloat64()
	}
	return m
}

var kinds = []kernel.Kind{kernel.Gaussian, kernel.Matern12, kernel.Matern32, kernel.Matern52, kernel.Laplace}

// numeric is the average gradient outer product by differences of Σ α κ.
func numeric(k kernel.Kernel, x, alpha, at dense.Matrix[float64]) dense.Matrix[float64] {
	const h = 1e-6
	d := x.Cols
	f := func(z []float64, c int) (sum float64) {
		for i := range x.Rows {
			sum += alpha.At(i, c) * k.Eval(x.Row(i), z)
		}
		return sum
	}
	out := dense.New[float64](d, d)
	for j := range at.Rows {
		for c := range alpha.Cols {
			g := make([]float64, d)
			for l := range g {
				up, down := slices.Clone(at.Row(j)), slices.Clone(at.Row(j))
				up[l] += h
				down[l] -= h
				g[l] = (f(up, c) - f(down, c)) / (2 * h)
			}
			for a := range d {
				for b := range d {
					out.Row(a)[b] += g[a] * g[b] / float64(at.Rows)
				}
			}
		}
	}
	return out
}

// The closed form is what differences of the function give, for all kernels, bandwidths and matrices.
func TestAGOPAgainstDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, d, outs, points = 40, 4, 3, 70 // two blocks of points
	for _, kind := range kinds {
		for _, m := range []dense.Matrix[float64]{{}, normal(r, d, d), normal(r, d-1, d)} {
			k := kernel.Kernel{Kind: kind, Scale: 1.7, M: m}
			x, alpha, at := normal(r, n, d), normal(r, n, outs), normal(r, points, d)
			want := numeric(k, x, alpha, at)
			got, err := AGOP(k, x, alpha, at, true)
			if err != nil {
				t.Fatal(err)
			}
			diagonal, err := AGOP(k, x, alpha, at, false)
			if err != nil {
				t.Fatal(err)
			}
			top := slices.Max(want.Data)
			for i := range d {
				for j := range d {
					if math.Abs(got.At(i, j)-want.At(i, j)) > 1e-6*top {
						t.Errorf("%v, %d×%d: element %d,%d is %g, differences give %g", kind, m.Rows, m.Cols, i, j,
							got.At(i, j), want.At(i, j))
					}
				}
				if math.Abs(diagonal.At(0, i)-got.At(i, i)) > 1e-12*top {
					t.Errorf("%v: element %d of the diagonal is %g, %g of the matrix", kind, i, diagonal.At(0, i),
						got.At(i, i))
				}
			}
			single, err := AGOP(k, dense.Convert[float32](x), dense.Convert[float32](alpha),
				dense.Convert[float32](at), true)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range single.Data {
				if math.Abs(v-got.Data[i]) > 1e-4*top {
					t.Errorf("%v: %g in float32, %g in float64", kind, v, got.Data[i])
				}
			}
		}
	}
}

// At the rows of the fit themselves a kernel with a kink has no gradient of its own; the others still count.
func TestGradientAtKink(t *testing.T) {
	x := dense.MustFromRows([][]float64{{0, 0}, {1, 0}})
	alpha := dense.MustFromRows([][]float64{{5}, {1}})
	for _, kind := range []kernel.Kind{kernel.Matern12, kernel.Laplace} {
		got, err := AGOP(kernel.Kernel{Kind: kind}, x, alpha, x.RowRange(0, 1), true)
		if err != nil {
			t.Fatal(err)
		}
		if want := math.Exp(-2); math.Abs(got.At(0, 0)-want) > 1e-12 || got.At(1, 1) != 0 {
			t.Errorf("%v: %v, want %g and zeros", kind, got, want)
		}
	}
}

// The same bits at any number of threads.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(3, 4))
	x, alpha := dense.Convert[float32](normal(r, 300, 9)), dense.Convert[float32](normal(r, 300, 2))
	for _, kind := range kinds {
		var first dense.Matrix[float64]
		for _, threads := range []int{1, 2, 7} {
			runtime.GOMAXPROCS(threads)
			got, err := AGOP(kernel.Kernel{Kind: kind, Scale: 3}, x, alpha, x, true)
			if err != nil {
				t.Fatal(err)
			}
			if first.IsEmpty() {
				first = got
			}
			if !slices.Equal(first.Data, got.Data) {
				t.Errorf("%v: other bits with %d threads", kind, threads)
			}
		}
	}
}

// M⁴ of a root is the product, scaled; M² of the others.
func TestMatrixIsPower(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := normal(r, 30, 5)
	g := gram(a)
	trace := 0.0
	for i := range 5 {
		trace += g.At(i, i)
	}
	for _, kind := range Kinds() {
		m, err := Matrix(kind, g)
		if err != nil {
			t.Fatal(err)
		}
		p := gram(m) // MᵀM
		if kind != Diagonal {
			p = gram(p)
		}
		for i := range 5 {
			for j := range 5 {
				want := g.At(i, j) * 5 / trace
				if i != j && !kind.Full() {
					want = 0
				}
				if math.Abs(p.At(i, j)-want) > 1e-12 {
					t.Errorf("%v: %d,%d is %g, want %g", kind, i, j, p.At(i, j), want)
				}
			}
		}
	}
	if _, err := Matrix(FullRoot, dense.New[float64](3, 3)); !errors.Is(err, kernel.ErrKernel) {
		t.Errorf("a constant function: %v", err)
	}
}

func TestDirections(t *testing.T) {
	m := dense.MustFromRows([][]float64{{0, 3, 0}, {-1.2, 0, -1.6}})
	ds, err := Directions(m, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Direction{{9.0 / 13, []float64{0, 1, 0}}, {4.0 / 13, []float64{0.6, 0, 0.8}}} {
		if math.Abs(ds[i].Share-want.Share) > 1e-12 {
			t.Errorf("share %d is %g, want %g", i, ds[i].Share, want.Share)
		}
		for l, v := range want.Vector {
			if math.Abs(ds[i].Vector[l]-v) > 1e-12 {
				t.Errorf("direction %d is %v, want %v", i, ds[i].Vector, want.Vector)
			}
		}
	}
	if s := Shares(m); math.Abs(s[0]-1.44/13) > 1e-12 || math.Abs(s[1]-9.0/13) > 1e-12 {
		t.Errorf("shares %v", s)
	}
	turned := dense.MustFromRows([][]float64{{1.2, 0, 1.6}, {0, 3, 0}}) // the same MᵀM
	other := dense.MustFromRows([][]float64{{1, 0, 0}})
	if a := Alike(m, turned); math.Abs(a-1) > 1e-12 {
		t.Errorf("equal metrics are alike to %g", a)
	}
	if a, want := Alike(m, other), 1.44/math.Sqrt(81+16); math.Abs(a-want) > 1e-12 {
		t.Errorf("cosine %g, want %g", a, want)
	}
}

func TestAGOPRefuses(t *testing.T) {
	x := dense.New[float64](3, 2)
	for name, f := range map[string]func() error{
		"softmax": func() error { _, err := AGOP(kernel.Attention(2), x, x, x, true); return err },
		"bessel":  func() error { _, err := AGOP(kernel.Kernel{Kind: kernel.Bessel}, x, x, x, true); return err },
		"shapes":  func() error { _, err := AGOP(kernel.Kernel{}, x, x.RowRange(0, 2), x, true); return err },
		"columns": func() error { _, err := AGOP(kernel.Kernel{}, x, x, x.ColRange(0, 1), true); return err },
		"nothing": func() error { _, err := AGOP(kernel.Kernel{}, x, x, x.RowRange(0, 0), true); return err },
		"not finite": func() error {
			_, err := AGOP(kernel.Kernel{}, x, dense.MustFromRows([][]float64{{1}, {math.NaN()}, {2}}), x, true)
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// Of several wrong arguments the first is named, in every run.
	bad := dense.MustFromRows([][]float64{{math.NaN()}})
	for range 20 {
		if _, err := AGOP(kernel.Kernel{}, bad, bad, bad, true); err == nil || !strings.HasPrefix(err.Error(), "x: ") {
			t.Fatalf("three wrong arguments: %v", err)
		}
	}
}
