package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// mulThenExp is the definition of MulTExp, to the bit, so its error in ulp is that of Exp.
func mulThenExp[T dense.Float](tab *Table[T], dst, x dense.Matrix[T], p *Panel[T], bias, shift []T) {
	tab.MulT(dst, x, p, bias)
	for i := range dst.Rows {
		tab.Exp(dst.Row(i), shift[i])
	}
}

func TestMulTExp(t *testing.T) { each(t, checkMulTExp[float32], checkMulTExp[float64]) }

func checkMulTExp[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(21, 22))
	limit := 87.0 // where results leave the normal range, about
	if epsilon[T]() < 0x1p-40 {
		limit = 708
	}
	cases := append(edgeShapes(tab.Width), blockedShapes()[2])
	if stattest.Full() {
		cases = append(cases, blockedShapes()...)
	}
	for n := 1; n <= 17; n++ { // every height of a tile, with every kind of columns
		for _, m := range []int{1, tab.Width/2 + 1, 4*tab.Width + 3, 8 * tab.Width} {
			cases = append(cases, productCase{n, 5, m, n % 3, m % 2})
		}
	}
	cases = append(cases, productCase{30, 3, 1500, 1, 2}) // more outputs of some rows than one call of Exp takes
	var p Panel[T]
	for trial, c := range cases {
		x, w := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.m, c.d, 0, 0, T(guard))
		fillNormal(x, r)
		fillNormal(w, r)
		tab.Pack(&p, w)
		bias, shift := make([]T, c.m), make([]T, c.n)
		for j := range bias {
			bias[j] = T(r.NormFloat64())
		}
		if trial%3 == 0 {
			bias = nil
		}
		// Arguments in the middle, at both ends of the range of results, and both in neighbouring rows.
		for round, at := range []float64{0, limit, -limit, 1.19 * limit, 1e30} {
			for i := range shift {
				shift[i] = T(at + r.NormFloat64())
				if round > 0 && r.IntN(3) == 0 {
					shift[i] = T(r.NormFloat64())
				}
			}
			got, want := view(c.n, c.m, c.shift, c.pad, T(guard)), dense.New[T](c.n, c.m)
			tab.MulTExp(got, x, &p, bias, shift)
			mulThenExp(tab, want, x, &p, bias, shift)
			checkSame(t, fmt.Sprintf("%+v, shift %v", c, at), got, want)
			checkGuards(t, got, c.shift)
		}
	}
}

// Every class of argument anywhere in a tile, among harmless ones.
func TestMulTExpSpecialValues(t *testing.T) {
	each(t, checkMulTExpSpecial[float32], checkMulTExpSpecial[float64])
}

func checkMulTExpSpecial[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(23, 24))
	inf := math.Inf(1)
	special := []float64{math.NaN(), inf, -inf, 0, math.Copysign(0, -1), tiny[T](), -1000 * tiny[T](), 87, -87, 88.8,
		88.7, -87.4, -95, -103.9, -104,
		708, -708, 709.7, 709.8, -708.5, -730, -745, -746, 1e6, -1e6, 1e30, -1e30}
	var p Panel[T]
	for trial := range 400 {
		n, d, m := 1+r.IntN(20), 1+r.IntN(3), 1+r.IntN(4*tab.Width+5)
		x, w := dense.New[T](n, d), dense.New[T](m, d)
		fillNormal(x, r)
		fillNormal(w, r)
		bias, shift := make([]T, m), make([]T, n)
		for range 1 + r.IntN(3) {
			v := T(special[r.IntN(len(special))])
			switch r.IntN(4) {
			case 0:
				bias[r.IntN(m)] = v
			case 1:
				shift[r.IntN(n)] = v
			case 2:
				x.Data[r.IntN(len(x.Data))] = v
			case 3: // one argument is v itself
				clear(x.Row(r.IntN(n)))
				bias[r.IntN(m)] = v
			}
		}
		tab.Pack(&p, w)
		got, want := dense.New[T](n, m), dense.New[T](n, m)
		tab.MulTExp(got, x, &p, bias, shift)
		mulThenExp(tab, want, x, &p, bias, shift)
		checkSame(t, fmt.Sprintf("trial %d, %d×%d×%d", trial, n, d, m), got, want)
		for i := range n {
			for j, v := range got.Row(i) {
				if v < 0 {
					t.Fatalf("trial %d: exp is %v at %d, %d", trial, v, i, j)
				}
			}
		}
	}

	// Without inputs what is left is exp(bias − shift); −Inf gives exactly 0, +Inf stays.
	p = Panel[T]{}
	tab.Pack(&p, dense.New[T](3, 0))
	dst := dense.New[T](2, 3)
	tab.MulTExp(dst, dense.New[T](2, 0), &p, []T{0, T(-inf), T(inf)}, []T{0, 1e9})
	for k, want := range []T{1, 0, T(inf), 0, 0, T(inf)} {
		if !same(dst.Data[k], want) {
			t.Errorf("element %d is %v, want %v", k, dst.Data[k], want)
		}
	}
	tab.MulTExp(dense.Matrix[T]{}, dense.Matrix[T]{}, &Panel[T]{Width: tab.Width}, nil, nil)
}

// A row has the same bits alone, in any batch and at any place in it, whether its neighbours take the careful way or
// not.
func TestMulTExpIgnoresBatching(t *testing.T) {
	each(t, checkMulTExpBatching[float32], checkMulTExpBatching[float64])
}

func checkMulTExpBatching[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(25, 26))
	var p Panel[T]
	for _, c := range []productCase{{41, 64, 77, 1, 0}, {29, 700, 300, 0, 3}} {
		x, w := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.m, c.d, 0, 0, T(guard))
		fillNormal(x, r)
		fillNormal(w, r)
		shift := make([]T, c.n)
		for i := range shift {
			shift[i] = T(r.NormFloat64() * 60)
		}
		tab.Pack(&p, w)
		whole, parts := dense.New[T](c.n, c.m), dense.New[T](c.n, c.m)
		tab.MulTExp(whole, x, &p, nil, shift)
		for size := 1; size <= 20; size++ {
			for lo := 0; lo < c.n; lo += size {
				hi := min(lo+size, c.n)
				tab.MulTExp(parts.RowRange(lo, hi), x.RowRange(lo, hi), &p, nil, shift[lo:hi])
			}
			checkSame(t, fmt.Sprintf("MulTExp by %d", size), parts, whole)
		}
	}
}

// BenchmarkMulTExp counts the operations of the product alone: compare with BenchmarkMulT. way=apart is MulT, then Exp;
// range=careful has every tenth row below the normal range.
func BenchmarkMulTExp(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchMulTExp(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchMulTExp(b, "float64", tab)
	}
}

func benchMulTExp[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	low := T(98)
	if typ == "float64" {
		low = 739
	}
	peak := peakRate(tab)
	for _, c := range [][3]int{{1, 64, 256}, {16, 64, 256}, {16, 64, 1024}, {4096, 16, 256}, {4096, 64, 65},
		{4096, 64, 256}, {4096, 64, 1024}, {512, 1024, 1024}} {
		n, d, m := c[0], c[1], c[2]
		r := rand.New(rand.NewPCG(1, 1))
		x, w := dense.New[T](n, d), dense.New[T](m, d)
		fillNormal(x, r)
		fillNormal(w, r)
		for i := range w.Data {
			w.Data[i] *= T(1 / math.Sqrt(float64(d)))
		}
		dst, bias, shift := dense.New[T](n, m), make([]T, m), make([]T, n)
		var p Panel[T]
		tab.Pack(&p, w)
		flops := 2 * float64(n) * float64(d) * float64(m)
		name := fmt.Sprintf("table=%s/T=%s/n=%d/d=%d/m=%d", tab.Name, typ, n, d, m)
		b.Run(name+"/way=product", func(b *testing.B) {
			timeProduct(b, flops, peak, func() { tab.MulT(dst, x, &p, bias) })
		})
		b.Run(name+"/way=fused", func(b *testing.B) {
			timeProduct(b, flops, peak, func() { tab.MulTExp(dst, x, &p, bias, shift) })
		})
		b.Run(name+"/way=apart", func(b *testing.B) {
			timeProduct(b, flops, peak, func() { productThenExp(tab, dst, x, &p, bias, shift) })
		})
		for i := 0; i < n; i += 10 {
			shift[i] = low
		}
		b.Run(name+"/way=fused/range=careful", func(b *testing.B) {
			timeProduct(b, flops, peak, func() { tab.MulTExp(dst, x, &p, bias, shift) })
		})
	}
}
