package centroid

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// geometry holds the Centres and Spec of one key/value head in the precision of the data, as causal attention uses
// them.
//
// The residual numbers of a key are small integers: q_r = round((p_r − p_r(centre)) / step_r) for p = PYᵀy. Sums of
// them and of their squares are therefore exact, in any order. Queries carry the steps: with a_r = step_r (PXᵀx)_r,
// a·(q_j − q_i) estimates x·(y_j − y_i) for two keys of a cluster.
type geometry[T dense.Float] struct {
	spec   Spec
	source *Centres
	tab    *kern.Table[T]
	d, dv  int
	k      int // clusters
	r      int // residual directions in use, 0 without any
	limit  T   // largest |q_r|
	assign assigner[T]
	px     kern.Panel[T]   // maps a query to a
	py     kern.Panel[T]   // maps a key to p/step
	p0     dense.Matrix[T] // p/step of each centre
}

// maxSpread caps σ² in the weight of a centroid. Beyond it, the normal approximation of the scores inside a cluster
// overestimates the weight of its keys.
const maxSpread = 6

// quantum returns the number of steps per standard deviation of a residual, and the largest integer, for a number of
// bits. 8 bits reach eight deviations, 4 bits three and a half.
func quantum(bits int) (steps, limit float64) {
	if bits == 4 {
		return 2, 7
	}
	return 16, 127
}

// newGeometry converts centres for keys of dimension dim and values of dimension dv. c may be nil if the spec has no
// clusters.
func newGeometry[T dense.Float](tab *kern.Table[T], s *Spec, c *Centres, dim, dv int) (*geometry[T], error) {
	g := &geometry[T]{spec: *s, source: c, tab: tab, d: dim, dv: dv}
	if s.Clusters == 0 {
		return g, nil
	}
	if c.Dim() != dim {
		return nil, fmt.Errorf("centres of dimension %d for keys of %d: %w", c.Dim(), dim, dense.ErrShape)
	}
	if n := c.ValueDim(); n > 0 && n != dv {
		return nil, fmt.Errorf("centres of values of dimension %d for %d: %w", n, dv, dense.ErrShape)
	}
	g.k = c.Clusters()
	g.assign.load(tab, c)
	if !s.filters() {
		return g, nil
	}
	px, py := c.Projections()
	g.r = min(s.residual(dim), px.Cols)
	if s.Residual > px.Cols && px.Cols < dim {
		return nil, fmt.Errorf("%d residual directions, the centres were fitted with %d: %w", s.Residual, px.Cols,
			ErrSpec)
	}
	steps, limit := quantum(s.bits())
	g.limit = T(limit)
	x, y := dense.New[T](g.r, dim), dense.New[T](g.r, dim)
	g.p0 = dense.New[T](g.k, g.r)
	for r := range g.r {
		step := c.Deviation()[r] / steps
		var per float64
		if step > 0 {
			per = 1 / step
		}
		for i := range dim {
			x.Set(r, i, T(px.At(i, r)*step))
			y.Set(r, i, T(py.At(i, r)*per))
		}
		for j := range g.k {
			var p float64
			for i, v := range c.Centre(j) {
				p += py.At(i, r) * v
			}
			g.p0.Set(j, r, T(p*per))
		}
	}
	tab.Pack(&g.px, x)
	tab.Pack(&g.py, y)
	return g, nil
}

// quantise writes the r residual numbers of each key of k to q, given the clusters c of the keys. tmp is scratch.
func (g *geometry[T]) quantise(q []int8, c []int32, k dense.Matrix[T], tmp *dense.Matrix[T]) {
	if g.r == 0 {
		return
	}
	*tmp = buf.Shaped(*tmp, k.Rows, g.r)
	g.tab.MulT(*tmp, k, &g.py, nil)
	for j := range k.Rows {
		p0, q := g.p0.Row(int(c[j])), q[j*g.r:(j+1)*g.r]
		for i, v := range tmp.Row(j) {
			q[i] = rounded(v-p0[i], g.limit)
		}
	}
}

// rounded returns the integer nearest to v within ±limit, and 0 for NaN.
func rounded[T dense.Float](v, limit T) int8 {
	switch {
	case v >= limit:
		return int8(limit)
	case v <= -limit:
		return -int8(limit)
	case v >= 0:
		return int8(v + 0.5)
	case v < 0:
		return -int8(-v + 0.5)
	}
	return 0
}
