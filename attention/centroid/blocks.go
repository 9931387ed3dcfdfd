package centroid

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// The order of bidirectional queries that choose together (rowOrder). Row r of a problem is query r%n of head r/n of
// the group, with n the number of queries of the span.

// metricRows keys and queries at equal distances make the coordinates that queries are sorted by. The number is prime:
// a distance that divides the length of joined passages would meet the same positions of all of them.
const metricRows = 509

// leaveRows leaves the queries of p in their order.
func (c *call) leaveRows(p *problem) {
	o := &p.rows
	o.order = buf.Sized(o.order, (p.span.Q1-p.span.Q0)*c.group)
	for i := range o.order {
		o.order[i] = int32(i)
	}
}

// orderAxes packs the coordinates that the queries q0 to q1−1 of the head of p are sorted by, given some of its keys.
func (c *call) orderAxes(w *worker, axes *kern.Panel[float32], p *problem, of []int32, q0, q1 int) {
	m := &w.moments
	c.keyFactor(w, m, p, of)
	c.queryMoments(w, m, p, q0, q1)
	c.makeAxes(w, m, axes)
}

// moments determine the coordinates of queries: a factor F of the covariance FFᵀ of keys, and the covariance of queries
// in a unit, both up to factors.
type moments struct {
	factor, queries dense.Matrix[float32]
	unit            float64
}

// keyFactor sets the factor of m, given some keys of the head of p.
func (c *call) keyFactor(w *worker, m *moments, p *problem, of []int32) {
	d, keys, k := c.k.Dim, len(of), c.k.Head(p.b, p.h)
	n := min(keys, metricRows)
	w.diff = buf.Shaped(w.diff, n, d)
	for i := range n {
		copy(w.diff.Row(i), k.Row(int(of[(2*i+1)*keys/(2*n)])))
	}
	c.covariance(w)
	m.factor = buf.Shaped(m.factor, d, d)
	w.fit.factorise(m.factor, w.tile, 1)
}

// queryMoments sets the covariance of the queries q0 to q1−1 of the head of p.
func (c *call) queryMoments(w *worker, m *moments, p *problem, q0, q1 int) {
	d, n := c.q.Dim, q1-q0
	rows := n * c.group
	use := min(rows, metricRows)
	w.diff = buf.Shaped(w.diff, use, d)
	for i := range use {
		r := (2*i + 1) * rows / (2 * use)
		copy(w.diff.Row(i), c.q.Head(p.b, p.h*c.group+r/n).Row(q0+r%n))
	}
	m.unit = c.covariance(w)
	m.queries = buf.Shaped(m.queries, d, d)
	copy(m.queries.Data, w.tile.Data)
}

// makeAxes packs the coordinates. Queries differ as much as their logits do: |Fᵀ(x−x')|². The coordinates are the
// principal ones of Fᵀx, whose covariance is Fᵀ·Cov(x)·F.
func (c *call) makeAxes(w *worker, m *moments, axes *kern.Panel[float32]) {
	d := c.q.Dim
	r := min(orderCoordinates, d)
	half, both := view(buf.Sized(w.x.Data, d*d), d, d), view(buf.Sized(w.acc.Data, d*d), d, d)
	w.x.Data, w.acc.Data = half.Data, both.Data
	c.tab.Product(half, m.queries, m.factor, false)
	clear(both.Data)
	c.tab.TMul(both, m.factor, half)
	w.diff, w.tile = buf.Shaped(w.diff, r, d), buf.Shaped(w.tile, r, d)
	principal(c.tab, w.diff, w.tile, both)
	c.tab.Pack(axes, m.factor)
	c.tab.MulT(w.tile, w.diff, axes, nil)
	c.tab.Scale(w.tile.Data, float32(m.unit))
	c.tab.Pack(axes, w.tile)
}

// covariance sets w.tile to the covariance of the rows of w.diff, up to a factor. It centres the rows and scales them
// by the returned unit.
func (c *call) covariance(w *worker) (unit float64) {
	m, d := w.diff.Rows, w.diff.Cols
	w.fit.tab = c.tab
	unit = 1 / max(w.fit.longest(w.diff), tiny)
	c.tab.Scale(w.diff.Data, float32(unit))
	w.part = buf.Zeroed(w.part, d)
	c.tab.ColSum(w.part, w.diff)
	for i := range m {
		c.tab.MulAdd(w.diff.Row(i), w.part, float32(-1/float64(m)))
	}
	w.tile = buf.Shaped(w.tile, d, d)
	clear(w.tile.Data)
	c.tab.TMul(w.tile, w.diff, w.diff)
	return unit
}

// tiny is a length that may be divided by.
const tiny = 1e-30

// wants tells whether some of the rows lo to hi−1 of the order are wanted.
func (p *problem) wants(n, lo, hi int) bool {
	for _, r := range p.rows.order[lo:hi] {
		if p.place[int(r)%n] >= 0 {
			return true
		}
	}
	return false
}
