package centroid

import (
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// chunkFit clusters the keys of one chunk after the other, with memory that later chunks reuse.
type chunkFit struct {
	fit    fitter
	assign assigner
	scores assignScratch
	gather dense.Matrix[float32]
	groups groups
	part   []float32
	wide   []float64
}

// chunkClusters is a chunk sorted by cluster, with the centroids: means of keys by weight, and plain means of values.
type chunkClusters struct {
	chunkPart
	centre, mean dense.Matrix[float32]
	logSize      []float32
}

// cluster sorts the keys of a chunk except for sinks, with the queries q of the same positions.
func (f *chunkFit) cluster(tab *kern.Table[float32], s *settings, scale float64, q, k, v attention.Seq[float32]) (
	p chunkClusters) {
	fit, g := &f.fit, &f.groups
	fit.tab = tab
	fit.reset(s, scale, q, k, 0, 0, attention.Span{Q1: q.Len, K1: k.Len})
	fit.add(nil)
	n := len(fit.keys)
	g.found = buf.Sized(g.found, n)
	single := n <= s.clusters
	if single {
		for j := range g.found {
			g.found[j] = int32(j)
		}
	} else {
		fit.train()
		fit.assigner(&f.assign)
		f.assign.assign(g.found, gathered(&f.gather, k.Head(0, 0), fit.keys), &f.scores)
	}
	g.sort()
	p.start = append(p.start, g.start...)
	p.k, p.v = dense.New[float32](n, k.Dim), dense.New[float32](n, v.Dim)
	p.centre, p.mean = dense.New[float32](g.clusters, k.Dim), dense.New[float32](g.clusters, v.Dim)
	p.logSize = make([]float32, g.clusters)
	weights := make([]float32, n)
	for i, j := range g.order {
		copy(p.k.Row(i), k.Head(0, 0).Row(int(fit.keys[j])))
		copy(p.v.Row(i), v.Head(0, 0).Row(int(fit.keys[j])))
		if !single {
			weights[i] = fit.weights[j]
		}
	}
	for x := range g.clusters {
		lo, hi := int(g.start[x]), int(g.start[x+1])
		p.logSize[x] = float32(math.Log(float64(hi - lo)))
		if hi-lo == 1 { // exactly the key
			copy(p.centre.Row(x), p.k.Row(lo))
			copy(p.mean.Row(x), p.v.Row(lo))
			continue
		}
		var total float64
		for _, w := range weights[lo:hi] {
			total += float64(w)
		}
		tab.Scale(weights[lo:hi], float32(1/total))
		f.average(p.centre.Row(x), p.k.RowRange(lo, hi), weights[lo:hi])
		f.average(p.mean.Row(x), p.v.RowRange(lo, hi), nil)
	}
	var none attention.Seq[float32]
	fit.q, fit.k = none, none
	return p
}

// average sets dst to the sum of the rows of m with weights, or to their mean. Blocks are summed in float32 and the
// sums of the blocks in float64, so the rounding error does not grow with the size of the cluster.
func (f *chunkFit) average(dst []float32, m dense.Matrix[float32], weights []float32) {
	f.wide = buf.Zeroed(f.wide, len(dst))
	f.part = buf.Sized(f.part, keyBlock)
	for lo := 0; lo < m.Rows; lo += keyBlock {
		hi := min(lo+keyBlock, m.Rows)
		part := f.part[:hi-lo]
		for i := range part {
			if weights != nil {
				part[i] = weights[lo+i]
			} else {
				part[i] = float32(1 / float64(m.Rows))
			}
		}
		f.fit.tab.Product(view(dst, 1, len(dst)), view(part, 1, hi-lo), m.RowRange(lo, hi), false)
		for l, v := range dst {
			f.wide[l] += float64(v)
		}
	}
	for l, v := range f.wide {
		dst[l] = float32(v)
	}
}
