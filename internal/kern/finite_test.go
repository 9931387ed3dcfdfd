package kern

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func TestFinite(t *testing.T) {
	testFinite[float32](t)
	testFinite[float64](t)
}

func testFinite[T dense.Float](t *testing.T) {
	for _, tab := range Available[T]() {
		for _, n := range []int{0, 1, 3, 255, 256, 257, finiteCols * finiteRows, finiteCols*finiteRows + 300} {
			x := make([]T, n)
			for i := range x {
				x[i] = T(math.MaxFloat32) * T(1-2*(i%2))
			}
			if !tab.Finite(x) {
				t.Errorf("%s: %d large numbers are not finite", tab.Name, n)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				for _, at := range []int{0, n / 2, n - 1} {
					if n == 0 {
						continue
					}
					was := x[at]
					x[at] = T(bad)
					if tab.Finite(x) {
						t.Errorf("%s: %v at %d of %d is finite", tab.Name, bad, at, n)
					}
					x[at] = was
				}
			}
		}
	}
}
