package advise

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// MedianDistance is the median distance of random pairs of rows, one from each set; both have rows of the same length.
// Equal rows do not count; it is 1 if all rows are equal, since any bandwidth will do then.
// It is the usual bandwidth for rows of an unknown scale.
func MedianDistance(q, k dense.Matrix[float64]) float64 {
	var d []float64
	src := rng.Stream(0, uint64(q.Rows))
	for range 4096 {
		i, j := int(src.Uint64()%uint64(q.Rows)), int(src.Uint64()%uint64(k.Rows))
		var s float64
		for c, v := range q.Row(i) {
			s += (v - k.At(j, c)) * (v - k.At(j, c))
		}
		if s > 0 {
			d = append(d, s)
		}
	}
	if len(d) == 0 {
		return 1
	}
	slices.Sort(d)
	return math.Sqrt(d[len(d)/2])
}
