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
						if math.Float64bits(float64(got[i])) != math.Float64bits(float64(want[i])) && !(got[i] != got[i] && want[i] != want[i]) {
							t.Fatalf("%s %s, n = %d, offset %d: element %d is %v, want %v", tab.Name, what, n, off, i-off, got[i], want[i])
						}
					}
				}
				check("mul", func(tab *Table[T], a, b []T) { tab.Mul(a, b) })
				check("scale", func(tab *Table[T], a, _ []T) { tab.Scale(a, -0.7) })
				check("mulAdd", func(tab *Table[T], a, b []T) { tab.MulAdd(a, b, -0.7) })
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
		big := make([]T, 5*(1<<15)+3)
		for i := range big {
			big[i] = 1
		}
		if got := tab.Norm2(big); got != float64(len(big)) {
			t.Errorf("%s norm2 of %d ones: %v", tab.Name, len(big), got)
		}
		if a := testing.AllocsPerRun(10, func() { tab.Norm2(big); tab.Scale(big, 1); tab.Mul(big, big); tab.MulAdd(big, big, 0) }); a > 0 {
			t.Errorf("%s: %v allocations", tab.Name, a)
		}
	}
}
