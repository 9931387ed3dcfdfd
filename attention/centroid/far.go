package centroid

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// sums holds the running sums of the clusters of one head. Sums are kept in float64, so that a mean of 10⁷ keys loses
// no digits of T. Sums of the residual numbers, which are small integers, are exact.
type sums struct {
	n  []int64   // keys
	yv []float64 // Σy, then Σv, for each cluster
	q  []int64   // Σq, then Σq², for each cluster
}

func (s *sums) reset(k, width, r int) {
	s.n = buf.Zeroed(s.n, k)
	s.yv = buf.Zeroed(s.yv, k*width)
	s.q = buf.Zeroed(s.q, k*2*r)
}

func (s *sums) copyFrom(o *sums) {
	s.n = append(s.n[:0], o.n...)
	s.yv = append(s.yv[:0], o.yv...)
	s.q = append(s.q[:0], o.q...)
}

// addKey adds a key to cluster c, with its value and its residual numbers.
func addKey[T dense.Float](s *sums, c int, y, v []T, q []int8) {
	s.n[c]++
	w := len(y) + len(v)
	yv := s.yv[c*w : (c+1)*w]
	for i, x := range y {
		yv[i] += float64(x)
	}
	yv = yv[len(y):]
	for i, x := range v {
		yv[i] += float64(x)
	}
	r := len(q)
	a, b := s.q[2*c*r:(2*c+1)*r], s.q[(2*c+1)*r:(2*c+2)*r]
	for i, x := range q {
		a[i] += int64(x)
		b[i] += int64(x) * int64(x)
	}
}

// far is the view that the queries of a block have of the clusters: the sums and everything derived from them. Call add
// for new keys, then refresh, which updates the derived numbers of the changed clusters only.
type far[T dense.Float] struct {
	g *geometry[T]
	sums
	total int64

	count  []T             // n in T
	logn   []T             // log n, −∞ for an empty cluster
	mean   kern.Panel[T]   // Σy/n
	value  dense.Matrix[T] // Σv/n: sums of large values might overflow T
	spread kern.Panel[T]   // Var q
	middle dense.Matrix[T] // mean q
	stale  []bool
	list   []int32 // stale clusters
	empty  []int32 // clusters without keys
}

// reset empties the clusters.
func (f *far[T]) reset(g *geometry[T]) {
	f.g, f.total = g, 0
	f.sums.reset(g.k, g.d+g.dv, g.r)
	f.derived()
}

// load replaces the sums by a copy of s.
func (f *far[T]) load(g *geometry[T], s *sums) {
	f.g, f.total = g, 0
	f.sums.copyFrom(s)
	f.derived()
	for c, n := range f.n {
		f.total += n
		if n > 0 {
			f.touch(c)
		}
	}
	f.refresh()
}

// derived resets everything derived from sums to the state of empty clusters.
func (f *far[T]) derived() {
	g := f.g
	f.count = buf.Zeroed(f.count, g.k)
	f.logn = buf.Sized(f.logn, g.k)
	for c := range f.logn {
		f.logn[c] = T(math.Inf(-1))
	}
	zeroPanel(g.tab, &f.mean, g.k, g.d)
	zeroPanel(g.tab, &f.spread, g.k, g.r)
	f.value = buf.Shaped(f.value, g.k, g.dv)
	clear(f.value.Data)
	f.middle = buf.Shaped(f.middle, g.k, g.r)
	clear(f.middle.Data)
	f.stale = buf.Zeroed(f.stale, g.k)
	f.list = buf.Sized(f.list, g.k)[:0]
	f.listEmpty()
}

// listEmpty lists the clusters without keys, whose scores must be −∞.
func (f *far[T]) listEmpty() {
	f.empty = buf.Sized(f.empty, f.g.k)[:0]
	for c, n := range f.count {
		if n == 0 {
			f.empty = append(f.empty, int32(c))
		}
	}
}

// zeroPanel makes p a packed matrix of zeros and reuses its memory if it suffices.
func zeroPanel[T dense.Float](tab *kern.Table[T], p *kern.Panel[T], rows, cols int) {
	n := (rows + tab.Width - 1) / tab.Width * tab.Width * cols
	if cap(p.Data) < n {
		tab.Pack(p, dense.New[T](rows, cols))
		return
	}
	*p = kern.Panel[T]{Rows: rows, Cols: cols, Width: tab.Width, Data: p.Data[:n]}
	clear(p.Data)
}

func (f *far[T]) touch(c int) {
	if !f.stale[c] {
		f.stale[c] = true
		f.list = append(f.list, int32(c))
	}
}

func (f *far[T]) add(c int, y, v []T, q []int8) {
	addKey(&f.sums, c, y, v, q)
	f.total++
	f.touch(c)
}

// refresh updates the derived numbers of the changed clusters.
func (f *far[T]) refresh() {
	g := f.g
	w := g.d + g.dv
	fresh := false
	for _, c32 := range f.list {
		c := int(c32)
		f.stale[c] = false
		fresh = fresh || f.count[c] == 0
		n := float64(f.n[c])
		f.count[c], f.logn[c] = T(n), T(math.Log(n))
		yv := f.yv[c*w : (c+1)*w]
		at := outputOf(&f.mean, c)
		for _, s := range yv[:g.d] {
			f.mean.Data[at] = T(s / n)
			at += f.mean.Width
		}
		for i, s := range yv[g.d:] {
			f.value.Data[c*g.dv+i] = T(s / n)
		}
		at = outputOf(&f.spread, c)
		a, b := f.q[2*c*g.r:(2*c+1)*g.r], f.q[(2*c+1)*g.r:(2*c+2)*g.r]
		for i := range a {
			m := float64(a[i]) / n
			f.middle.Data[c*g.r+i] = T(m)
			f.spread.Data[at] = T(max(0, float64(b[i])/n-m*m))
			at += f.spread.Width
		}
	}
	f.list = f.list[:0]
	if fresh {
		f.listEmpty()
	}
}

// outputOf returns the index of the first input of output j of a panel; the next inputs are Width apart.
func outputOf[T dense.Float](p *kern.Panel[T], j int) int {
	return j/p.Width*p.Cols*p.Width + j%p.Width
}
