package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func TestAddGram(t *testing.T) {
	for _, tab := range append(Available[float32](), Reference[float32]()) {
		testAddGram(t, tab)
	}
	for _, tab := range append(Available[float64](), Reference[float64]()) {
		testAddGram(t, tab)
	}
}

// Parts on and above the diagonal have the bits of TMul, on both sides of every tile, panel and block.
func testAddGram[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(3, 1))
	var c Columns[T]
	for _, size := range [][2]int{{0, 5}, {1, 1}, {3, 7}, {5, 33}, {255, 16}, {256, 40}, {257, 191}, {513, 193},
		{9, 400}} {
		a := dense.New[T](size[0], size[1]+3).ColRange(1, 1+size[1])
		fillNormal(a, r)
		got := dense.New[T](size[1], size[1]+1).ColRange(0, size[1])
		fillNormal(got, r)
		want := got.Clone()
		tab.TMul(want, a, a)
		c.Reset(tab, size[0], size[1])
		for lo := 0; lo < size[0]; lo += 100 {
			c.Pack(lo, a.RowRange(lo, min(lo+100, size[0])))
		}
		checkStripes(t, tab.Name, &c, a)
		for j := 0; j < size[1]; j += ColumnUnit {
			for i := 0; i < min(j+ColumnUnit, size[1]); i += ColumnStep {
				tab.AddGram(got, &c, i, min(i+ColumnStep, size[1]), j, min(j+ColumnUnit, size[1]))
			}
		}
		for i := range size[1] {
			for j := i; j < size[1]; j++ {
				if math.Float64bits(float64(got.At(i, j))) != math.Float64bits(float64(want.At(i, j))) {
					t.Fatalf("%s %T %d×%d: [%d,%d] is %v, TMul gives %v", tab.Name, got.At(i, j), size[0], size[1], i,
						j, got.At(i, j), want.At(i, j))
				}
			}
		}
	}
}

// Stripes have every element once, in its place.
func checkStripes[T dense.Float](t *testing.T, name string, c *Columns[T], a dense.Matrix[T]) {
	t.Helper()
	seen := 0
	for s := range c.Stripes() {
		for first := 0; ; {
			lo, m := c.Stripe(s, first, 70)
			if m.Rows == 0 {
				break
			}
			for i := range m.Rows {
				for j, v := range m.Row(i) {
					if v != a.At(first+i, lo+j) {
						t.Fatalf("%s: stripe %d of %d×%d has %v at %d,%d", name, s, a.Rows, a.Cols, v, first+i, lo+j)
					}
					seen++
				}
			}
			first += m.Rows
		}
	}
	if seen != a.Rows*a.Cols {
		t.Fatalf("%s: stripes of %d×%d have %d elements", name, a.Rows, a.Cols, seen)
	}
}

func TestAddGramPanicsOnShapes(t *testing.T) {
	for _, tab := range Available[float64]() {
		var c Columns[float64]
		c.Reset(tab, 4, 300)
		for name, f := range map[string]func(){
			"part of a row":   func() { c.Pack(0, dense.New[float64](1, 299)) },
			"past the end":    func() { c.Pack(1, dense.New[float64](4, 300)) },
			"other dst":       func() { tab.AddGram(dense.New[float64](300, 299), &c, 0, 192, 0, 192) },
			"rows of a unit":  func() { tab.AddGram(dense.New[float64](300, 300), &c, 6, 192, 0, 192) },
			"broken matrix":   func() { c.Pack(0, dense.Matrix[float64]{Rows: 1, Cols: 300, Stride: 300}) },
			"columns at last": func() { tab.AddGram(dense.New[float64](300, 300), &c, 0, 192, 192, 301) },
		} {
			if recovered(f) == nil {
				t.Errorf("%s: %s: no panic", tab.Name, name)
			}
		}
	}
}

func recovered(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

func BenchmarkAddGram(b *testing.B) {
	for _, tab := range Available[float32]() {
		benchAddGram(b, "float32", tab)
	}
	for _, tab := range Available[float64]() {
		benchAddGram(b, "float64", tab)
	}
}

// benchAddGram counts the operations of the upper triangle; packing is part of the time.
func benchAddGram[T dense.Float](b *testing.B, typ string, tab *Table[T]) {
	const n, f = 1024, 768
	b.Run(fmt.Sprintf("table=%s/T=%s/n=%d/F=%d", tab.Name, typ, n, f), func(b *testing.B) {
		a, dst := dense.New[T](n, f), dense.New[T](f, f)
		fillNormal(a, rand.New(rand.NewPCG(1, 1)))
		var c Columns[T]
		timeProduct(b, n*f*(f+1), peakRate(tab), func() {
			c.Reset(tab, n, f)
			c.Pack(0, a)
			tab.AddGram(dst, &c, 0, f, 0, f)
		})
	})
}
