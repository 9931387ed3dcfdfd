package kernel_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

func random(n, d int, seed uint64) dense.Matrix[float64] {
	x := dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(seed))
	return x
}

func TestEval(t *testing.T) {
	x, y := []float64{0.3, -0.5, 0.8}, []float64{0.4, 0.1, -0.6}
	const z2, xy = 0.1*0.1 + 0.6*0.6 + 1.4*1.4, 0.12 - 0.05 - 0.48
	m := dense.MustFromRows([][]float64{{0.5, 0.2, 0}, {0, 0.6, -0.3}}) // golden kernel.log_mahalanobis
	z := math.Sqrt(z2)
	for _, c := range []struct {
		name string
		k    kernel.Kernel
		want float64
	}{
		{"zero value", kernel.Kernel{}, math.Exp(-z2 / 2)},
		{"bandwidth", kernel.Kernel{Scale: 2}, math.Exp(-z2 / 8)},
		{"softmax", kernel.Kernel{Kind: kernel.Softmax}, math.Exp(xy)},
		{"attention", kernel.Attention(3), math.Exp(xy / math.Sqrt(3))},
		{"mahalanobis", kernel.Kernel{Kind: kernel.Softmax, M: m}, math.Exp(-0.1186)},
		{"laplace", kernel.Kernel{Kind: kernel.Laplace, Scale: 2}, math.Exp(-(0.1 + 0.6 + 1.4) / 2)},
		{"matern12", kernel.Kernel{Kind: kernel.Matern12, Scale: 2}, math.Exp(-z / 2)},
		{"matern32", kernel.Kernel{Kind: kernel.Matern32}, (1 + math.Sqrt(3)*z) * math.Exp(-math.Sqrt(3)*z)},
		{"matern52", kernel.Kernel{Kind: kernel.Matern52}, (1 + math.Sqrt(5)*z + 5*z*z/3) * math.Exp(-math.Sqrt(5)*z)},
		{"bessel in 3 dimensions", kernel.Kernel{Kind: kernel.Bessel}, math.Sin(z) / z},
		{"bessel with norms √3", kernel.Kernel{Kind: kernel.Bessel, Scale: 1 / math.Sqrt(3)},
			math.Sin(math.Sqrt(3)*z) / (math.Sqrt(3) * z)},
	} {
		if got := c.k.Eval(x, y); math.Abs(got/c.want-1) > 1e-13 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := c.k.Log(x, y); math.Abs(got-math.Log(math.Abs(c.want))) > 1e-13 {
			t.Errorf("%s: log %v, want %v", c.name, got, math.Log(math.Abs(c.want)))
		}
	}
}

func TestGramEqualsEval(t *testing.T) {
	x, y := random(300, 4, 1), random(517, 4, 2) // more rows than one block
	kernels := []kernel.Kernel{{Kind: kernel.Softmax, M: random(2, 4, 3)}}
	for _, kind := range kernel.Kinds() {
		kernels = append(kernels, kernel.Kernel{Kind: kind, Scale: 1.5})
	}
	copy(y.Row(7), x.Row(7)) // no distance at all
	for _, k := range kernels {
		var first dense.Matrix[float64]
		for _, procs := range []int{1, 8} {
			old := runtime.GOMAXPROCS(procs)
			got := dense.New[float64](x.Rows, y.Rows)
			if err := kernel.Gram(k, got, x, y); err != nil {
				t.Fatal(err)
			}
			runtime.GOMAXPROCS(old)
			for i := range x.Rows {
				for j := range y.Rows {
					// The product form of |u-v|² loses a few roundings of |u|²+|v|², here below 100.
					if want := k.Eval(x.Row(i), y.Row(j)); math.Abs(got.At(i, j)-want) > 1e-13*math.Max(1, want) {
						t.Fatalf("%v: element %d,%d is %v, want %v", k.Kind, i, j, got.At(i, j), want)
					}
					if procs > 1 && got.At(i, j) != first.At(i, j) {
						t.Fatalf("%v: element %d,%d depends on the number of threads", k.Kind, i, j)
					}
				}
			}
			first = got
		}
		next := 0
		if err := kernel.EachBlock(k, x, y, func(row int, b dense.Matrix[float64]) error {
			if row != next {
				t.Fatalf("block starts at row %d, want %d", row, next)
			}
			next += b.Rows
			for i := range b.Rows {
				for j, v := range b.Row(i) {
					if v != first.At(row+i, j) {
						t.Fatalf("block element %d,%d is %v, want %v", row+i, j, v, first.At(row+i, j))
					}
				}
			}
			return nil
		}); err != nil || next != x.Rows {
			t.Fatalf("EachBlock visited %d rows of %d: %v", next, x.Rows, err)
		}
	}
}

func TestLogGram(t *testing.T) {
	x := dense.MustFromRows([][]float32{{60, 0}, {0, 60}})
	got := dense.New[float32](2, 2)
	if err := kernel.LogGram(kernel.Kernel{Kind: kernel.Softmax}, got, x, x); err != nil {
		t.Fatal(err)
	}
	if got.At(0, 0) != 3600 || got.At(0, 1) != 0 {
		t.Errorf("got %v", got.Data)
	}
	if err := kernel.LogGram(kernel.Kernel{Kind: kernel.Bessel}, got, x, x); !errors.Is(err, kernel.ErrKernel) {
		t.Errorf("Bessel: %v", err)
	}
}

// Far from the origin the product form of |u−v|² keeps no digit of a small distance; a kernel with a kink shows it.
func TestGramOfNearRows(t *testing.T) {
	x := dense.MustFromRows([][]float64{{1e4, 1e4}, {1e4, 1e4 + 1e-5}, {1e4, 1e4}})
	for _, kind := range []kernel.Kind{kernel.Laplace, kernel.Matern12, kernel.Matern32} {
		k := kernel.Kernel{Kind: kind}
		got, log := dense.New[float64](3, 3), dense.New[float64](3, 3)
		if err := errors.Join(kernel.Gram(k, got, x, x), kernel.LogGram(k, log, x, x)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			for j := range 3 {
				want, wantLog := k.Eval(x.Row(i), x.Row(j)), k.Log(x.Row(i), x.Row(j))
				if math.Abs(got.At(i, j)-want) > 1e-15 || math.Abs(log.At(i, j)-wantLog) > 1e-15 {
					t.Errorf("%v: entry %d,%d is %v, log %v, want %v, %v", kind, i, j, got.At(i, j), log.At(i, j), want,
						wantLog)
				}
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	ok := random(2, 3, 1)
	nan := random(2, 3, 1)
	nan.Set(1, 2, math.NaN())
	for _, c := range []struct {
		name string
		k    kernel.Kernel
		x, y dense.Matrix[float64]
		want error
	}{
		{"negative bandwidth", kernel.Kernel{Scale: -1}, ok, ok, kernel.ErrKernel},
		{"NaN bandwidth", kernel.Kernel{Scale: math.NaN()}, ok, ok, kernel.ErrKernel},
		{"infinite bandwidth", kernel.Kernel{Scale: math.Inf(1)}, ok, ok, kernel.ErrKernel},
		{"unknown kind", kernel.Kernel{Kind: 9}, ok, ok, kernel.ErrKernel},
		{"empty x", kernel.Kernel{}, dense.Matrix[float64]{}, ok, dense.ErrShape},
		{"columns", kernel.Kernel{}, ok, random(2, 4, 1), dense.ErrShape},
		{"matrix columns", kernel.Kernel{M: random(2, 2, 1)}, ok, ok, dense.ErrShape},
		{"NaN in y", kernel.Kernel{}, ok, nan, dense.ErrNotFinite},
	} {
		dst := dense.New[float64](2, 2)
		if err := kernel.Gram(c.k, dst, c.x, c.y); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	var where *dense.NotFiniteError
	if err := kernel.Gram(kernel.Kernel{}, dense.New[float64](2, 2), ok, nan); !errors.As(err, &where) ||
		where.Row != 1 || where.Col != 2 {
		t.Errorf("the error does not say where the NaN is: %v", err)
	}
	if err := kernel.Gram(kernel.Kernel{}, dense.New[float64](1, 2), ok, ok); !errors.Is(err, dense.ErrShape) {
		t.Errorf("small dst: %v", err)
	}
}

func TestJSON(t *testing.T) {
	k := kernel.Kernel{Kind: kernel.Softmax, Scale: 2.5, M: random(2, 3, 1)}
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var got kernel.Kernel
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != k.Kind || got.Scale != k.Scale || got.M.At(1, 2) != k.M.At(1, 2) {
		t.Errorf("%s became %+v", b, got)
	}
	for _, bad := range []string{`{"kind":"cubic"}`, `{"kind":"softmax","m":[[1],[1,2]]}`,
		`{"kind":"softmax","sigma":1}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// Values of a set with itself are those with a copy of it, to the last bit.
func TestGramOfItself(t *testing.T) {
	x := dense.New[float64](600, 7)
	rng.Normals(x.Data, rng.Stream(4))
	a, b := dense.New[float64](x.Rows, x.Rows), dense.New[float64](x.Rows, x.Rows)
	for _, kind := range kernel.Kinds() {
		k := kernel.Kernel{Kind: kind, Scale: 1.7}
		if err := errors.Join(kernel.Gram(k, a, x, x), kernel.Gram(k, b, x, x.Clone())); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Data, b.Data) {
			t.Errorf("%v differs", kind)
		}
	}
}
