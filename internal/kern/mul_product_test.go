package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// chainProduct is the order of operations that every assembly table promises for Product, to the bit: zero or dst, then
// multiply-adds in the order of the inputs.
func chainProduct[T dense.Float](dst, x, s dense.Matrix[T], add bool) dense.Matrix[T] {
	out := dense.New[T](x.Rows, s.Cols)
	for i := range x.Rows {
		for j := range s.Cols {
			var v T
			if add {
				v = dst.At(i, j)
			}
			for k := range x.Cols {
				v = fma(x.At(i, k), s.At(k, j), v)
			}
			out.Set(i, j, v)
		}
	}
	return out
}

// wideShapes take the way of rows that lie pages apart, with one and several blocks of inputs and of columns.
func wideShapes() []productCase {
	return []productCase{{67, 20, 530, 0, 0}, {40, 600, 513, 1, 3}, {33, 130, 1100, 0, 1}}
}

func TestProduct(t *testing.T) { each(t, checkProduct[float32], checkProduct[float64]) }

func checkProduct[T dense.Float](t *testing.T, tab *Table[T]) {
	chains := tab.Name != Reference[T]().Name // the reference leaves the fusing to the compiler
	r := rand.New(rand.NewPCG(31, 32))
	nan := T(math.NaN())
	cases := append(edgeShapes(tab.Width), blockedShapes()[2], wideShapes()[0])
	if stattest.Full() {
		cases = append(append(cases, blockedShapes()...), wideShapes()...)
	}
	for trial, c := range cases {
		x, s := view(c.n, c.d, c.shift, c.pad, nan), view(c.d, c.m, (c.shift+5)%16, c.pad, nan)
		fillNormal(x, r)
		fillNormal(s, r)
		start := view(c.n, c.m, c.shift, c.pad, T(guard))
		fillNormal(start, r)
		for _, add := range []bool{trial%2 == 0, trial%2 != 0} {
			dst := view(c.n, c.m, c.shift, c.pad, T(guard))
			for i := range c.n {
				copy(dst.Row(i), start.Row(i))
			}
			tab.Product(dst, x, s, add)
			checkGuards(t, dst, c.shift)
			what := fmt.Sprintf("%+v, add %v", c, add)
			if chains {
				checkSame(t, what, dst, chainProduct(start, x, s, add))
				continue
			}
			for i := range c.n {
				for j, v := range dst.Row(i) {
					var want, size float64
					if add {
						want = float64(start.At(i, j))
						size = math.Abs(want)
					}
					for k := range c.d {
						p := float64(x.At(i, k)) * float64(s.At(k, j))
						want += p
						size += math.Abs(p)
					}
					// The bound of TestProductsMatchReference.
					if bound := 2 * float64(c.d+2) * epsilon[T]() * size; !(math.Abs(float64(v)-want) <= bound) {
						t.Fatalf("%s: row %d, column %d is %v, want %v (bound %.2g)", what, i, j, v, want, bound)
					}
				}
			}
		}
	}
}

// A row has the same bits alone, in any batch and at any place in it; a sum over parts of the inputs, in order, has
// those of the whole.
func TestProductIgnoresBatching(t *testing.T) {
	each(t, checkProductBatching[float32], checkProductBatching[float64])
}

func checkProductBatching[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, c := range []productCase{{41, 64, 77, 1, 0}, {29, 530, 64, 0, 3}, {65, 40, 1030, 0, 0}} {
		x, s := view(c.n, c.d, c.shift, c.pad, T(guard)), view(c.d, c.m, 0, 0, T(guard))
		fillNormal(x, r)
		fillNormal(s, r)
		whole, parts := dense.New[T](c.n, c.m), dense.New[T](c.n, c.m)
		tab.Product(whole, x, s, false)
		for size := 1; size <= 20; size++ {
			for lo := 0; lo < c.n; lo += size {
				hi := min(lo+size, c.n)
				tab.Product(parts.RowRange(lo, hi), x.RowRange(lo, hi), s, false)
			}
			checkSame(t, fmt.Sprintf("%+v by %d rows", c, size), parts, whole)
			for lo := 0; lo < c.d; lo += size {
				hi := min(lo+size, c.d)
				tab.Product(parts, x.ColRange(lo, hi), s.RowRange(lo, hi), lo > 0)
			}
			checkSame(t, fmt.Sprintf("%+v by %d inputs", c, size), parts, whole)
		}
	}
}

// BenchmarkProduct has the shapes of linear attention: features times state, and the causal triangle times values.
func BenchmarkProduct(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchProduct(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchProduct(b, "float64", tab)
	}
}

func benchProduct[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	peak := peakRate(tab)
	for _, c := range [][3]int{{1, 256, 64}, {64, 16, 64}, {64, 64, 64}, {128, 128, 64}, {128, 256, 64},
		{128, 256, 1024}} {
		n, d, m := c[0], c[1], c[2]
		b.Run(fmt.Sprintf("table=%s/T=%s/n=%d/d=%d/m=%d", tab.Name, typ, n, d, m), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			x, s, dst := dense.New[T](n, d), dense.New[T](d, m), dense.New[T](n, m)
			fillNormal(x, r)
			fillNormal(s, r)
			timeProduct(b, 2*float64(n)*float64(d)*float64(m), peak, func() { tab.Product(dst, x, s, false) })
		})
	}
}
