package kern

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

// The relative error of long float32 sums must not grow with their length: measured up to 10⁷ rows of positive terms,
// where a plain float32 sum has lost the third digit or more.
func TestAccumulatorErrorGrowth(t *testing.T) {
	lengths := []int{1e3, 1e5, 1e7}
	if !stattest.Full() {
		lengths = lengths[:2]
	}
	const block, m, n = 1000, 2, 2
	a, b := dense.New[float32](block, m), dense.New[float32](block, n)
	var exact [m * n]float64 // of one block
	for i := range block {
		for j := range m {
			a.Set(i, j, float32(1+math.Sin(float64(3*i+j))/2))
			b.Set(i, j, float32(1+math.Cos(float64(5*i+2*j))/2))
		}
		for j := range m {
			for k := range n {
				exact[j*n+k] += float64(a.At(i, j)) * float64(b.At(i, k))
			}
		}
	}
	for _, tab := range Available[float32]() {
		for _, rows := range lengths {
			s := NewAccumulator(tab, m, n)
			plain := dense.New[float32](m, n)
			for range rows / block {
				s.Add(a, b)
				tab.TMul(plain, a, b)
			}
			worst, naive := 0.0, 0.0
			for i, v := range s.Sum().Data {
				want := exact[i] * float64(rows/block)
				worst = max(worst, math.Abs(v/want-1))
				naive = max(naive, math.Abs(float64(plain.Data[i])/want-1))
			}
			t.Logf("%s: %d rows, relative error %.1e (one float32 sum: %.1e)", tab.Name, rows, worst, naive)
			if worst > 1e-5 {
				t.Errorf("%s: relative error %.1e after %d rows", tab.Name, worst, rows)
			}
			if rows == 1e7 && tab.Name == "go" && naive < 1e-4 {
				t.Errorf("the test has no power: a plain sum has error %.1e", naive)
			}
		}
	}
}
