package coupling_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

var structuredCouplings = []coupling.Coupling{
	coupling.Hadamard{K: 3}, coupling.Hadamard{K: 1}, coupling.Hadamard{K: 2}, coupling.Hadamard{K: 40},
	coupling.FastSimplex{K: 3}, coupling.FastSimplex{K: 1}, coupling.FastSimplex{K: 40},
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
		wide := omega.NewTransform(s, tab)
		narrow := omega.NewTransform(s, kern.Available[float32]()[k])
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

// hdProduct is (H D_1)(H D_2)…(H D_k) x, signs[i] the diagonal of D_{i+1}: a block with norms 1.
func hdProduct(signs [][]float64, x []float64) []float64 {
	n := len(x)
	y := make([]float64, n)
	s := &omega.Structured{Dim: n, N: n, Rows: n,
		Blocks: []omega.HDBlock{{Signs: signs, Norms: slices.Repeat([]float64{1}, n)}}}
	omega.NewTransform(s, kern.Reference[float64]()).Apply(y, x, make([]float64, n))
	return y
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
			y := hdProduct([][]float64{ones}, e)
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

func TestApplyPanicsOnShapes(t *testing.T) {
	o, err := coupling.Hadamard{K: 3}.Sample(4, 3, coupling.Law{}, rng.Stream(52))
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
			tr := omega.NewTransform(o.Fast, kern.Reference[float64]())
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
		tr := omega.NewTransform(o.Fast, kern.Best[float32]())
		b.Run(fmt.Sprintf("coupling=hadamard/d=%d", d), func(b *testing.B) {
			for b.Loop() {
				tr.Apply(dst, x, scratch)
			}
		})
	}
}

// Below n = 32 the default draws the rows of the exact couplings, in blocks of d; from there on, and with an explicit
// number of factors, HD products with their fast form. The rows of a seed are API, as in TestRegression.
func TestStructuredFallsBackToExactBlocks(t *testing.T) {
	sample := func(c coupling.Coupling, m, d int) coupling.Omega {
		o, err := c.Sample(m, d, coupling.Law{}, rng.Stream(1))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, c := range []struct{ fast, explicit, exact coupling.Coupling }{
		{coupling.Hadamard{}, coupling.Hadamard{K: 3}, coupling.Orthogonal{}},
		{coupling.FastSimplex{}, coupling.FastSimplex{K: 3}, coupling.Simplex{}},
	} {
		for _, d := range []int{1, 2, 3, 5, 16, 17, 32, 33, 64} {
			got, m := sample(c.fast, 2*d+1, d), 2*d+1
			want, pairs := sample(c.exact, m, d), coupling.Pairs(c.exact, d)
			if d > 16 {
				want, pairs = sample(c.explicit, m, d), coupling.Pairs(c.explicit, d)
			}
			if !slices.Equal(got.Rows.Data, want.Rows.Data) || (got.Fast != nil) != (d > 16) {
				t.Errorf("%s, d = %d: rows of the wrong kind", c.fast.Name(), d)
			}
			if p := coupling.Pairs(c.fast, d); p != pairs {
				t.Errorf("%s, d = %d: pair law %+v, want %+v", c.fast.Name(), d, p, pairs)
			}
			if sample(c.explicit, m, d).Fast == nil {
				t.Errorf("%+v, d = %d: no fast form", c.explicit, d)
			}
		}
	}
	for _, c := range []struct {
		c    coupling.Coupling
		d    int
		want [2]float64
	}{
		{coupling.Hadamard{K: 3}, 3, [2]float64{0.786605811919, -0.786467322069}},
		{coupling.FastSimplex{K: 3}, 3, [2]float64{0.454147077258, -0.454067120105}},
	} {
		o := sample(c.c, 5, c.d)
		got := [2]float64{o.Rows.At(0, 0), o.Rows.At(4, 2)}
		if math.Abs(got[0]-c.want[0])+math.Abs(got[1]-c.want[1]) > 1e-5 {
			t.Errorf("%+v: {%.12g, %.12g},", c.c, got[0], got[1])
		}
	}
}
