package family

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// nearest is the index of the closest centre; the first wins a tie.
func nearest(centres dense.Matrix[float64], x []float64) int {
	best, at := math.Inf(1), 0
	for c := range centres.Rows {
		if _, d := sumNorm2(centres.Row(c), x); d < best {
			best, at = d, c
		}
	}
	return at
}

// kMeans is Lloyd's algorithm from k-means++ seeds that are drawn from a fixed stream, so that fitting is a function of
// the data. It returns at most k centres (fewer if there are fewer distinct rows) and the cluster of each row.
func kMeans(x dense.Matrix[float64], k int) (centres dense.Matrix[float64], label []int) {
	centres = seedCentres(x, k)
	label = make([]int, x.Rows)
	for range 100 {
		moved := false
		for i := range label {
			if c := nearest(centres, x.Row(i)); c != label[i] {
				label[i], moved = c, true
			}
		}
		sum, n := dense.New[float64](centres.Rows, x.Cols), make([]float64, centres.Rows)
		for i, c := range label {
			n[c]++
			for l, v := range x.Row(i) {
				sum.Row(c)[l] += v
			}
		}
		for c := range centres.Rows {
			if n[c] == 0 {
				continue // an empty cluster keeps its centre
			}
			for l, v := range sum.Row(c) {
				centres.Row(c)[l] = v / n[c]
			}
		}
		if !moved {
			break
		}
	}
	return centres, label
}

// seedCentres chooses each centre with probability proportional to the squared distance to the nearest of the centres
// before it.
func seedCentres(x dense.Matrix[float64], k int) dense.Matrix[float64] {
	src := rng.Stream(0, uint64(k))
	dist := make([]float64, x.Rows)
	for i := range dist {
		dist[i] = math.Inf(1)
	}
	rows := [][]float64{x.Row(int(rng.Uniform(src) * float64(x.Rows)))}
	for len(rows) < k {
		var total float64
		for i := range dist {
			_, d := sumNorm2(x.Row(i), rows[len(rows)-1])
			dist[i] = min(dist[i], d)
			total += dist[i]
		}
		if total == 0 {
			break
		}
		pick, at := rng.Uniform(src)*total, 0
		for at = range dist {
			if pick -= dist[at]; pick < 0 && dist[at] > 0 {
				break
			}
		}
		rows = append(rows, x.Row(at))
	}
	return dense.MustFromRows(rows)
}
