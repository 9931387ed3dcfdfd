package centroid

import (
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Bidirectional attention with Spec.Together and Spec.Keys. The queries of all heads of a group are sorted (rowOrder)
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
// What v̄ misses is of first order: values that differ with the keys of a cluster move by Cov_w(v, y)·(x−x̄). Both
// terms are taken from all keys of the head at once, without weights: M = Cov(v, y) and S = Cov(y) inside of clusters.
// The centroids of a row then have the values v̄ + M(x−x̄) and masses larger by e^{s/4}, with s = (x−x̄)ᵀS(x−x̄). Half
// of the term of second order is left out since the keys that spread most are exact: half is better than none or all of
// it. Both terms end where s does not tell them any more (mostDrift). On real heads they lower the error by a third to
// a half, for the work of 32 keys per row.
//
// Clusters therefore are those of the metric E (x−x̄)(x−x̄)ᵀ, the covariance of queries inside of blocks. Few of them
// are enough: 64 instead of the L/16 that centroids for all queries need. The keys cost a block about 1.5 L
// multiply-adds per dimension, a hundredth of exact attention with blocks of 128 queries.

// tilted tells whether blocks of bidirectional queries weigh the keys themselves.
func (s *Spec) tilted() bool { return s.Together > 0 && s.Keys > 0 }

const (
	// tiltBlocks blocks at most share a pass over the keys, and fewTilts at least where many processors share them.
	tiltBlocks = 16
	fewTilts   = 4
	// tiltRows queries at equal distances measure the covariance inside of blocks.
	tiltRows = 1024
)

// gatherRows copies the queries lo to hi−1 of the order of p and scales them.
func (c *call[T]) gatherRows(p *problem[T], lo, hi int) {
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
	c.tab.Scale(x.Data[:x.Rows*x.Cols], T(c.scale))
}

// trainTilted trains the clusters of p, whose queries are in order.
func (c *call[T]) trainTilted(w *worker[T], p *problem[T]) {
	if p.single {
		return
	}
	if p.centres != nil {
		p.assign.load(c.tab, p.centres)
		return
	}
	f := c.fitter(w, p)
	c.measureBlocks(f, p)
	f.weights = buf.Sized(f.weights, len(f.keys))
	for j := range f.weights {
		f.weights[j] = T(1.1 / float64(len(f.weights)))
	}
	f.draw()
	f.coordinates()
	f.km.run(f.z, f.mass, f.spec.Clusters, f.spec.passes(false), f.spec.Seed)
	f.assigner(&p.assign)
}

// measureBlocks makes the covariance of queries inside of blocks the metric of f.
func (c *call[T]) measureBlocks(f *fitter[T], p *problem[T]) {
	size := p.spec.Together
	// Blocks at equal distances, or parts of large ones.
	blocks := (p.x.Rows + size - 1) / size
	rows := min(size, tiltRows)
	use := min(blocks, max(1, tiltRows/rows))
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
			c.tab.MulAdd(part.Row(r), f.mean, T(-1/float64(n)))
		}
		at += n
	}
	f.setMetric(f.x.RowRange(0, at), 1)
}

// splitTilted makes the tasks of problem i: some blocks each, those of wanted rows only. It returns their work.
func (c *call[T]) splitTilted(i int) (work float64) {
	p := c.problems[i]
	n, rows, size := p.span.Q1-p.span.Q0, len(p.rows.order), p.spec.Together
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
	both := float64(c.q.Dim + c.v.Dim)
	each := tiltBlocks
	if procs := runtime.GOMAXPROCS(0); procs > 1 { // a processor has several tasks: all wait for the last
		each = min(max(len(p.blocks)*c.used/(4*procs), fewTilts), each)
	}
	for lo := 0; lo < len(p.blocks); lo += each {
		hi := min(lo+each, len(p.blocks))
		c.tasks = append(c.tasks, rowTask{problem: i, lo: lo, hi: hi})
		work += float64(hi-lo) * both * (2*float64(len(p.keys)) + float64(size)*float64(p.clusters+p.spec.Keys))
	}
	return work
}

// tilt is what a worker makes blocks of.
type tilt[T dense.Float] struct {
	mean  dense.Matrix[T] // scaled mean queries of blocks
	w     dense.Matrix[T] // weights of the keys
	top   []T             // logits of the heaviest
	sum   []T
	sums  dense.Matrix[T] // of a block and a cluster: weighted sums of keys and values
	mass  dense.Matrix[T] // of a cluster and a block: their weights
	ones  []T
	count []int32   // exact keys of a block and a cluster
	sel   [][]int32 // exact keys of a block
	order selector[T]
	k, v  dense.Matrix[T] // the exact keys of a block
	panel kern.Panel[T]
	view  kern.Panel[T]
	cents dense.Matrix[T] // its centroids and the means of their values
	means dense.Matrix[T]
	bias  []T
	dots  []T
	drift dense.Matrix[T] // what values and masses differ by from those at the mean query
	still dense.Matrix[T]
	// of rows: the variance of logits inside of clusters, and what it makes of the masses
	spread []float64
	swell  []T
	fine   kern.Panel[T] // of centroids
	rows   []int32
	heads  []dense.Matrix[T] // outputs of the group
}

// tilted computes the rows of a task.
func (c *call[T]) tilted(w *worker[T], t rowTask) {
	p := c.problems[t.problem]
	blocks := p.blocks[t.lo:t.hi]
	b := &w.tilt
	b.mean = buf.Shaped(b.mean, len(blocks), c.q.Dim)
	for i, lo := range blocks {
		c.meanQuery(b.mean.Row(i), p, int(lo), min(int(lo)+p.spec.Together, p.x.Rows))
	}
	n, all := len(p.keys), c.k.Dim+c.v.Dim
	b.w = buf.Shaped(b.w, len(blocks), n)
	b.top, b.sum = buf.Sized(b.top, len(blocks)), buf.Sized(b.sum, len(blocks))
	b.sums = buf.Shaped(b.sums, len(blocks), p.clusters*all)
	b.mass = buf.Shaped(b.mass, p.clusters, len(blocks))
	for len(b.ones) < n {
		b.ones = append(b.ones, 1)
	}
	for len(b.sel) < len(blocks) {
		b.sel = append(b.sel, nil)
	}
	b.count = buf.Zeroed(b.count, len(blocks)*p.clusters)
	c.tab.MulT(b.w, b.mean, &p.packed, nil)
	c.tab.RowMax(b.top, b.w)
	for i := range blocks {
		b.choose(c.tab, i, p.spec.Keys)
	}
	c.tab.ExpRows(b.sum, b.w, b.top)
	for i := range blocks {
		b.take(p, i)
	}
	for x := range p.clusters {
		lo, hi := int(p.start[x]), int(p.start[x+1])
		part := b.w.ColRange(lo, hi)
		c.tab.Product(b.sums.ColRange(x*all, (x+1)*all), part, p.kv.RowRange(lo, hi), false)
		c.tab.MulV(b.mass.Row(x), part, b.ones[:hi-lo])
	}
	b.heads = b.heads[:0]
	for g := range c.group {
		b.heads = append(b.heads, c.out.Head(p.b, p.h*c.group+g))
	}
	for i, lo := range blocks {
		c.tiltedBlock(w, p, i, int(lo), min(int(lo)+p.spec.Together, p.x.Rows))
	}
}

// meanQuery sets dst to the mean of the rows lo to hi−1 that vote, or of all of them if none does.
func (c *call[T]) meanQuery(dst []T, p *problem[T], lo, hi int) {
	clear(dst)
	votes := 0
	if c.voters != nil {
		n := p.span.Q1 - p.span.Q0
		for i := lo; i < hi; i++ {
			if c.voters[p.span.Q0+int(p.rows.order[i])%n] {
				c.tab.MulAdd(dst, p.x.Row(i), 1)
				votes++
			}
		}
	}
	if votes == 0 {
		c.tab.ColSum(dst, p.x.RowRange(lo, hi))
		votes = hi - lo
	}
	c.tab.Scale(dst, T(1/float64(votes)))
}

// choose lists the keys of the largest logits of block i.
func (b *tilt[T]) choose(tab *kern.Table[T], i, keys int) {
	row := b.w.Row(i)
	if keys < len(row) {
		b.sel[i] = b.order.top(b.sel[i], row, keys, tab)
		return
	}
	b.sel[i] = b.sel[i][:0]
	for j := range row {
		b.sel[i] = append(b.sel[i], int32(j))
	}
}

// take takes the weights of the chosen keys of block i, and counts these by cluster.
func (b *tilt[T]) take(p *problem[T], i int) {
	row, count, x := b.w.Row(i), b.count[i*p.clusters:(i+1)*p.clusters], 0
	for _, j := range b.sel[i] {
		for p.start[x+1] <= j {
			x++
		}
		count[x]++
		row[j] = 0
	}
}

// load makes the exact keys of block i.
func (b *tilt[T]) load(tab *kern.Table[T], p *problem[T], i int) {
	sel, d, all := b.sel[i], p.centre.Cols, p.kv.Cols
	b.k, b.v = buf.Shaped(b.k, len(sel), d), buf.Shaped(b.v, len(sel), all-d)
	tab.Gather(b.k, p.kv.ColRange(0, d), sel)
	tab.Gather(b.v, p.kv.ColRange(d, all), sel)
	tab.Pack(&b.panel, b.k)
}

// loadCentroids makes the centroids of block i.
func (b *tilt[T]) loadCentroids(tab *kern.Table[T], p *problem[T], i int) {
	d, all := p.centre.Cols, p.kv.Cols
	b.cents, b.means = buf.Shaped(b.cents, p.clusters, d), buf.Shaped(b.means, p.clusters, all-d)
	b.bias = buf.Sized(b.bias, p.clusters)
	at := 0
	sums := view(b.sums.Row(i), p.clusters, all)
	for x := range p.clusters {
		y, v := b.cents.Row(at), b.means.Row(at)
		switch mass := b.mass.At(x, i); {
		case mass > 0:
			row := sums.Row(x)
			tab.Scale(row, 1/mass)
			copy(y, row)
			copy(v, row[d:])
			b.bias[at] = mass
		case b.count[i*p.clusters+x] == 0: // too light for the mean query, perhaps not for others
			copy(y, p.centre.Row(x))
			copy(v, p.mean.Row(x))
			b.bias[at] = 0
		default:
			continue
		}
		at++
	}
	// Of a mass n it is log n + top − x̄·y.
	b.cents, b.means, b.bias = b.cents.RowRange(0, at), b.means.RowRange(0, at), b.bias[:at]
	tab.Log(b.bias)
	b.dots = buf.Sized(b.dots, at)
	tab.MulV(b.dots, b.cents, b.mean.Row(i))
	for l, x := 0, 0; l < at; l, x = l+1, x+1 {
		for !(b.mass.At(x, i) > 0) && b.count[i*p.clusters+x] != 0 { // left out
			x++
		}
		if b.bias[l] += b.top[i] - b.dots[l]; !(b.mass.At(x, i) > 0) {
			b.bias[l] = p.logSize[x]
		}
	}
	tab.Pack(&b.fine, b.cents)
}

// addCentroids begins the sums with the centroids of block i.
func (b *tilt[T]) addCentroids(p *problem[T], t *tiles[T], i int) {
	b.loadCentroids(t.tab, p, i)
	if b.cents.Rows == 0 {
		return
	}
	t.guessShifts(&b.fine, b.bias)
	t.add(&b.fine, b.means, b.bias, nil)
	if p.slope.Rows == 0 {
		return
	}
	rows, dv := t.x.Rows, t.acc.Cols
	b.drift, b.still = buf.Shaped(b.drift, rows, p.slope.Rows), buf.Shaped(b.still, 1, p.slope.Rows)
	t.tab.MulT(b.still, b.mean.RowRange(i, i+1), &p.slope, nil)
	t.tab.Scale(b.still.Data, -1)
	t.tab.MulT(b.drift, t.x, &p.slope, b.still.Row(0))
	b.spread, b.swell = buf.Sized(b.spread, rows), buf.Sized(b.swell, rows)
	t.tab.Norms(b.spread, b.drift.ColRange(dv, p.slope.Rows))
	for r, s := range b.spread {
		b.swell[r] = T(min(s/4, mostDrift))
	}
	t.tab.Exp(b.swell, 0)
	finite := t.tab.Finite(b.drift.Data[:rows*p.slope.Rows])
	for r, s := range b.spread {
		row, acc := b.drift.Row(r)[:dv], t.acc.Row(r)[:dv]
		if !finite && !(dense.IsFinite(s) && t.tab.Finite(row)) {
			continue
		}
		f, g := b.swell[r], T(t.sum[r]*min(1, mostDrift/math.Sqrt(max(s, tiny))))
		for l, v := range row {
			acc[l] = f * (acc[l] + g*v)
		}
		t.sum[r] *= float64(f)
	}
}

// mostDrift standard deviations of the logits inside of clusters are the farthest that values are extrapolated.
const mostDrift = 2

// tiltedBlock computes the rows lo to hi−1 of the order, which are block i of a task.
func (c *call[T]) tiltedBlock(w *worker[T], p *problem[T], i, lo, hi int) {
	b, t := &w.tilt, &w.tiles
	n, d := p.span.Q1-p.span.Q0, c.k.Dim
	b.load(c.tab, p, i)
	t.begin(c.tab, hi-lo, d, c.v.Dim)
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
	b.addCentroids(p, t, i)
	for lo := 0; lo < b.v.Rows; lo += gatherKeys {
		hi := min(lo+gatherKeys, b.v.Rows)
		b.view = kern.Panel[T]{Rows: hi - lo, Cols: d, Width: b.panel.Width, Data: b.panel.Data[lo*d:]}
		t.add(&b.view, b.v.RowRange(lo, hi), nil, nil)
	}
	exact := len(b.sel[i])
	if sinks := min(p.spec.Sinks, p.span.K1-p.span.K0); sinks > 0 {
		c.loadSinks(w, p, sinks)
		t.add(&w.sinks.panel, w.sinks.values, nil, nil)
		exact += w.sinks.values.Rows
	}
	t.x = own
	w.report.Exact += int64(exact) * int64(len(b.rows))
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

// slopeKeys keys at equal distances make the slope.
const slopeKeys = 1024

// slopes sets the slope of p from a sample of its keys.
func (c *call[T]) slopes(w *worker[T], p *problem[T]) {
	n, d, dv := len(p.keys), c.k.Dim, c.v.Dim
	p.slope.Rows = 0
	if n <= p.clusters {
		return
	}
	m := min(n, slopeKeys)
	w.diff = buf.Shaped(w.diff, m, dv+d)
	for i, x := 0, 0; i < m; i++ {
		j := (2*i + 1) * n / (2 * m)
		for int(p.start[x+1]) <= j {
			x++
		}
		row, kv, mean, centre := w.diff.Row(i), p.kv.Row(j), p.mean.Row(x), p.centre.Row(x)
		for l, v := range mean {
			row[l] = kv[d+l] - v
		}
		row = row[dv:]
		for l, v := range centre {
			row[l] = kv[l] - v
		}
	}
	w.tile = buf.Shaped(w.tile, dv+d, d)
	clear(w.tile.Data)
	c.tab.TMul(w.tile, w.diff, w.diff.ColRange(dv, dv+d))
	c.tab.Scale(w.tile.Data, T(1/float64(m)))
	cov, metric := w.tile.RowRange(dv, dv+d), dense.New[float64](d, d)
	for i, v := range cov.Data[:d*d] {
		metric.Data[i] = float64(v)
	}
	w.values = buf.Shaped(w.values, d, d)
	factorise(w.values, metric)
	for i := range d {
		for j := range d {
			cov.Set(j, i, w.values.At(i, j))
		}
	}
	if c.tab.Finite(w.tile.Data) {
		c.tab.Pack(&p.slope, w.tile)
	}
}

// centroidsTilted is centroids for p: sorted keys and values side by side, and plain means.
func (c *call[T]) centroidsTilted(w *worker[T], p *problem[T], first, end int) {
	k, v, d := c.k.Head(p.b, p.h), c.v.Head(p.b, p.h), c.k.Dim
	lo, hi := int(p.start[first]), int(p.start[end])
	w.count = buf.Sized(w.count, hi-lo)
	for i, j := range p.order[lo:hi] {
		w.count[i] = p.keys[j]
	}
	rows := p.kv.RowRange(lo, hi)
	c.tab.Gather(rows.ColRange(0, d), k, w.count)
	c.tab.Gather(rows.ColRange(d, rows.Cols), v, w.count)
	for x := first; x < end; x++ {
		part := p.kv.RowRange(int(p.start[x]), int(p.start[x+1]))
		p.logSize[x] = T(math.Log(float64(part.Rows)))
		w.one = buf.Zeroed(w.one, part.Cols)
		c.tab.ColSum(w.one, part)
		c.tab.Scale(w.one, T(1/float64(part.Rows)))
		copy(p.centre.Row(x), w.one)
		copy(p.mean.Row(x), w.one[d:])
	}
}
