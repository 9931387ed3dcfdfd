package mapflags

import (
	"math"
	"testing"
)

// A sample of pairs visits both sets evenly, also when their sizes have a common period.
func TestPairSample(t *testing.T) {
	for _, c := range [][3]int{{3, 5, 64}, {64, 64, 64}, {1024, 1024, 1024}, {1000, 7, 512}, {1, 100000, 256},
		{100000, 1, 256}} {
		s := NewPairSample(c[0], c[1], c[2])
		if s.N != min(c[0]*c[1], c[2]) {
			t.Errorf("%v: %d pairs", c, s.N)
		}
		// A tenth of either set gets about a tenth of the pairs.
		var rows, cols [10]int
		seen := map[[2]int]bool{}
		for k := range s.N {
			i, j := s.At(k)
			rows[i*10/c[0]]++
			cols[j*10/c[1]]++
			seen[[2]int{i, j}] = true
		}
		for part := range 10 {
			if c[0] >= 10 && math.Abs(float64(rows[part])-float64(s.N)/10) > 0.02*float64(s.N) {
				t.Errorf("%v: rows %v", c, rows)
				break
			}
			if c[1] >= 10 && math.Abs(float64(cols[part])-float64(s.N)/10) > 0.03*float64(s.N) {
				t.Errorf("%v: columns %v", c, cols)
				break
			}
		}
		if len(seen) < s.N*9/10 {
			t.Errorf("%v: only %d different pairs of %d", c, len(seen), s.N)
		}
	}
}
