package centroid

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// assigner assigns keys to the centres of a fit. Its memory is reused.
type assigner struct {
	tab   *kern.Table[float32]
	mean  []float32
	unit  float32 // factor of differences of keys
	panel kern.Panel[float32]
	bias  []float32
	rows  dense.Matrix[float32]
}

// assignScratch is the memory of a goroutine that assigns.
type assignScratch struct {
	z, score dense.Matrix[float32]
	best     []float32
}

// assignRows keys are assigned at a time.
const assignRows = 64

// convert appends numbers in float32.
func convert(dst []float32, x []float64) []float32 {
	for _, v := range x {
		dst = append(dst, float32(v))
	}
	return dst
}

// assign sets dst_j to the cluster of key j: the one with the largest score, the first of several. The result for a key
// does not depend on the others.
func (a *assigner) assign(dst []int32, y dense.Matrix[float32], w *assignScratch) {
	for lo := 0; lo < y.Rows; lo += assignRows {
		hi := min(lo+assignRows, y.Rows)
		w.z = buf.Shaped(w.z, hi-lo, len(a.mean))
		for j := lo; j < hi; j++ {
			z, row := w.z.Row(j-lo), y.Row(j)
			for l, m := range a.mean {
				z[l] = (row[l] - m) * a.unit
			}
		}
		w.score = buf.Shaped(w.score, hi-lo, a.panel.Rows)
		a.tab.MulT(w.score, w.z, &a.panel, a.bias)
		w.best = argMaxRows(a.tab, dst[lo:hi], w.score, w.best)
	}
}

// argMaxRows sets dst to the first index of the largest number of every row, 0 if there is none but NaN. It returns
// memory for the next call.
func argMaxRows(tab *kern.Table[float32], dst []int32, x dense.Matrix[float32], best []float32) []float32 {
	best = buf.Sized(best, x.Rows)
	tab.RowMax(best, x)
	for i, m := range best {
		dst[i] = int32(max(0, indexOf(x.Row(i), m)))
	}
	return best
}

// indexOf is the first index of m, or −1.
func indexOf(x []float32, m float32) int {
	i := 0
	for ; i+8 <= len(x); i += 8 {
		q := x[i : i+8 : i+8]
		if q[0] == m || q[1] == m || q[2] == m || q[3] == m || q[4] == m || q[5] == m || q[6] == m || q[7] == m {
			break
		}
	}
	for ; i < len(x); i++ {
		if x[i] == m {
			return i
		}
	}
	return -1
}

// groups orders keys by their cluster.
type groups struct {
	found    []int32 // cluster of every key
	clusters int     // those that have keys
	start    []int32 // of a cluster among the sorted keys, and their number at the end
	order    []int32 // the sorted keys
	next     []int32 // scratch
}

// sort orders the keys, keys of a cluster as they were, and leaves out clusters without keys.
func (g *groups) sort() {
	most := 0
	for _, x := range g.found {
		most = max(most, int(x)+1)
	}
	g.next = buf.Zeroed(g.next, most)
	for _, x := range g.found {
		g.next[x]++
	}
	g.start = append(g.start[:0], 0)
	for x, m := range g.next { // its new number
		if m > 0 {
			g.next[x] = int32(len(g.start) - 1)
			g.start = append(g.start, g.start[len(g.start)-1]+m)
		}
	}
	g.clusters = len(g.start) - 1
	for i, x := range g.found {
		g.found[i] = g.next[x]
	}
	g.next = append(g.next[:0], g.start...) // where the next key of a cluster goes
	g.order = buf.Sized(g.order, len(g.found))
	for i, x := range g.found {
		g.order[g.next[x]] = int32(i)
		g.next[x]++
	}
}
