package centroid

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// rows computes the outputs of a task: first the centroids and exact neighbours of all rows, then the exact clusters,
// each with the rows that chose it. With e_c = exp(x·c) and e_j = exp(x·y_j), the sums of a row are
//
//	Σ_{c ∉ top} e_c n_c (v̄_c, 1) + Σ_{j near, c(j) ∉ top} (e_j − e_c(j)) (v_j, 1)
//	                             + Σ_{c ∈ top} Σ_{j ∈ c} e_j (v_j, 1).
//
// A neighbour subtracts its own share of its centroid. This avoids separate cluster sums for every block of queries. If
// the neighbour's cluster is exact, the cluster alone counts it.
func (c *call) rows(w *worker, t rowTask) {
	p := c.problems[t.problem]
	c.sums(w, p, t)
	n := t.hi - t.lo
	for g := range c.group {
		out := c.out.Head(p.b, p.h*c.group+g)
		for i := range n {
			r := g*n + i
			dst := out.Row(t.at + i)
			w.report.Rows++
			if w.sum[r] == 0 {
				w.report.Empty++
				clear(dst)
				continue
			}
			copy(dst, w.acc.Row(r))
			c.tab.Scale(dst, float32(1/w.sum[r]))
		}
	}
}

// sums computes the sums of the rows of a task, and the shifts that they are relative to.
func (c *call) sums(w *worker, p *problem, t rowTask) {
	c.load(w, p, t)
	c.eachTile(w, p, t)
	if p.top > 0 {
		c.sortChosen(w, p)
		c.eachChosen(w, p)
	}
}

// load copies the queries of a task, scaled. Row g·n + i is query i of head g of the group.
func (c *call) load(w *worker, p *problem, t rowTask) {
	n := t.hi - t.lo
	rows := n * c.group
	w.x, w.acc = buf.Shaped(w.x, rows, c.q.Dim), buf.Shaped(w.acc, rows, c.v.Dim)
	w.shift, w.sum = buf.Sized(w.shift, rows), buf.Sized(w.sum, rows)
	w.chosen = buf.Sized(w.chosen, rows*p.top)
	w.stamp = buf.Sized(w.stamp, p.clusters)
	for i := range w.stamp {
		w.stamp[i] = -1
	}
	for g := range c.group {
		q := c.q.Head(p.b, p.h*c.group+g)
		for i := range n {
			copy(w.x.Row(g*n+i), q.Row(p.span.Q0+t.lo+i))
		}
	}
	c.tab.Scale(w.x.Data, float32(c.scale))
}

// neighbours returns the half-open range of positions of the keys that are exact for a query, apart from sinks.
func (p *problem) neighbours(query int) (lo, hi int) {
	n := p.span.K1 - p.span.K0
	block := p.spec.block
	if block == 0 {
		return 0, 0
	}
	at := floorTo(position(p.span, p.span.Q0+query), block)
	hi = min(max(at+block+p.spec.window, 0), n)
	return min(max(at-p.spec.window, min(p.spec.sinks, n)), hi), hi
}

// eachTile computes tiles of queries. The keys of their neighbours are packed in w.near, the sinks in w.sinks.
func (c *call) eachTile(w *worker, p *problem, t rowTask) {
	n := t.hi - t.lo
	high := max(1, min(tileRows, tileCells/max(1, p.clusters)))
	sinks := min(p.spec.sinks, p.span.K1-p.span.K0)
	c.loadBand(&w.sinks, p, 0, sinks)
	for from := 0; from < n; from += stretch {
		to := min(from+stretch, n)
		lo, _ := p.neighbours(t.lo + from)
		_, hi := p.neighbours(t.lo + to - 1)
		c.loadBand(&w.near, p, lo, hi)
		for g := range c.group {
			for i := from; i < to; i += high {
				c.nearAndFarTile(w, p, t.lo+i, g*n+i, min(high, to-i))
			}
		}
	}
}

// loadBand packs the keys at positions [lo, hi) of the span. Masked keys become zeros with a bias of −∞.
func (c *call) loadBand(b *band, p *problem, lo, hi int) {
	b.lo, b.hi = lo, hi
	if lo == hi {
		return
	}
	k := c.k.Head(p.b, p.h).RowRange(p.span.K0+lo, p.span.K0+hi)
	b.values = c.v.Head(p.b, p.h).RowRange(p.span.K0+lo, p.span.K0+hi)
	b.masked, b.keys = false, k
	for _, x := range p.cluster[lo:hi] {
		b.masked = b.masked || x == hidden
	}
	if b.masked {
		b.k, b.v = buf.Shaped(b.k, hi-lo, k.Cols), buf.Shaped(b.v, hi-lo, b.values.Cols)
		b.bias = buf.Zeroed(b.bias, hi-lo)
		for i, x := range p.cluster[lo:hi] {
			if x == hidden {
				clear(b.k.Row(i))
				clear(b.v.Row(i))
				b.bias[i] = float32(math.Inf(-1))
			} else {
				copy(b.k.Row(i), k.Row(i))
				copy(b.v.Row(i), b.values.Row(i))
			}
		}
		b.keys, b.values = b.k, b.v
	}
	c.tab.Pack(&b.panel, b.keys)
}

// logits computes the logits of queries x with the keys at positions [lo, hi) of the band. The result begins at
// position from ≤ lo, because panels begin at multiples of their width.
func (c *call) logits(w *worker, b *band, x dense.Matrix[float32], lo, hi int) (m dense.Matrix[float32], from int) {
	c0 := (lo - b.lo) / c.tab.Width * c.tab.Width
	c1 := hi - b.lo
	b.weights = buf.Shaped(b.weights, x.Rows, c1-c0)
	w.view = kern.Panel[float32]{Rows: c1 - c0, Cols: b.panel.Cols, Width: b.panel.Width,
		Data: b.panel.Data[c0*b.panel.Cols:]}
	var bias []float32
	if b.masked {
		bias = b.bias[c0:c1]
	}
	c.tab.MulT(b.weights, x, &w.view, bias)
	return b.weights, b.lo + c0
}

// nearAndFarTile computes, for m rows from r on, the sums over centroids and exact neighbours, and chooses the exact
// clusters.
func (c *call) nearAndFarTile(w *worker, p *problem, query, r, m int) {
	w.far = buf.Shaped(w.far, m, p.clusters)
	acc := w.acc.RowRange(r, r+m)
	if p.clusters > 0 {
		c.tab.MulT(w.far, w.x.RowRange(r, r+m), &p.panel, p.logSize)
		c.tab.RowMax(w.shift[r:r+m], w.far)
		if p.top > 0 {
			c.rankTile(w, p)
		}
	} else {
		clear(acc.Data)
		for i := range m {
			w.shift[r+i] = float32(math.Inf(-1))
		}
	}
	hasNear, hasSinks := w.near.lo < w.near.hi, w.sinks.hi > 0
	// Fewer rows at a time share a larger part of their neighbours.
	for i := 0; i < m; i += nearRows {
		c.nearTile(w, p, query+i, r+i, i, min(nearRows, m-i), hasNear, hasSinks)
	}
	if p.clusters > 0 {
		c.tab.Product(acc, w.far, p.mean, hasNear || hasSinks)
	}
}

// nearTile chooses the exact clusters of m rows from r on. The logits of their centroids begin at row at of w.far and
// become weights. It sets the sums of weights, and the sums of values of neighbours if there are any.
func (c *call) nearTile(w *worker, p *problem, query, r, at, m int, hasNear, hasSinks bool) {
	x := w.x.RowRange(r, r+m)
	var near, sinks dense.Matrix[float32]
	var nearAt int
	if hasNear {
		first, _ := p.neighbours(query)
		_, end := p.neighbours(query + m - 1)
		near, nearAt = c.logits(w, &w.near, x, first, end)
	}
	if hasSinks {
		sinks, _ = c.logits(w, &w.sinks, x, 0, w.sinks.hi)
	}
	for i := range m {
		far, shift := w.far.Row(at+i), w.shift[r+i]
		var row, sink []float32
		var lo int
		if hasNear {
			var hi int
			lo, hi = p.neighbours(query + i)
			row = near.Row(i)
			clear(row[:lo-nearAt])
			clear(row[hi-nearAt:])
			row = row[lo-nearAt : hi-nearAt]
			shift = max(shift, c.tab.Max(row))
		}
		if hasSinks {
			sink = sinks.Row(i)
			shift = max(shift, c.tab.Max(sink))
		}
		w.shift[r+i], w.sum[r+i] = shift, 0
		stamp := int32(r + i)
		if p.top > 0 {
			c.choose(w, p, at+i, stamp)
		}
		if math.IsInf(float64(shift), -1) { // no key
			clear(row)
			clear(sink)
			continue
		}
		sum := float64(c.tab.ExpSum(far, shift))
		if hasNear {
			c.tab.Exp(row, shift)
			sum += p.takeOut(w, row, p.cluster[lo:lo+len(row)], far, stamp)
		}
		if hasSinks {
			c.tab.Exp(sink, shift)
			sum += p.takeOut(w, sink, p.cluster[:len(sink)], far, stamp)
		}
		w.sum[r+i] = sum
	}
	acc := w.acc.RowRange(r, r+m)
	if hasNear {
		from := nearAt - w.near.lo
		c.tab.Product(acc, near, w.near.values.RowRange(from, from+near.Cols), false)
	}
	if hasSinks {
		c.tab.Product(acc, sinks, w.sinks.values, hasNear)
	}
}

// peakWidth is the number of ranks whose maximum is kept, so that the largest rank is found without reading all of
// them.
const peakWidth = 16

// rankTile ranks the clusters for the rows of w.far by the logarithm of their expected error: logit, size and risk.
func (c *call) rankTile(w *worker, p *problem) {
	m, n := w.far.Rows, p.clusters
	wide := (n + peakWidth - 1) / peakWidth * peakWidth
	w.ranks = buf.Shaped(w.ranks, m, wide)
	for i := range m {
		row := w.ranks.Row(i)
		copy(row, w.far.Row(i))
		c.tab.MulAdd(row[:n], p.risk, 1)
		for j := n; j < wide; j++ {
			row[j] = float32(math.Inf(-1))
		}
	}
	w.peaks = buf.Sized(w.peaks, m*wide/peakWidth)
	c.tab.RowMax(w.peaks, view(w.ranks.Data, m*wide/peakWidth, peakWidth))
}

// choose takes the clusters with the largest expected errors out of the centroids of a row, which is row at of w.far:
// their weights become 0.
func (c *call) choose(w *worker, p *problem, at int, row int32) {
	far := w.far.Row(at)
	chosen := w.chosen[int(row)*p.top : (int(row)+1)*p.top]
	n := w.ranks.Cols / peakWidth
	largestOf(chosen, w.ranks.Row(at), w.peaks[at*n:(at+1)*n])
	for _, x := range chosen {
		if x < 0 {
			break
		}
		w.stamp[x] = row
		far[x] = float32(math.Inf(-1))
	}
}

// takeOut subtracts from the weights of exact keys the share that their centroids already count for them. Keys whose
// whole cluster is exact get weight 0, since the cluster counts them. It returns the sum of the weights.
func (p *problem) takeOut(w *worker, row []float32, cluster []int32, far []float32, stamp int32) (sum float64) {
	exact := len(cluster)
	for j, x := range cluster {
		if x < 0 {
			sum += float64(row[j]) // 0 if hidden
			if x == hidden {
				exact--
			}
			continue
		}
		if w.stamp[x] == stamp {
			row[j] = 0
			exact--
			continue
		}
		row[j] -= far[x] * p.perKey[x]
		sum += float64(row[j])
	}
	w.report.Exact += int64(exact)
	return sum
}

// largestOf sets dst to the indexes of the largest numbers of x, the first of equal ones, and sets these numbers to −∞.
// peaks holds the maximum of every peakWidth numbers. Numbers that are already −∞, or whose peak is NaN, do not count.
// If too few numbers remain, the last indexes are −1.
func largestOf(dst []int32, x, peaks []float32) {
	for n := range dst {
		best, at := float32(math.Inf(-1)), -1
		for i, v := range peaks {
			if v > best {
				best, at = v, i
			}
		}
		if at < 0 {
			dst[n] = -1
			continue
		}
		block := x[at*peakWidth : (at+1)*peakWidth]
		i := max(0, indexOf(block, best))
		dst[n] = int32(at*peakWidth + i)
		block[i] = float32(math.Inf(-1))
		peak := block[0]
		for _, v := range block[1:] {
			if v > peak {
				peak = v
			}
		}
		peaks[at] = peak
	}
}

// sortChosen lists the rows that have chosen each cluster in ascending order. Those of cluster x end at w.count[x].
func (c *call) sortChosen(w *worker, p *problem) {
	w.count = buf.Zeroed(w.count, p.clusters+1)
	for _, x := range w.chosen {
		if x >= 0 {
			w.count[x+1]++
		}
	}
	for x := range p.clusters {
		w.count[x+1] += w.count[x]
	}
	w.choosers = buf.Sized(w.choosers, len(w.chosen))
	for r := range w.x.Rows {
		for _, x := range w.chosen[r*p.top : (r+1)*p.top] {
			if x < 0 {
				break
			}
			w.choosers[w.count[x]] = int32(r)
			w.count[x]++
		}
	}
}

// eachChosen adds the sorted keys of each chosen cluster to the rows that chose it.
func (c *call) eachChosen(w *worker, p *problem) {
	from := 0
	for x := range p.clusters {
		to := int(w.count[x])
		if from < to {
			for lo, end := int(p.start[x]), int(p.start[x+1]); lo < end; lo += keyBlock {
				c.exactBlock(w, p, w.choosers[from:to], x, lo, min(lo+keyBlock, end))
			}
		}
		from = to
	}
}

// exactBlock adds the sorted keys [lo, hi) of cluster x to the sums of rows.
func (c *call) exactBlock(w *worker, p *problem, rows []int32, x, lo, hi int) {
	w.view = p.panelOf(x, lo, hi)
	values := p.v.RowRange(lo, hi)
	w.report.Exact += int64(len(rows)) * int64(hi-lo)
	w.tileMax, w.tileSum = buf.Sized(w.tileMax, tileRows), buf.Sized(w.tileSum, tileRows)
	for len(rows) > 0 {
		m := min(tileRows, len(rows))
		w.tileX = buf.Shaped(w.tileX, m, w.x.Cols)
		for i, r := range rows[:m] {
			copy(w.tileX.Row(i), w.x.Row(int(r)))
		}
		w.tile = buf.Shaped(w.tile, m, hi-lo)
		c.tab.MulT(w.tile, w.tileX, &w.view, nil)
		c.tab.RowMax(w.tileMax[:m], w.tile)
		for i, r := range rows[:m] {
			top := w.tileMax[i]
			if top > w.shift[r] {
				f := float32(math.Exp(float64(w.shift[r]) - float64(top)))
				c.tab.Scale(w.acc.Row(int(r)), f)
				w.sum[r] *= float64(f)
				w.shift[r] = top
			}
			w.tileMax[i] = w.shift[r]
		}
		c.tab.ExpRows(w.tileSum[:m], w.tile, w.tileMax[:m])
		w.values = buf.Shaped(w.values, m, values.Cols)
		for i, r := range rows[:m] {
			w.sum[r] += float64(w.tileSum[i])
			copy(w.values.Row(i), w.acc.Row(int(r)))
		}
		c.tab.Product(w.values, w.tile, values, true)
		for i, r := range rows[:m] {
			copy(w.acc.Row(int(r)), w.values.Row(i))
		}
		rows = rows[m:]
	}
}
