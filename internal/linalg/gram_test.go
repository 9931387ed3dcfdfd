package linalg

import (
	"fmt"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

func TestGram(t *testing.T) {
	tab := kern.Best[float64]()
	for _, f := range []int{1, 192, 193, 300, 600} {
		x := random(4, 77, f)
		whole, parts := dense.New[float64](f, f), dense.New[float64](f, f)
		var g Gram[float64]
		g.Add(tab, whole, x)
		g.Add(tab, parts, x.RowRange(0, 13))
		g.Add(tab, parts, x.RowRange(13, 77))
		var want mat.Dense
		want.Mul(gonum(x).T(), gonum(x))
		for i := range f {
			for j := i; j < f; j++ {
				near(t, "aᵀa", whole.At(i, j), want.At(i, j), 1e-12)
				if whole.At(i, j) != parts.At(i, j) {
					t.Fatal("bits depend on the division into calls")
				}
			}
		}
	}
}

func BenchmarkGram(b *testing.B) {
	benchGram[float32](b, "float32")
	benchGram[float64](b, "float64")
}

// benchGram counts the multiply-adds of the upper triangle.
func benchGram[T dense.Float](b *testing.B, typ string) {
	tab := kern.Best[T]()
	for _, c := range [][2]int{{1024, 256}, {1024, 1024}, {1024, 2048}} {
		n, f := c[0], c[1]
		b.Run(fmt.Sprintf("T=%s/n=%d/F=%d", typ, n, f), func(b *testing.B) {
			a, dst := dense.Convert[T](random(1, n, f)), dense.New[T](f, f)
			var g Gram[T]
			for b.Loop() {
				g.Add(tab, dst, a)
			}
			b.ReportMetric(float64(n)*float64(f)*float64(f+1)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// The parts of a triangle are dealt once each, whatever the workers; most of them as whole tiles, which fetch every
// column once for all four parts, and enough alone that sixteen workers end together.
func TestGramDeal(t *testing.T) {
	for _, n := range []int{1, 48, 191, 192, 193, 700, 2048} {
		for _, workers := range []int{1, 2, 16, 200} {
			d := dealGram(n, workers)
			dealt := make([]int, n*n)
			fetched, alone := 0, 0 // columns
			for item := range d.items() {
				p, end := d.parts(item)
				rows, cols := gramPart(p, end, n)
				for i := rows[0]; i < rows[1]; i++ {
					for j := cols[0]; j < cols[1]; j++ {
						dealt[i*n+j]++
					}
				}
				if rows[0] < rows[1] {
					fetched += rows[1] - rows[0] + cols[1] - cols[0]
				}
				if end == p+1 {
					alone++
				}
			}
			for i := range n {
				for j := i; j < n; j++ {
					if dealt[i*n+j] != 1 {
						t.Fatalf("%d columns, %d workers: %d,%d is dealt %d times", n, workers, i, j, dealt[i*n+j])
					}
				}
			}
			if n == 2048 && workers == 16 && (fetched > 36_000 || alone < 3*workers) {
				t.Errorf("%d columns fetched for %d, where parts alone fetch 60 thousand; %d parts alone", fetched, n,
					alone)
			}
		}
	}
}

// Products of wide matrices come in tiles, with the bits of one product.
func TestAddProductOfWideMatrices(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	a, b := random(1, 5, 2*sideBytes/8+70), random(2, 5, 2*sideBytes/8+3)
	tab := kern.Best[float64]()
	got, want := random(3, a.Cols, b.Cols), random(3, a.Cols, b.Cols)
	AddProduct(tab, got, a, b)
	tab.TMul(want, a, b)
	for i, v := range want.Data {
		if got.Data[i] != v {
			t.Fatalf("element %d,%d is %v, want %v", i/b.Cols, i%b.Cols, got.Data[i], v)
		}
	}
}
