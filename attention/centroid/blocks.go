package centroid

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Bidirectional attention with Spec.Together. The queries of all heads of a group are sorted (rowOrder) and cut into
// blocks. The rows of a block together choose the clusters with the largest expected error,
//
//	Σ_rows n_c e^{x·c} / Z_row · ρ_c ν_c / √n_c,
//
// and the members of these clusters are exact for all rows of the block. Clusters that another row has chosen only
// lower the error of a row. Row r of a problem is query r%n of head r/n of the group, with n the number of queries of
// the span.

// metricRows keys and queries at equal distances make the coordinates that queries are sorted by.
const metricRows = 512

// leaveRows leaves the queries of p in their order.
func (c *call[T]) leaveRows(p *problem[T]) {
	o := &p.rows
	o.order = buf.Sized(o.order, (p.span.Q1-p.span.Q0)*c.group)
	for i := range o.order {
		o.order[i] = int32(i)
	}
}

// sortRows orders the queries of p, which has so many keys.
func (c *call[T]) sortRows(w *worker[T], p *problem[T], keys int, key func(i int) []T) {
	d, n := c.q.Dim, p.span.Q1-p.span.Q0
	o := &p.rows
	rows := n * c.group
	w.fit.tab = c.tab
	o.z = buf.Shaped(o.z, rows, min(orderCoordinates, d))
	if rows <= p.spec.Together { // any order serves
		c.leaveRows(p)
		return
	}
	m := min(keys, metricRows)
	w.diff = buf.Shaped(w.diff, m, d)
	for i := range m {
		copy(w.diff.Row(i), key((2*i+1)*keys/(2*m)))
	}
	c.covariance(w) // of the keys
	metric := dense.New[float64](d, d)
	for i := range metric.Data {
		metric.Data[i] = float64(w.tile.Data[i])
	}
	w.values = buf.Shaped(w.values, d, d)
	factorise(w.values, metric)
	m = min(rows, metricRows)
	w.diff = buf.Shaped(w.diff, m, d)
	for i := range m {
		r := (2*i + 1) * rows / (2 * m)
		copy(w.diff.Row(i), c.q.Head(p.b, p.h*c.group+r/n).Row(p.span.Q0+r%n))
	}
	unit := c.covariance(w) // of the queries
	// Queries differ as much as their logits do: |Fᵀ(x−x')|² with FFᵀ the covariance of the keys. The coordinates are
	// the principal ones of Fᵀx, whose covariance is Fᵀ·Cov(x)·F.
	r := o.z.Cols
	half, both := view(buf.Sized(w.x.Data, d*d), d, d), view(buf.Sized(w.acc.Data, d*d), d, d)
	w.x.Data, w.acc.Data = half.Data, both.Data
	c.tab.Product(half, w.tile, w.values, false)
	clear(both.Data)
	c.tab.TMul(both, w.values, half)
	w.diff, w.tile = buf.Shaped(w.diff, r, d), buf.Shaped(w.tile, r, d)
	principal(c.tab, w.diff, w.tile, both)
	c.tab.Pack(&w.axes, w.values)
	c.tab.MulT(w.tile, w.diff, &w.axes, nil)
	c.tab.Scale(w.tile.Data, T(unit))
	c.tab.Pack(&w.axes, w.tile)
	for g := range c.group {
		q := c.q.Head(p.b, p.h*c.group+g).RowRange(p.span.Q0, p.span.Q1)
		c.tab.MulT(o.z.RowRange(g*n, (g+1)*n), q, &w.axes, nil)
	}
	o.run(p.spec.Together)
}

// covariance sets w.tile to that of the rows of w.diff, which it centres and scales by the returned unit, up to a
// factor.
func (c *call[T]) covariance(w *worker[T]) (unit float64) {
	m, d := w.diff.Rows, w.diff.Cols
	unit = 1 / max(w.fit.longest(w.diff), tiny)
	c.tab.Scale(w.diff.Data, T(unit))
	w.part = buf.Zeroed(w.part, d)
	c.tab.ColSum(w.part, w.diff)
	for i := range m {
		c.tab.MulAdd(w.diff.Row(i), w.part, T(-1/float64(m)))
	}
	w.tile = buf.Shaped(w.tile, d, d)
	clear(w.tile.Data)
	c.tab.TMul(w.tile, w.diff, w.diff)
	return unit
}

// tiny is a length that may be divided by.
const tiny = 1e-30

// splitBlocks makes the tasks of problem i: blocks of sorted rows, those of wanted rows only. It returns their work.
func (c *call[T]) splitBlocks(i int) (work float64) {
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
	if p.spec.tilted() {
		return c.splitTilted(i)
	}
	each := p.rowWork() * float64(c.q.Dim+c.v.Dim)
	for lo := 0; lo < rows; lo += size {
		hi := min(lo+size, rows)
		if c.wanted != nil && !p.wants(n, lo, hi) {
			continue
		}
		c.tasks = append(c.tasks, rowTask{problem: i, lo: lo, hi: hi})
		work += each * float64(hi-lo)
	}
	return work
}

// wants tells whether some of the rows lo to hi−1 of the order are wanted.
func (p *problem[T]) wants(n, lo, hi int) bool {
	for _, r := range p.rows.order[lo:hi] {
		if p.place[int(r)%n] >= 0 {
			return true
		}
	}
	return false
}

// block computes the rows of a task.
func (c *call[T]) block(w *worker[T], t rowTask) {
	p := c.problems[t.problem]
	n := p.span.Q1 - p.span.Q0
	list := p.rows.order[t.lo:t.hi]
	b := &w.tiles
	b.begin(c.tab, len(list), c.q.Dim, c.v.Dim)
	for i, r := range list {
		copy(b.x.Row(i), c.q.Head(p.b, p.h*c.group+int(r)/n).Row(p.span.Q0+int(r)%n))
	}
	c.tab.Scale(b.x.Data, T(c.scale))
	if p.clusters > 0 {
		b.far(&p.panel, p.logSize)
	}
	// Sinks, and all visible keys where there are no clusters.
	sinks := min(p.spec.Sinks, p.span.K1-p.span.K0)
	exact := 0
	if sinks > 0 {
		c.loadSinks(w, p, sinks)
		b.add(&w.sinks.panel, w.sinks.values, nil, nil)
		exact = w.sinks.values.Rows
	}
	if c.voters != nil {
		b.hush(len(list), func(r int) bool { return c.voters[p.span.Q0+int(list[r])%n] })
	}
	b.choose(p.top, p.hazard)
	if c.wanted != nil {
		list = b.narrow(list, func(r int32) bool { return p.place[int(r)%n] >= 0 })
	}
	b.finishFar(p.mean)
	exact += b.addChosen(p.sorted)
	w.report.Exact += int64(exact) * int64(len(list))
	for i, r := range list {
		at := p.span.Q0 + int(r)%n
		if c.wanted != nil {
			at = int(p.place[int(r)%n])
		}
		w.report.Rows++
		if !b.finish(c.out.Head(p.b, p.h*c.group+int(r)/n).Row(at), i) {
			w.report.Empty++
		}
	}
}

// sorted are the keys and values of cluster x.
func (p *problem[T]) sorted(x int) (k, v []T) {
	lo, hi := int(p.start[x]), int(p.start[x+1])
	return p.k.Data[lo*p.k.Cols : hi*p.k.Cols], p.v.Data[lo*p.v.Cols : hi*p.v.Cols]
}

// narrow keeps the wanted rows of a block that has chosen its clusters, and returns their list.
func (t *tiles[T]) narrow(list []int32, wanted func(r int32) bool) []int32 {
	n := 0
	t.kept = t.kept[:0]
	for i, r := range list {
		if !wanted(r) {
			continue
		}
		copy(t.x.Row(n), t.x.Row(i))
		copy(t.acc.Row(n), t.acc.Row(i))
		copy(t.wide.Row(n), t.wide.Row(i))
		t.shift[n], t.sum[n] = t.shift[i], t.sum[i]
		t.kept = append(t.kept, r)
		n++
	}
	t.x, t.acc, t.wide = t.x.RowRange(0, n), t.acc.RowRange(0, n), t.wide.RowRange(0, n)
	t.shift, t.sum, t.sums = t.shift[:n], t.sum[:n], t.sums[:n]
	return t.kept
}

// loadSinks packs the first keys that are not masked.
func (c *call[T]) loadSinks(w *worker[T], p *problem[T], sinks int) {
	b := &w.sinks
	b.k, b.v = buf.Shaped(b.k, sinks, c.k.Dim), buf.Shaped(b.v, sinks, c.v.Dim)
	k, v := c.k.Head(p.b, p.h), c.v.Head(p.b, p.h)
	n := 0
	for j, x := range p.cluster[:sinks] {
		if x != hidden {
			copy(b.k.Row(n), k.Row(p.span.K0+j))
			copy(b.v.Row(n), v.Row(p.span.K0+j))
			n++
		}
	}
	b.keys, b.values = b.k.RowRange(0, n), b.v.RowRange(0, n)
	c.tab.Pack(&b.panel, b.keys)
}
