package kern

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func TestVectorOperations(t *testing.T) {
	t.Run("float32", func(t *testing.T) { vectorOperations[float32](t) })
	t.Run("float64", func(t *testing.T) { vectorOperations[float64](t) })
}

// Products must equal the reference bit for bit, and sums of squares to a few roundings of float64, at every length and
// misalignment, without touching what lies beside the slice.
func vectorOperations[T dense.Float](t *testing.T) {
	ref := Reference[T]()
	values := []T{1.5, -0.25, 3e-5, 7, T(math.Inf(1)), T(math.NaN()), 0, T(math.Copysign(0, -1)), 1e-38, -2e30, 0.1}
	for _, tab := range Available[T]() {
		for n := range 70 {
			for off := range 3 {
				make3 := func() (a, b []T) {
					for i := range n + off + 2 {
						a, b = append(a, values[(3*i+n)%len(values)]), append(b, values[(5*i+off)%len(values)])
					}
					return a, b
				}
				check := func(what string, run func(tab *Table[T], a, b []T)) {
					got, gb := make3()
					want, wb := make3()
					run(tab, got[off:off+n], gb[off:off+n])
					run(ref, want[off:off+n], wb[off:off+n])
					for i := range got {
						if math.Float64bits(float64(got[i])) != math.Float64bits(float64(want[i])) &&
							!(got[i] != got[i] && want[i] != want[i]) {
							t.Fatalf("%s %s, n = %d, offset %d: element %d is %v, want %v", tab.Name, what, n, off,
								i-off, got[i], want[i])
						}
					}
				}
				check("mul", func(tab *Table[T], a, b []T) { tab.Mul(a, b) })
				check("scale", func(tab *Table[T], a, _ []T) { tab.Scale(a, -0.7) })
				check("mulAdd", func(tab *Table[T], a, b []T) { tab.MulAdd(a, b, -0.7) })
				for _, rows := range []int{0, 1, 5} {
					check("absSums", func(tab *Table[T], a, b []T) {
						wide := dense.Matrix[T]{Rows: rows, Cols: n, Stride: n + 3, Data: make([]T, rows*(n+3))}
						for i := range wide.Data {
							wide.Data[i] = values[(7*i+off)%len(values)]
						}
						tab.AbsSums(a, wide, values[off:off+rows])
					})
				}
				check("widen and narrow", func(tab *Table[T], a, b []T) {
					wide := make([]float64, n+2)
					for i := range wide {
						wide[i] = float64(i) - 3.3
					}
					tab.Widen(wide[1:n+1], b, 0.3)
					if wide[0] != -3.3 || wide[n+1] != float64(n+1)-3.3 {
						t.Fatalf("%s widen, n = %d: wrote beside the slice", tab.Name, n)
					}
					tab.Narrow(a, wide[1:n+1], 1.7)
				})
				x := make([]T, n+off)
				var want float64
				for i := range x[off:] {
					x[off+i] = T(i%13) - 6.1
					want += float64(x[off+i]) * float64(x[off+i])
				}
				if got := tab.Norm2(x[off:]); math.Abs(got-want) > 1e-14*want {
					t.Fatalf("%s norm2, n = %d: %v, want %v", tab.Name, n, got, want)
				}
				if n > 0 {
					x[off+n/2] = T(math.NaN())
					if got := tab.Norm2(x[off:]); !math.IsNaN(got) {
						t.Fatalf("%s norm2 loses a NaN: %v", tab.Name, got)
					}
				}
			}
		}
		for _, rows := range []int{0, 1, 2, 5, 3000} {
			for _, cols := range []int{0, 1, 15, 16, 17, 32, 47, 64} {
				a := dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols + 3, Data: make([]T, rows*(cols+3))}
				for i := range a.Data {
					a.Data[i] = T(i%13) - 6.1
				}
				got := make([]float64, rows+1)
				got[rows] = 7
				tab.Norms(got[:rows], a)
				for i := range rows {
					if want := tab.Norm2(a.Row(i)); got[i] != want {
						t.Fatalf("%s norms, %d×%d: row %d has %v, norm2 says %v", tab.Name, rows, cols, i, got[i], want)
					}
				}
				if got[rows] != 7 {
					t.Fatalf("%s norms, %d×%d writes beyond its rows", tab.Name, rows, cols)
				}
			}
		}
		long := dense.New[T](2, 1<<15+20)
		long.Set(1, 1<<15+19, 3)
		square := make([]float64, 2)
		if tab.Norms(square, long); square[0] != 0 || square[1] != 9 {
			t.Errorf("%s norms of long rows: %v", tab.Name, square)
		}
		big := make([]T, 5*(1<<15)+3)
		for i := range big {
			big[i] = 1
		}
		if got := tab.Norm2(big); got != float64(len(big)) {
			t.Errorf("%s norm2 of %d ones: %v", tab.Name, len(big), got)
		}
		square = make([]float64, 100)
		if a := testing.AllocsPerRun(10, func() {
			tab.Norm2(big)
			tab.Norms(square, dense.Matrix[T]{Rows: 100, Cols: 300, Stride: 301, Data: big})
			tab.Scale(big, 1)
			tab.Mul(big, big)
			tab.MulAdd(big, big, 0)
		}); a > 0 {
			t.Errorf("%s: %v allocations", tab.Name, a)
		}
	}
}
