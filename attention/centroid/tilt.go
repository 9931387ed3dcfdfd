package centroid

import (
	"math"
	"sync/atomic"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Bidirectional attention with [Blocks]. The queries of all heads of a group are sorted (rowOrder)
// and cut into blocks of similar ones. Block b with the mean query x̄ weighs every key by w_j = e^{x̄·y_j}:
//
//   - The Keys keys of the largest w are exact for all rows of the block.
//   - The other keys of a cluster C are one centroid that is made for the block,
//
//     n = Σ_C w_j,   c = Σ_C w_j y_j / n,   v̄ = Σ_C w_j v_j / n,
//
//     and has the weight n·e^{(x−x̄)·c} for the query x.
//
// The estimate is exact at x = x̄, and the error of a weight is of second order in x − x̄:
//
//	Σ_C e^{x·y_j} = Σ_C w_j e^{(x−x̄)·y_j} = n·e^{(x−x̄)·c}·(1 + ½ Var_w((x−x̄)·y) + …).
//
// The error of v̄ is of first order: values that differ with the keys of a cluster move by Cov_w(v, y)·(x−x̄). Both
// terms are taken from all keys of the head at once, without weights: M = Cov(v, y) and S = Cov(y) inside of clusters.
// The centroids of a row then have the values v̄ + M(x−x̄) and masses larger by e^{s/4}, with s = (x−x̄)ᵀS(x−x̄). Half
// of the term of second order is left out, since the keys that spread most are exact: half has smaller errors than none
// or all of it. Both terms are limited where s is large (maxOffset). On real heads they lower the error by a third to
// a half, for the work of 32 keys per row.
//
// Clusters therefore use the metric E (x−x̄)(x−x̄)ᵀ, the covariance of queries inside of blocks. Few of them are
// enough: 64 instead of the L/16 that centroids for all queries need. The keys cost a block about 1.5 L multiply-adds
// per dimension, a hundredth of exact attention with blocks of 128 queries.

const (
	// tiltBlocks blocks at most share a pass over the keys.
	tiltBlocks = 16
	// The first measuredRows queries of measuredBlocks blocks at equal distances measure the covariance inside of
	// blocks.
	measuredRows   = 64
	measuredBlocks = 10
)

// gatherRows copies the queries lo to hi−1 of the order of p and scales them.
func (c *call) gatherRows(p *problem, lo, hi int) {
	n, x, rows := p.span.Q1-p.span.Q0, p.x.RowRange(lo, hi), p.rows.order[lo:hi]
	if c.group == 1 {
		c.tab.Gather(x, c.q.Head(p.b, p.h).RowRange(p.span.Q0, p.span.Q1), rows)
	} else {
		for g := range c.group {
			q := c.q.Head(p.b, p.h*c.group+g)
			for i, r := range rows {
				if int(r)/n == g {
					copy(x.Row(i), q.Row(p.span.Q0+int(r)%n))
				}
			}
		}
	}
	c.tab.Scale(x.Data[:x.Rows*x.Cols], float32(c.scale))
}

// trainTilted trains the clusters of p, whose queries are in order.
func (c *call) trainTilted(w *worker, p *problem) {
	if p.single {
		return
	}
	f := c.fitter(w, p)
	c.measureBlocks(f, p)
	f.drawEvenly()
	f.coordinates()
	f.km.run(f.z, f.mass, f.spec.clusters, f.spec.passes, f.spec.seed)
	f.assigner(&p.assign)
}

// measureBlocks makes the covariance of queries inside of blocks the metric of f.
func (c *call) measureBlocks(f *fitter, p *problem) {
	size := p.spec.queries
	blocks := (p.x.Rows + size - 1) / size
	rows := min(size, measuredRows)
	use := min(blocks, measuredBlocks)
	f.x = buf.Shaped(f.x, use*rows, c.q.Dim)
	at := 0
	for i := range use {
		lo := (2*i + 1) * blocks / (2 * use) * size
		n := min(rows, p.x.Rows-lo)
		part := f.x.RowRange(at, at+n)
		copyRows(part, p.x.RowRange(lo, lo+n))
		f.mean = buf.Zeroed(f.mean, c.q.Dim)
		c.tab.ColSum(f.mean, part)
		for r := range n {
			c.tab.MulAdd(part.Row(r), f.mean, float32(-1/float64(n)))
		}
		at += n
	}
	f.setMetric(f.x.RowRange(0, at), 1)
}

// splitTilted makes the tasks of problem i: some blocks each. Blocks without a wanted row have none.
func (c *call) splitTilted(i int, task func(jobRange)) {
	p := c.problems[i]
	n, rows, size := p.span.Q1-p.span.Q0, len(p.rows.order), p.spec.queries
	if c.wanted != nil {
		p.place = buf.Sized(p.place, n)
		for l := range p.place {
			p.place[l] = -1
		}
		for at, l := range c.wanted {
			if l >= p.span.Q0 && l < p.span.Q1 {
				p.place[l-p.span.Q0] = int32(at)
			}
		}
	}
	p.blocks = p.blocks[:0]
	for lo := 0; lo < rows; lo += size {
		if c.wanted == nil || p.wants(n, lo, min(lo+size, rows)) {
			p.blocks = append(p.blocks, int32(lo))
		}
	}
	l := &c.balancer.lists[i]
	each := l.each
	for lo := 0; lo < len(p.blocks); lo += each {
		task(jobRange{i, lo, min(lo+each, len(p.blocks))})
	}
}

// tilt is the scratch memory with which a worker computes blocks, of bidirectional queries and of causal ones
// (prefix.go).
type tilt struct {
	mean dense.Matrix[float32] // scaled mean queries of the blocks of a task
	all  dense.Matrix[float32] // logits of all keys, if the blocks see only some of them
	w    dense.Matrix[float32] // logits, then weights, of the keys that the blocks see
	// Of a block: where clusters begin among the keys that it sees, and the number of these keys at the end.
	starts     [][]int32
	extra      []float32 // rank less logit of the keys that a block sees
	rank       []float32
	top        []float32 // largest logit of a block
	sum        []float32
	sums       dense.Matrix[float32] // of a block and a cluster: weighted sums of keys and values
	mass       dense.Matrix[float32] // of a cluster and a block: sums of weights
	ones       []float32
	count      []int32   // exact keys of a block and a cluster
	sel        [][]int32 // exact keys of a block, as rows of problem.kv
	order      selector
	k, v       dense.Matrix[float32] // exact keys of a block, with their values
	panel      kern.Panel[float32]
	view       kern.Panel[float32]
	cents      dense.Matrix[float32] // centroids of a block, with the means of their values
	means      dense.Matrix[float32]
	bias       []float32
	weightless []bool // centroids without weight for the mean query
	dots       []float32
	fine       kern.Panel[float32]   // of centroids
	offset     dense.Matrix[float32] // Mx, then Rᵀx with RRᵀ = S, less their values at the mean query
	atMean     dense.Matrix[float32]
	// Of rows: s, the variance of logits inside of clusters, and e^{s/4}.
	spread []float64
	gain   []float32
	rows   []int32
	heads  []dense.Matrix[float32] // outputs of the group
}

// tilted computes the rows of a task.
func (c *call) tilted(w *worker, t jobRange) {
	p := c.problems[t.problem]
	blocks := p.blocks[t.lo:t.hi]
	b := &w.tilt
	b.mean = buf.Shaped(b.mean, len(blocks), c.q.Dim)
	for i, lo := range blocks {
		meanRow(c.tab, b.mean.Row(i), p.x.RowRange(int(lo), min(int(lo)+p.spec.queries, p.x.Rows)))
	}
	b.starts = b.starts[:0]
	for range blocks {
		b.starts = append(b.starts, p.start)
	}
	b.weigh(c.tab, p, nil)
	b.heads = b.heads[:0]
	for g := range c.group {
		b.heads = append(b.heads, c.out.Head(p.b, p.h*c.group+g))
	}
	for i, lo := range blocks {
		c.tiltedBlock(w, p, i, int(lo), min(int(lo)+p.spec.queries, p.x.Rows))
	}
}

// meanRow sets dst to the mean of the rows of x.
func meanRow(tab *kern.Table[float32], dst []float32, x dense.Matrix[float32]) {
	clear(dst)
	tab.ColSum(dst, x)
	tab.Scale(dst, float32(1/float64(x.Rows)))
}

// weigh computes the weights of keys for blocks, whose mean queries are in b.mean, chooses the exact keys, and sums the
// others by cluster. Blocks see the first keys of every cluster, as b.starts says; a block sees all keys that the
// blocks before it see. A key is ranked by its logit, plus its element of extra unless that is nil.
//
// The blocks of several chunks share the passes over keys and values, which take longer than the arithmetic. A row of
// b.w has the keys that the last block sees; those that its own block does not see have the weight 0.
func (b *tilt) weigh(tab *kern.Table[float32], p *problem, extra []float32) {
	blocks, all := b.mean.Rows, p.kv.Cols
	wide := b.starts[blocks-1] // the last block sees the most keys: all rows of b.w have its layout
	seen := int(wide[p.clusters])
	b.w = buf.Shaped(b.w, blocks, seen)
	b.top, b.sum = buf.Sized(b.top, blocks), buf.Sized(b.sum, blocks)
	b.sums = buf.Shaped(b.sums, blocks, p.clusters*all)
	b.mass = buf.Shaped(b.mass, p.clusters, blocks)
	for len(b.ones) < seen {
		b.ones = append(b.ones, 1)
	}
	for len(b.sel) < blocks {
		b.sel = append(b.sel, nil)
	}
	b.count = buf.Zeroed(b.count, blocks*p.clusters)
	if seen == len(p.keys) {
		tab.MulT(b.w, b.mean, &p.packed, nil)
	} else {
		b.all = buf.Shaped(b.all, blocks, len(p.keys))
		tab.MulT(b.all, b.mean, &p.packed, nil)
		for i := range blocks {
			narrow(b.w.Row(i), wide, b.all.Row(i), p.start)
		}
	}
	// Hidden keys are never the largest, and weigh e^−∞ = 0.
	for i, own := range b.starts {
		b.hide(b.w.Row(i), own, wide)
	}
	tab.RowMax(b.top, b.w)
	// Ranks are logits, so keys are chosen before b.w holds weights.
	terms := extra
	for i, own := range b.starts {
		if n := int(own[p.clusters]); extra != nil && n < len(p.keys) && b.firstOf(i) {
			b.extra = buf.Sized(b.extra, n)
			narrow(b.extra, own, extra, p.start)
			terms = b.extra
		} else if n == len(p.keys) {
			terms = extra
		}
		b.choose(tab, i, p.spec.keys, terms)
	}
	tab.ExpRows(b.sum, b.w, b.top)
	// Exact keys leave their clusters before these are summed: no key counts twice.
	for i := range blocks {
		b.take(p, i)
	}
	for x := range p.clusters {
		lo, hi := int(wide[x]), int(wide[x+1])
		if lo == hi {
			clear(b.mass.Row(x))
			continue
		}
		part, from := b.w.ColRange(lo, hi), int(p.start[x])
		tab.Product(b.sums.ColRange(x*all, (x+1)*all), part, p.kv.RowRange(from, from+hi-lo), false)
		for i := 0; i < blocks; {
			end := i + 1
			for end < blocks && !b.firstOf(end) {
				end++
			}
			// The weights of the keys that the blocks see, and no zeros: bits do not depend on what other blocks see.
			n := int(b.starts[i][x+1] - b.starts[i][x])
			tab.MulV(b.mass.Row(x)[i:end], b.w.RowRange(i, end).ColRange(lo, lo+n), b.ones[:n])
			i = end
		}
	}
}

// firstOf tells whether block i sees other keys than the block before it.
func (b *tilt) firstOf(i int) bool { return i == 0 || &b.starts[i][0] != &b.starts[i-1][0] }

// hide sets the logits of keys that a block does not see to −∞.
func (b *tilt) hide(row []float32, own, wide []int32) {
	if own[len(own)-1] == wide[len(wide)-1] {
		return
	}
	for x := range len(own) - 1 {
		hidden := row[wide[x]+own[x+1]-own[x] : wide[x+1]]
		for j := range hidden {
			hidden[j] = float32(math.Inf(-1))
		}
	}
}

// narrow copies the first elements of each cluster, as many as dst has. The clusters of dst and src begin at to and at
// from.
func narrow(dst []float32, to []int32, src []float32, from []int32) {
	for x := range len(to) - 1 {
		copy(dst[to[x]:to[x+1]], src[from[x]:])
	}
}

// choose lists the keys of the largest ranks for block i, counted among those that it sees.
func (b *tilt) choose(tab *kern.Table[float32], i, keys int, extra []float32) {
	row, own, wide := b.w.Row(i), b.starts[i], b.starts[len(b.starts)-1]
	n := int(own[len(own)-1])
	if keys >= n {
		b.sel[i] = b.sel[i][:0]
		for j := range n {
			b.sel[i] = append(b.sel[i], int32(j))
		}
		return
	}
	if extra != nil || n < len(row) {
		b.rank = buf.Sized(b.rank, n)
		narrow(b.rank, own, row, wide)
		if row = b.rank; extra != nil {
			tab.MulAdd(row, extra, 1)
		}
	}
	b.sel[i] = b.order.top(b.sel[i], row, keys, tab)
}

// take sets the weights of the exact keys of block i to 0, counts these keys by cluster, and replaces their numbers by
// rows of p.kv.
func (b *tilt) take(p *problem, i int) {
	row, count, x := b.w.Row(i), b.count[i*p.clusters:(i+1)*p.clusters], 0
	own, wide := b.starts[i], b.starts[len(b.starts)-1]
	for l, j := range b.sel[i] { // in ascending order: x only moves forward
		for own[x+1] <= j {
			x++
		}
		count[x]++
		row[j-own[x]+wide[x]] = 0
		b.sel[i][l] = j - own[x] + p.start[x]
	}
}

// load gathers the exact keys of block i.
func (b *tilt) load(tab *kern.Table[float32], p *problem, i int) {
	sel, d, all := b.sel[i], p.packed.Cols, p.kv.Cols
	b.k, b.v = buf.Shaped(b.k, len(sel), d), buf.Shaped(b.v, len(sel), all-d)
	tab.Gather(b.k, p.kv.ColRange(0, d), sel)
	tab.Gather(b.v, p.kv.ColRange(d, all), sel)
	tab.Pack(&b.panel, b.k)
}

// addExact adds the exact keys that load has gathered.
func (b *tilt) addExact(t *tiles) {
	for lo := 0; lo < b.v.Rows; lo += gatherKeys {
		hi := min(lo+gatherKeys, b.v.Rows)
		b.view = kern.Panel[float32]{Rows: hi - lo, Cols: b.k.Cols, Width: b.panel.Width,
			Data: b.panel.Data[lo*b.k.Cols:]}
		t.add(&b.view, b.v.RowRange(lo, hi), nil, nil)
	}
}

// leastMass is the least mass, in units of the largest weight, of a cluster whose weighted means are precise: smaller
// masses lose bits, and their inverses are beyond the range of float32.
const leastMass = 0x1p-100

// loadCentroids makes the centroids of block i from the keys that are not exact. The bias of a centroid is log n −
// x̄·c, so its weight is n·e^{(x−x̄)·c}.
func (b *tilt) loadCentroids(tab *kern.Table[float32], p *problem, i int) {
	d, all, start := p.packed.Cols, p.kv.Cols, b.starts[i]
	b.cents, b.means = buf.Shaped(b.cents, p.clusters, d), buf.Shaped(b.means, p.clusters, all-d)
	b.bias, b.weightless = buf.Sized(b.bias, p.clusters), buf.Zeroed(b.weightless, p.clusters)
	at := 0
	sums := view(b.sums.Row(i), p.clusters, all)
	for x := range p.clusters {
		mass, n, row := b.mass.At(x, i), start[x+1]-start[x], sums.Row(x)
		switch {
		case mass > leastMass:
			tab.Scale(row, 1/mass)
		case n > 0 && b.count[i*p.clusters+x] == 0:
			// The cluster is too light for the mean query, perhaps not for other queries: its plain mean stands for it.
			meanRow(tab, row, p.kv.RowRange(int(p.start[x]), int(p.start[x]+n)))
			mass, b.weightless[at] = float32(n), true
		default: // no keys, or none beside exact ones that weighs anything
			continue
		}
		copy(b.cents.Row(at), row)
		copy(b.means.Row(at), row[d:])
		b.bias[at] = mass
		at++
	}
	b.cents.Rows, b.means.Rows, b.bias = at, at, b.bias[:at] // the matrices keep their memory
	tab.Log(b.bias)
	b.dots = buf.Sized(b.dots, at)
	tab.MulV(b.dots, b.cents, b.mean.Row(i))
	for l, dot := range b.dots {
		if !b.weightless[l] { // masses are in units of e^top
			b.bias[l] += b.top[i] - dot
		}
	}
	tab.Pack(&b.fine, b.cents)
}

// addCentroids begins the sums of t with the centroids of block i. slope holds M and R of the comment at the top, or
// has no rows. Rows that have no reference yet get one.
func (b *tilt) addCentroids(t *tiles, p *problem, slope *kern.Panel[float32], i int) {
	b.loadCentroids(t.tab, p, i)
	if b.cents.Rows == 0 {
		return
	}
	t.fillShifts(&b.fine, b.bias)
	if slope.Rows == 0 {
		t.add(&b.fine, b.means, b.bias, nil)
		return
	}
	rows, dv := t.x.Rows, t.acc.Cols
	b.offset, b.atMean = buf.Shaped(b.offset, rows, slope.Rows), buf.Shaped(b.atMean, 1, slope.Rows)
	t.tab.MulT(b.atMean, b.mean.RowRange(i, i+1), slope, nil)
	t.tab.Scale(b.atMean.Data, -1)
	t.tab.MulT(b.offset, t.x, slope, b.atMean.Row(0))
	finite := t.tab.Finite(b.offset.Data[:rows*slope.Rows])
	b.spread, b.gain = buf.Sized(b.spread, rows), buf.Sized(b.gain, rows)
	t.tab.Norms(b.spread, b.offset.ColRange(dv, slope.Rows))
	for r, s := range b.spread {
		if b.gain[r] = float32(min(s/4, maxOffset)); !finite && !dense.IsFinite(s) {
			b.gain[r] = 0
		}
		t.shift[r] -= b.gain[r] // all masses are larger by e^{s/4}
	}
	t.add(&b.fine, b.means, b.bias, nil)
	for r, s := range b.spread {
		t.shift[r] += b.gain[r]
		if row := b.offset.Row(r)[:dv]; finite || dense.IsFinite(s) && t.tab.Finite(row) {
			t.tab.MulAdd(t.acc.Row(r)[:dv], row, float32(t.sum[r]*min(1, maxOffset/math.Sqrt(max(s, tiny)))))
		}
	}
}

// maxOffset standard deviations of the logits inside of clusters are the farthest that values are extrapolated.
const maxOffset = 2

// tiltedBlock computes the rows lo to hi−1 of the order, which are block i of a task.
func (c *call) tiltedBlock(w *worker, p *problem, i, lo, hi int) {
	b, t := &w.tilt, &w.tiles
	n := p.span.Q1 - p.span.Q0
	b.load(c.tab, p, i)
	t.begin(c.tab, hi-lo, c.k.Dim, c.v.Dim)
	own := t.x
	b.rows = append(b.rows[:0], p.rows.order[lo:hi]...)
	if c.wanted == nil {
		t.x = p.x.RowRange(lo, hi)
	} else {
		b.rows = b.rows[:0]
		for l := lo; l < hi; l++ {
			if r := p.rows.order[l]; p.place[int(r)%n] >= 0 {
				copy(t.x.Row(len(b.rows)), p.x.Row(l))
				b.rows = append(b.rows, r)
			}
		}
		t.x, t.acc = t.x.RowRange(0, len(b.rows)), t.acc.RowRange(0, len(b.rows))
		t.shift, t.sum, t.sums = t.shift[:len(b.rows)], t.sum[:len(b.rows)], t.sums[:len(b.rows)]
	}
	b.addCentroids(t, p, &p.slope.Panel, i)
	b.addExact(t)
	t.x = own
	w.report.Exact += int64(len(b.sel[i])) * int64(len(b.rows))
	w.report.Rows += int64(len(b.rows))
	for l, r := range b.rows {
		g, row := int(r)/n, int(r)%n
		at := p.span.Q0 + row
		if c.wanted != nil {
			at = int(p.place[row])
		}
		if !t.finish(b.heads[g].Row(at), l) {
			w.report.Empty++
		}
	}
}

const (
	// slopeKeys keys at equal distances make a slope, in slopeParts parts, which are items of their own.
	slopeKeys  = 1024
	slopeParts = 4
)

// slope holds M = Cov(v, y), and below it Rᵀ with RRᵀ = Cov(y), inside of clusters. It has no rows if there is no key
// more than clusters.
type slope struct {
	kern.Panel[float32]
	sums [slopeParts]dense.Matrix[float32] // products of the differences of a part from the means of its clusters
	free [slopeParts]int                   // their degrees of freedom
	left atomic.Int32                      // parts that are not finished
}

// begin makes s wait for all parts.
func (s *slope) begin() {
	s.Rows = 0
	s.left.Store(slopeParts)
}

// slopes adds a part to s, from a sample of the first n keys of p. The last part to finish makes the panel.
//
// The sample is in the order of clusters, and a cluster belongs to one part. The sums of the parts are added in their
// order: bits do not depend on who finishes last.
func (c *call) slopes(w *worker, s *slope, p *problem, n, part int) {
	d, dv, m := c.k.Dim, c.v.Dim, min(n, slopeKeys)
	k, v := c.k.Head(p.b, p.h), c.v.Head(p.b, p.h)
	w.diff, w.one = buf.Shaped(w.diff, m, dv+d), buf.Sized(w.one, dv+d)
	rows, from := 0, 0 // the rows of the part so far, and the first row of the last cluster
	s.free[part] = 0
	centre := func() {
		if rows > from {
			meanRow(c.tab, w.one, w.diff.RowRange(from, rows))
			for r := from; r < rows; r++ {
				c.tab.MulAdd(w.diff.Row(r), w.one, -1)
			}
			s.free[part] += rows - from - 1
		}
		from = rows
	}
	take := func(j int32) {
		row := w.diff.Row(rows)
		copy(row, v.Row(int(p.keys[j])))
		copy(row[dv:], k.Row(int(p.keys[j])))
		rows++
	}
	if n == len(p.keys) {
		// Sample at is key (2at+1)·n/2m of the order.
		cluster, begin := int32(-1), (part*m+slopeParts-1)/slopeParts
		if begin > 0 { // the cluster of the sample before belongs to another part
			cluster = p.found[p.order[(2*begin-1)*n/(2*m)]]
		}
		for at, mine := begin, false; at < m; at++ {
			j := p.order[(2*at+1)*n/(2*m)]
			if x := p.found[j]; x != cluster { // its first sample decides to which part a cluster belongs
				centre()
				cluster, mine = x, at*slopeParts/m == part
				if !mine {
					break
				}
			}
			if mine {
				take(j)
			}
		}
	} else { // the first n keys are scattered over the order: every part walks all of it
		cluster, mine := int32(-1), false
		for at, seen, i := 0, 0, 0; at < m; i++ {
			j := p.order[i]
			if int(j) >= n {
				continue
			}
			if seen++; seen <= (2*at+1)*n/(2*m) {
				continue
			}
			if x := p.found[j]; x != cluster {
				centre()
				cluster, mine = x, at*slopeParts/m == part
			}
			if at++; mine {
				take(j)
			}
		}
	}
	centre()
	w.diff.Rows = rows
	s.sums[part] = buf.Shaped(s.sums[part], dv+d, d)
	clear(s.sums[part].Data)
	c.tab.TMul(s.sums[part], w.diff, w.diff.ColRange(dv, dv+d))
	if s.left.Add(-1) == 0 {
		c.finishSlope(w, s)
	}
}

// finishSlope makes the panel from the sums of the parts.
func (c *call) finishSlope(w *worker, s *slope) {
	d, dv, free, sum := c.k.Dim, c.v.Dim, 0, s.sums[0]
	for i, part := range s.sums {
		if free += s.free[i]; i > 0 {
			c.tab.MulAdd(sum.Data, part.Data, 1)
		}
	}
	if free == 0 {
		return
	}
	if !c.tab.Finite(sum.Data) { // a factor of the covariance would not show it
		return
	}
	c.tab.Scale(sum.Data, float32(1/float64(free)))
	cov := sum.RowRange(dv, dv+d)
	w.values = buf.Shaped(w.values, d, d)
	w.fit.factorise(w.values, cov, 1)
	for i := range d {
		for j := range d {
			cov.Set(j, i, w.values.At(i, j))
		}
	}
	c.tab.Pack(&s.Panel, sum)
}

// sortKeys gathers the sorted keys lo to hi−1 of p, with their values beside them, and packs them.
func (c *call) sortKeys(w *worker, p *problem, lo, hi int) {
	d := c.k.Dim
	w.count = buf.Sized(w.count, hi-lo)
	for i, j := range p.order[lo:hi] {
		w.count[i] = p.keys[j]
	}
	rows := p.kv.RowRange(lo, hi)
	c.tab.Gather(rows.ColRange(0, d), c.k.Head(p.b, p.h), w.count)
	c.tab.Gather(rows.ColRange(d, rows.Cols), c.v.Head(p.b, p.h), w.count)
	c.tab.PackRows(&p.packed, p.kv.ColRange(0, d), lo, hi)
}
