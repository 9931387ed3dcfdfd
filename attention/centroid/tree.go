package centroid

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Decoding with Spec.Open. The clusters of chunks are the leaves of a tree with two levels: a branch stands for about
// branchLeaves clusters of a chunk or, as soon as they are complete, of joinChunks chunks together. A branch and a leaf
// know the number of their keys, the centroid and the variances of the keys, and the mean and the spread of the values.
//
// A step reads all branches. Where the expected error of a branch exceeds Open it reads the leaves instead, and where
// the error of a leaf exceeds Open, the keys. So steps differ in the number of keys that they read, and hardly in their
// error: with a fixed number of exact clusters, a few steps that need more make most of the error.
//
// For a query x with the share p of its weights in a node of n keys, the logits of the keys have the variance s² = Σ
// x_i² var_i, if coordinates are independent. Log-normal weights with this variance, relative to the weight of the
// centroid, have the variance e^{s²}(e^{s²}−1), and a mean of n independent products of such weights and values has the
// error p·√(e^{s²}(e^{s²}−1))·ν/√n. ν² is the mean of |v − v̄|², divided by its value in the first chunk whose values
// differ: Open has no unit. Squares are summed over the query heads of a group.

const (
	branchLeaves = 8
	joinChunks   = 4
	branchPasses = 3
	mostVariance = 16 // of logits: the weights of few keys are not log-normal
)

// Reads is the time of a decoding step (Chunks) after n tokens, in units of the time to read a key that lies beside the
// last one. On average half a chunk of recent keys is not in clusters. Chosen keys lie in many places of memory. With
// Open, their number is a fit to the heads of SmolLM2, where it hardly depends on n.
func (s Spec) Reads(n int) float64 {
	const scattered = 3    // keys side by side that are read in the time of one elsewhere
	const openedKeys = 0.4 // times 1/Open
	near := min(n, s.Sinks+s.Window+s.Chunk/2)
	far := float64(n - near)
	nodes, members := far, 0.0
	if s.Chunk > 0 && s.Clusters > 0 {
		nodes *= float64(s.Clusters) / float64(s.Chunk)
		members = min(far, float64(s.Top)*float64(s.Chunk)/float64(s.Clusters))
	}
	if s.Open > 0 {
		nodes /= branchLeaves
		members = min(far, openedKeys/s.Open)
	}
	return float64(near) + nodes + scattered*members
}

// treePart is a chunk that is sorted by cluster. It never changes.
type treePart[T dense.Float] struct {
	chunkPart[T]
	leaf            dense.Matrix[T] // a row for every cluster: centroid, variances, mean of values
	logSize, hazard []T             // hazard is ν²/n
	own, joint      []int32         // branches of its clusters; of the clusters of joinChunks chunks, after the last
}

// tree is the clustered chunks of a head. Columns are branches. The branches of a chunk lie side by side; joint
// branches of several chunks replace them.
type tree[T dense.Float] struct {
	parts           []*treePart[T]
	ref             T   // root of the mean of |v − v̄|² in the first chunk whose values differ; 0: there is none
	each, stride    int // most branches and most leaves of a chunk
	panel, spread   kern.Panel[T]
	mean            dense.Matrix[T]
	logSize, hazard []T
	kids            [][]int32 // leaves of a branch: chunk·stride + cluster
}

// reset makes the tree empty.
func (h *tree[T]) reset(spec *Spec) {
	*h = tree[T]{each: max(1, spec.Clusters/branchLeaves), stride: spec.Clusters}
}

// leaves computes the leaves of a chunk from its sorted keys and the centroids of their clusters. The first chunk whose
// values differ sets the unit of all.
func (h *tree[T]) leaves(tab *kern.Table[T], c chunkPart[T], centre, mean dense.Matrix[T]) *treePart[T] {
	d, dv, n := c.k.Cols, c.v.Cols, len(c.start)-1
	p := &treePart[T]{chunkPart: c, leaf: dense.New[T](n, 2*d+dv), logSize: make([]T, n), hazard: make([]T, n)}
	average, diff := make([]float64, dv), make([]T, max(d, dv))
	for j := range c.v.Rows {
		tab.Widen(average, c.v.Row(j), 1/float64(c.v.Rows))
	}
	of := make([]T, dv)
	tab.Narrow(of, average, 1)
	nu, all := make([]float64, n), 0.0
	variance := make([]float64, d)
	for x := range n {
		lo, hi := int(c.start[x]), int(c.start[x+1])
		row := p.leaf.Row(x)
		copy(row, centre.Row(x))
		copy(row[2*d:], mean.Row(x))
		clear(variance)
		for j := lo; j < hi; j++ {
			y := diff[:d]
			copy(y, c.k.Row(j))
			tab.MulAdd(y, centre.Row(x), -1)
			tab.Mul(y, y)
			tab.Widen(variance, y, 1/float64(hi-lo))
			y = diff[:dv]
			copy(y, c.v.Row(j))
			tab.MulAdd(y, of, -1)
			nu[x] += tab.Norm2(y)
		}
		tab.Narrow(row[d:2*d], variance, 1)
		all += nu[x]
		p.logSize[x] = T(math.Log(float64(hi - lo)))
	}
	if all > 0 && h.ref == 0 { // the mean of squares might be out of the range of T, the root is not
		h.ref = T(min(math.Sqrt(all/float64(c.v.Rows)), math.MaxFloat32))
	}
	for x, v := range nu {
		if v > 0 {
			size := float64(c.start[x+1]-c.start[x]) * float64(h.ref)
			p.hazard[x] = T(min(v/size/size, math.MaxFloat32))
		}
	}
	return p
}

// group sets the branches of the next chunk. The distance of centroids is the mean square of the differences
// of their logits; factor is its root in this chunk.
func (h *tree[T]) group(km *kmeans[T], tab *kern.Table[T], p *treePart[T], factor dense.Matrix[T], seed uint64) {
	parts := []*treePart[T]{p}
	p.own = h.branches(km, tab, parts, factor, seed)
	if i := len(h.parts); i%joinChunks == joinChunks-1 {
		p.joint = h.branches(km, tab, append(h.parts[i+1-joinChunks:i:i], p), factor, seed)
	}
}

func (h *tree[T]) branches(km *kmeans[T], tab *kern.Table[T], parts []*treePart[T], factor dense.Matrix[T],
	seed uint64) []int32 {
	n := 0
	for _, p := range parts {
		n += p.leaf.Rows
	}
	d := factor.Rows
	y, z, weights := dense.New[T](n, d), dense.New[T](n, d), make([]T, 0, n)
	for _, p := range parts {
		for x := range p.leaf.Rows {
			copy(y.Row(len(weights)), p.leaf.Row(x)[:d])
			weights = append(weights, T(p.start[x+1]-p.start[x]))
		}
	}
	tab.Product(z, y, factor, false)
	km.tab = tab
	km.run(z, weights, h.each*len(parts), branchPasses, seed)
	return slices.Clone(km.assign[:n])
}

// push makes p the next chunk.
func (h *tree[T]) push(tab *kern.Table[T], p *treePart[T]) {
	i := len(h.parts)
	h.parts = append(h.parts, p)
	if need := (i + 1) * h.each; need > len(h.kids) {
		h.grow(tab, max(joinChunks*h.each, 2*len(h.kids)), p.k.Cols, p.v.Cols)
	}
	if p.joint != nil {
		h.set(i+1-joinChunks, p.joint)
	} else {
		h.set(i, p.own)
	}
}

// grow makes room for so many branches.
func (h *tree[T]) grow(tab *kern.Table[T], n, d, dv int) {
	var panel, spread kern.Panel[T]
	tab.Room(&panel, n, d)
	tab.Room(&spread, n, d)
	copy(panel.Data, h.panel.Data)
	copy(spread.Data, h.spread.Data)
	mean := dense.New[T](n, dv)
	copy(mean.Data, h.mean.Data)
	more := n - len(h.kids)
	h.panel, h.spread, h.mean = panel, spread, mean
	h.logSize, h.hazard = append(h.logSize, make([]T, more)...), append(h.hazard, make([]T, more)...)
	h.kids = append(h.kids, make([][]int32, more)...)
}

// set makes the clusters of the chunks from first on children of branches.
func (h *tree[T]) set(first int, branch []int32) {
	parts := h.parts[first:]
	lo, hi := first*h.each, len(h.parts)*h.each
	d, width := h.panel.Cols, h.panel.Cols*2+h.mean.Cols
	for b := lo; b < hi; b++ {
		h.kids[b] = nil
	}
	i := 0
	for j, p := range parts {
		for x := range p.leaf.Rows {
			b := lo + int(branch[i])
			h.kids[b] = append(h.kids[b], int32((first+j)*h.stride+x))
			i++
		}
	}
	sum := make([]float64, width)
	for b := lo; b < hi; b++ {
		clear(sum)
		var n, nu float64
		for _, id := range h.kids[b] {
			p, x := h.leaf(id)
			m := float64(p.start[x+1] - p.start[x])
			n += m
			nu += m * m * float64(p.hazard[x])
			for l, v := range p.leaf.Row(x) {
				sum[l] += m * float64(v)
			}
		}
		h.logSize[b], h.hazard[b] = T(math.Log(n)), 0
		if n == 0 { // no keys, and no weight
			n = 1
		}
		for l := range sum {
			sum[l] /= n
		}
		for _, id := range h.kids[b] { // variances of the centroids
			p, x := h.leaf(id)
			m := float64(p.start[x+1]-p.start[x]) / n
			for l, v := range p.leaf.Row(x)[:d] {
				sum[d+l] += m * (float64(v) - sum[l]) * (float64(v) - sum[l])
			}
		}
		h.hazard[b] = T(nu / (n * n))
		at := outputOf(&h.panel, b)
		for l := range d {
			h.panel.Data[at], h.spread.Data[at] = T(sum[l]), T(sum[d+l])
			at += h.panel.Width
		}
		for l := range h.mean.Cols {
			h.mean.Row(b)[l] = T(sum[2*d+l])
		}
	}
}

// leaf is the chunk and the number of a cluster.
func (h *tree[T]) leaf(id int32) (*treePart[T], int) {
	return h.parts[int(id)/h.stride], int(id) % h.stride
}

// clone is a copy that shares the chunks.
func (h *tree[T]) clone(tab *kern.Table[T]) tree[T] {
	n := *h
	n.parts, n.panel, n.spread, n.mean, n.logSize, n.hazard = slices.Clone(h.parts), kern.Panel[T]{}, kern.Panel[T]{},
		dense.Matrix[T]{}, nil, nil
	if len(h.kids) > 0 {
		n.kids = nil
		n.grow(tab, len(h.kids), h.panel.Cols, h.mean.Cols)
		copy(n.panel.Data, h.panel.Data)
		copy(n.spread.Data, h.spread.Data)
		copy(n.mean.Data, h.mean.Data)
		copy(n.logSize, h.logSize)
		copy(n.hazard, h.hazard)
		copy(n.kids, h.kids)
	}
	return n
}

// treeReader computes rows. It is scratch memory of one goroutine.
type treeReader[T dense.Float] struct {
	square     dense.Matrix[T] // of queries
	weights, s dense.Matrix[T]
	score, exp []T
	index      []int32
	list       []int32
	leaf       dense.Matrix[T]
	logSize    []T
	hazard     []T
	total      []float64
}

// read adds the clustered and the recent keys to the sums of t. It returns the number of clustered keys that are exact.
func (r *treeReader[T]) read(t *tiles[T], h *tree[T], near *nearKeys[T], open float64) int {
	n := len(h.parts) * h.each
	if n == 0 {
		t.addAll(near)
		return 0
	}
	d, rows, tab := t.x.Cols, t.x.Rows, t.tab
	low := T(open * open)
	r.square, r.total = buf.Shaped(r.square, rows, d), buf.Sized(r.total, rows)
	copy(r.square.Data, t.x.Data)
	tab.Mul(r.square.Data, t.x.Data)
	t.view = h.panel
	t.view.Rows = n
	t.far(&t.view, h.logSize[:n])
	t.addAll(near)
	r.s = shapedRoomy(r.s, rows, n)
	t.view = h.spread
	t.view.Rows = n
	tab.MulT(r.s, r.square, &t.view, nil)
	for len(t.ones) < n {
		t.ones = append(t.ones, 1)
	}
	tab.MulV(t.sums, t.wide, t.ones[:n])
	for g := range rows {
		r.total[g] = t.sum[g] + float64(t.sums[g])
	}
	t.chosen = append(t.chosen[:0], r.above(tab, t.wide, h.hazard[:n], low)...)
	t.finishFar(h.mean.RowRange(0, n))
	t.wide = buf.Shaped(t.wide, rows, 0) // nothing is left to be scaled

	r.list = r.list[:0]
	for _, b := range t.chosen {
		r.list = append(r.list, h.kids[b]...)
	}
	if n = len(r.list); n == 0 {
		return 0
	}
	dv := t.acc.Cols
	r.leaf = shapedRoomy(r.leaf, n, 2*d+dv)
	r.logSize, r.hazard = roomy(r.logSize, n), roomy(r.hazard, n)
	for i, id := range r.list {
		p, x := h.leaf(id)
		copy(r.leaf.Row(i), p.leaf.Row(x))
		r.logSize[i], r.hazard[i] = p.logSize[x], p.hazard[x]
	}
	part := func(from, cols int) dense.Matrix[T] {
		return dense.Matrix[T]{Rows: n, Cols: cols, Stride: r.leaf.Stride, Data: r.leaf.Data[from:]}
	}
	r.weights, r.s = shapedRoomy(r.weights, rows, n), shapedRoomy(r.s, rows, n)
	for g := range rows {
		row := r.weights.Row(g)
		tab.MulV(row, part(0, d), t.x.Row(g))
		tab.MulAdd(row, r.logSize, 1)
		t.raise(g, tab.Max(row))
		r.total[g] = t.sum[g] + float64(tab.ExpSum(row, t.shift[g]))
		tab.MulV(r.s.Row(g), part(d, d), r.square.Row(g))
	}
	opened := r.above(tab, r.weights, r.hazard, low)
	for len(t.ones) < n {
		t.ones = append(t.ones, 1)
	}
	exact := 0
	for i, at := range opened {
		for g := range rows {
			r.weights.Row(g)[at] = 0
		}
		opened[i] = r.list[at]
		p, x := h.leaf(r.list[at])
		exact += int(p.start[x+1] - p.start[x])
	}
	tab.MulV(t.sums, r.weights, t.ones[:n])
	for g := range rows {
		t.sum[g] += float64(t.sums[g])
	}
	tab.Product(t.acc, r.weights, part(2*d, dv), true)
	t.gather(exact)
	at := 0
	for _, id := range opened {
		p, x := h.leaf(id)
		at += t.copyMembers(at, &p.chunkPart, x)
	}
	t.addGathered()
	return exact
}

// above returns the nodes whose expected error is at least the root of low, given the weights of nodes and, in r.s and
// r.total, the variances of logits and the sums of all weights.
func (r *treeReader[T]) above(tab *kern.Table[T], weights dense.Matrix[T], hazard []T, low T) []int32 {
	n := weights.Cols
	r.score, r.exp, r.index = roomy(r.score, n), roomy(r.exp, n), roomy(r.index, n)
	clear(r.score)
	for g := range weights.Rows {
		inv := T(0)
		if f := 1 / r.total[g]; dense.IsFinite(f) {
			inv = T(f)
		}
		row := weights.Row(g)
		exp, score := r.exp[:len(row)], r.score[:len(row)]
		for c, v := range r.s.Row(g) {
			if !(v < mostVariance) { // NaN if variances are beyond the range of T
				v = mostVariance
			}
			exp[c] = v
		}
		tab.Exp(exp, 0)
		for c, w := range row {
			w *= inv
			score[c] += w * w * exp[c] * (exp[c] - 1)
		}
	}
	tab.Mul(r.score, hazard)
	return r.index[:tab.Above(r.index, r.score, low)]
}

// shapedRoomy is [buf.Shaped] for matrices that grow a little at a time.
func shapedRoomy[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	return view(roomy(m.Data, rows*cols), rows, cols)
}

// clusterChunk sorts a chunk of keys by cluster, with the queries of the same positions. The caller calls f.forget when
// it needs no more of the result than its keys.
func clusterChunk[T dense.Float](f *call[T], scale float64, spec Spec, q, k, v attention.Seq[T]) (*problem[T], error) {
	a := Attention[T]{Scale: scale, Specs: []Spec{spec}}
	f.problems = nil // the last one keeps its memory
	if err := f.start(&a, attention.Seq[T]{}, q, k, v); err != nil {
		return nil, err
	}
	f.prepare()
	return f.problems[0], nil
}

// part makes the next chunk of the tree from its clusters.
func (h *tree[T]) part(km *kmeans[T], tab *kern.Table[T], p *problem[T], seed uint64) *treePart[T] {
	t := h.leaves(tab, chunkPart[T]{slices.Clone(p.start), p.k, p.v}, p.centre, p.mean)
	factor := p.factor
	if factor.Rows != p.k.Cols { // every key is a cluster: any distance serves
		factor = dense.New[T](p.k.Cols, p.k.Cols)
		for i := range factor.Rows {
			factor.Row(i)[i] = 1
		}
	}
	h.group(km, tab, t, factor, seed)
	return t
}
