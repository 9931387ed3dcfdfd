package coupling_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/rng"
)

var structuredCouplings = []coupling.Coupling{
	coupling.Hadamard{}, coupling.Hadamard{K: 1}, coupling.Hadamard{K: 2}, coupling.Hadamard{K: 40},
	coupling.FastSimplex{}, coupling.FastSimplex{K: 1}, coupling.FastSimplex{K: 40},
}

// Apply equals the dense rows, for all paddings and cuts, without allocation.
func TestFastEqualsDense(t *testing.T) {
	for _, c := range structuredCouplings {
		for _, d := range []int{1, 2, 3, 5, 8, 16, 33, 64, 100} {
			for _, m := range []int{1, d, 2*d + 1, 300} {
				o, err := c.Sample(m, d, coupling.Law{}, rng.Stream(50, uint64(d), uint64(m)))
				if err != nil {
					t.Fatal(err)
				}
				checkFast(t, fmt.Sprintf("%+v, d=%d, m=%d", c, d, m), o)
			}
		}
	}
}

func checkFast(t *testing.T, name string, o coupling.Omega) {
	t.Helper()
	s := o.Fast
	if s == nil || s.Rows != o.Rows.Rows || s.Dim != o.Rows.Cols {
		t.Fatalf("%s: bad Fast %+v", name, s)
	}
	x := make([]float64, s.Dim)
	rng.Normals(x, rng.Stream(51))
	x32 := make([]float32, s.Dim)
	for i, v := range x {
		x32[i] = float32(v)
	}
	dst, scratch := make([]float64, s.Rows), make([]float64, s.N)
	dst32, scratch32 := make([]float32, s.Rows), make([]float32, s.N+3)
	for i := range dst {
		dst[i] = math.NaN() // must be overwritten
	}
	for k, tab := range kern.Available[float64]() {
		wide := coupling.NewTransform(s, tab)
		narrow := coupling.NewTransform(s, kern.Available[float32]()[k])
		allocs := testing.AllocsPerRun(1, func() {
			wide.Apply(dst, x, scratch)
			narrow.Apply(dst32, x32, scratch32)
		})
		if allocs != 0 {
			t.Errorf("%s, %s: %v allocations", name, tab.Name, allocs)
		}
		for i := range dst {
			row := o.Rows.Row(i)
			want := dense.Dot(row, x)
			size := math.Sqrt(dense.Norm2(row) * dense.Norm2(x))
			if !(math.Abs(dst[i]-want) <= 1e-12*(1+size)) {
				t.Fatalf("%s, %s: row %d: fast %v, dense %v", name, tab.Name, i, dst[i], want)
			}
			if !(math.Abs(float64(dst32[i])-want) <= 1e-4*(1+size)) {
				t.Fatalf("%s, %s: row %d: float32 %v, dense %v", name, tab.Name, i, dst32[i], want)
			}
		}
	}
}

// The transform agrees with the definition H_{2n} = [[H, H], [H, −H]]/√2, for odd and even powers of two.
func TestHDProductIsSylvester(t *testing.T) {
	h := [][]float64{{1}}
	for n := 1; n <= 64; n *= 2 {
		ones := make([]float64, n)
		for i := range ones {
			ones[i] = 1
		}
		for j := range n {
			e := make([]float64, n)
			e[j] = 1
			y, err := coupling.HDProduct([][]float64{ones}, e, n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if math.Abs(y[i]-h[i][j]) > 1e-15 {
					t.Fatalf("n=%d: H[%d][%d] = %v, want %v", n, i, j, y[i], h[i][j])
				}
			}
		}
		next := make([][]float64, 2*n)
		for i := range next {
			next[i] = make([]float64, 2*n)
			for j := range next[i] {
				next[i][j] = h[i%n][j%n] / math.Sqrt2
				if i >= n && j >= n {
					next[i][j] = -next[i][j]
				}
			}
		}
		h = next
	}
}

func TestHDProductErrors(t *testing.T) {
	one := []float64{1, 1}
	for _, c := range []struct {
		signs [][]float64
		x     []float64
		n     int
	}{
		{nil, nil, 0}, {nil, nil, 3}, {nil, nil, -4},
		{nil, []float64{1, 2, 3}, 2},
		{[][]float64{one, {1}}, one, 2},
	} {
		if _, err := coupling.HDProduct(c.signs, c.x, c.n); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestApplyPanicsOnShapes(t *testing.T) {
	o, err := coupling.Hadamard{}.Sample(4, 3, coupling.Law{}, rng.Stream(52))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]int{{3, 3, 4}, {4, 4, 4}, {4, 3, 3}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("lengths %v accepted", c)
				}
			}()
			tr := coupling.NewTransform(o.Fast, kern.Reference[float64]())
			tr.Apply(make([]float64, c[0]), make([]float64, c[1]), make([]float64, c[2]))
		}()
	}
}

func BenchmarkApply(b *testing.B) {
	for _, d := range []int{64, 256, 1024} {
		o, err := coupling.Hadamard{}.Sample(d, d, coupling.Law{}, rng.Stream(53))
		if err != nil {
			b.Fatal(err)
		}
		x, dst, scratch := make([]float32, d), make([]float32, d), make([]float32, d)
		tr := coupling.NewTransform(o.Fast, kern.Best[float32]())
		b.Run(fmt.Sprintf("coupling=hadamard/d=%d", d), func(b *testing.B) {
			for b.Loop() {
				tr.Apply(dst, x, scratch)
			}
		})
	}
}
