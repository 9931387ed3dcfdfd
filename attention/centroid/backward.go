package centroid

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Backward sets dq, dk and dv to the gradients of Σ out⊙dout, where out is the result of Forward on q, k and v.
//
// The cluster of each key, the weights of keys in their centroids and the choice of exact clusters are held constant:
// they are piecewise constant in the inputs and change only at ties. A centroid passes its gradient to its keys in
// proportion to their weights. The mean of the values passes its gradient to them in equal parts.
//
// Causal attention needs Centres that were fitted to other data. The residual numbers of its keys are held constant
// too; their effect on a query's logits is differentiated.
//
// The results are bit-identical at any GOMAXPROCS: tasks of query blocks add to shared gradients in a fixed order.
func (a *Attention[T]) Backward(dq, dk, dv, dout, out, q, k, v attention.Seq[T]) error {
	if a.Workers > 0 {
		_, err := par.Result(a.Workers, func() (struct{}, error) {
			return struct{}{}, gradients(a, dq, dk, dv, dout, out, q, k, v)
		})
		return err
	}
	return gradients(a, dq, dk, dv, dout, out, q, k, v)
}

// gradients is Backward under the limit of Workers that the caller has set.
func gradients[T dense.Float](a *Attention[T], dq, dk, dv, dout, out, q, k, v attention.Seq[T]) error {
	for _, s := range [...]struct {
		name, like string
		got, want  attention.Seq[T]
	}{{"out", "out", out, out}, {"dq", "q", dq, q}, {"dk", "k", dk, k}, {"dv", "v", dv, v},
		{"dout", "out", dout, out}} {
		if err := s.got.Check(s.name); err != nil {
			return err
		}
		if s.got.Shape != s.want.Shape {
			return fmt.Errorf("%s is %v, %s %v, want them equal: %w", s.name, s.got.Shape, s.like, s.want.Shape,
				dense.ErrShape)
		}
	}
	if err := checkArguments(a, out.Shape, q, k, v); err != nil {
		return err
	}
	for h := range a.Specs {
		if n := a.Specs[h].Together; n > 0 {
			return fmt.Errorf("head %d: gradients are of queries that choose by themselves, set together to 0, not %d: %w",
				h, n, ErrSpec)
		}
	}
	if a.Causal {
		return backwardCausal(a, dq, dk, dv, dout, out, q, k, v)
	}
	c := poolsOf(a).calls.Get()
	defer poolsOf(a).calls.Put(c)
	defer c.forget()
	if err := c.start(a, out, q, k, v); err != nil {
		return err
	}
	if !a.Unchecked {
		if err := checkFinite(c.tab, q, k, v, c.seen); err != nil {
			return err
		}
		for _, s := range [...]struct {
			name string
			seq  attention.Seq[T]
		}{{"out", out}, {"dout", dout}} {
			if err := finite(c.tab, s.name, s.seq, nil); err != nil {
				return err
			}
		}
	}
	c.dout, c.dq, c.dk, c.dv = dout, dq, dk, dv
	c.prepare()
	for _, m := range [...]attention.Seq[T]{dk, dv} {
		par.For(m.Batch*m.Heads*m.Len, 1<<20/max(1, m.Dim), func(lo, hi int) {
			for ; lo < hi; lo++ {
				head := lo / m.Len
				clear(m.Head(head/m.Heads, head%m.Heads).Row(lo % m.Len))
			}
		})
	}
	work := c.splitGrad()
	c.do(len(c.chunks), work, (*emptyStep[T])(c))
	c.do(len(c.tasks), work, &gradStep[T]{c: c})
	c.do(len(c.chunks), work, (*deliverStep[T])(c))
	return nil
}

func clearRows[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		clear(m.Row(i))
	}
}

// The steps of Backward run one after the other. The comment names the item of a step.
type (
	emptyStep[T dense.Float]   call[T] // clear the gradients of some clusters and their keys
	deliverStep[T dense.Float] call[T] // pass the gradients of some clusters on to their keys
)

func (s *emptyStep[T]) Item(_ *worker[T], i int) error {
	x := s.chunks[i]
	p := s.problems[x.problem]
	keys, end := int(p.start[x.lo]), int(p.start[x.hi])
	for _, m := range [...]dense.Matrix[T]{p.dCentre.RowRange(x.lo, x.hi), p.dMean.RowRange(x.lo, x.hi),
		p.dK.RowRange(keys, end), p.dV.RowRange(keys, end)} {
		clear(m.Data)
	}
	return nil
}

// gradStep is the step of Backward whose items are the tasks: the queries of a task. Tasks wait for the task before
// them (await), so it is a par.Waiter.
type gradStep[T dense.Float] struct {
	c    *call[T]
	stop atomic.Bool // a task has panicked
}

func (s *gradStep[T]) Item(w *worker[T], i int) error {
	w.grad.stop = &s.stop
	s.c.gradTask(w, i)
	return nil
}

// Release ends the waits of all tasks by a panic.
func (s *gradStep[T]) Release() { s.stop.Store(true) }

// Item adds to each key its exact gradient and its share of the gradient of its centroid.
func (s *deliverStep[T]) Item(_ *worker[T], i int) error {
	at := s.chunks[i]
	p := s.problems[at.problem]
	dk, dv := s.dk.Head(p.b, p.h), s.dv.Head(p.b, p.h)
	for x := at.lo; x < at.hi; x++ {
		for i := int(p.start[x]); i < int(p.start[x+1]); i++ {
			at := int(p.keys[p.order[i]])
			s.tab.MulAdd(dk.Row(at), p.dK.Row(i), 1)
			s.tab.MulAdd(dk.Row(at), p.dCentre.Row(x), p.share[i])
			s.tab.MulAdd(dv.Row(at), p.dV.Row(i), 1)
			s.tab.MulAdd(dv.Row(at), p.dMean.Row(x), p.perKey[x])
		}
	}
	return nil
}

// splitGrad makes the tasks of the gradients and their memory, and returns an estimate of the work. The tasks do not
// depend on GOMAXPROCS, because their borders fix the order of the sums.
func (c *call[T]) splitGrad() (work float64) {
	c.tasks = c.tasks[:0]
	for i, p := range c.problems[:c.used] {
		n := p.span.Q1 - p.span.Q0
		work += 3 * p.rowWork() * float64(n*c.group) * float64(c.q.Dim+c.v.Dim)
		rows := min(max(n*c.group/gradTasks, fewestGradRows), gradRows)
		rows = max(1, rows/c.group/tileRows) * tileRows
		for lo := 0; lo < n; lo += rows {
			c.tasks = append(c.tasks, rowTask{i, lo, min(lo+rows, n), p.span.Q0 + lo})
		}
		for _, m := range []struct {
			dst  *dense.Matrix[T]
			like dense.Matrix[T]
		}{{&p.dCentre, p.centre}, {&p.dMean, p.mean}, {&p.dK, p.k}, {&p.dV, p.v}} {
			*m.dst = buf.Shaped(*m.dst, m.like.Rows, m.like.Cols)
		}
	}
	c.done = buf.Sized(c.done, len(c.tasks))
	for i := range c.done {
		c.done[i].Store(0)
	}
	return work
}

// A task of gradients has gradRows queries, or fewer, down to fewestGradRows, so that a problem has gradTasks
// tasks.
const (
	gradRows       = 1024
	gradTasks      = 8
	fewestGradRows = 256
)

// gradScratch is the scratch memory of a worker for gradients.
type gradScratch[T dense.Float] struct {
	up     dense.Matrix[T] // [dout | −out·dout] of the rows of a task, divided by their sums of weights
	dx     dense.Matrix[T]
	values kern.Panel[T] // [v̄ | 1] of centroids, [v | 1] of a block
	means  kern.Panel[T]
	wide   dense.Matrix[T] // [v | 1]
	far    dense.Matrix[T] // dL/dlogit of centroids
	near   dense.Matrix[T] // and of neighbours
	tileUp dense.Matrix[T]

	// The gradients that the queries of a task pass to centroids and mean values, to neighbours from position first on,
	// and to sinks.
	dCentre, dMean dense.Matrix[T]
	first          int
	nearK, nearV   dense.Matrix[T]
	sinkK, sinkV   dense.Matrix[T]

	before, own *atomic.Int64 // see gradTask; before is nil for the first task of a problem
	stop        *atomic.Bool  // of the step
}

// await blocks until the preceding task of the same problem has added its part to the first n sorted keys. It spins
// first, because the wait is usually shorter than a wake-up. It cannot deadlock: par.Crew starts items in order, so the
// task before this one is already running. It panics if a task has panicked, since that one will never report.
func (g *gradScratch[T]) await(n int) {
	for looks := 0; g.before != nil && g.before.Load() < int64(n); looks++ {
		if g.stop.Load() {
			panic(errAwaited)
		}
		switch {
		case looks < 1000:
		case looks < 2000:
			runtime.Gosched()
		default:
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// errAwaited is the panic of a task that waits for a task that has panicked. par reports the first panic, not this one.
const errAwaited = "centroid: a task that is awaited has panicked"

// withOnes returns [m | 1] in scratch memory.
func (g *gradScratch[T]) withOnes(m dense.Matrix[T]) dense.Matrix[T] {
	g.wide = buf.Shaped(g.wide, m.Rows, m.Cols+1)
	for i := range m.Rows {
		copy(g.wide.Row(i), m.Row(i))
		g.wide.Row(i)[m.Cols] = 1
	}
	return g.wide
}

// gradTask computes the gradients of one task. It first recomputes the weights as Forward does. With p the weights
// divided by their sum,
//
//	dL/dlogit = p·(v − out)·dout,   dL/dv = p·dout.
//
// Tasks of a problem add to the gradients of sorted keys in the order of the tasks. At each block of keys a task waits
// (await) until the task before it has published that block in c.done. Gradients of centroids, neighbours and sinks are
// collected in the worker and added once, at the end, in the same order.
func (c *call[T]) gradTask(w *worker[T], index int) {
	t := c.tasks[index]
	p := c.problems[t.problem]
	c.sums(w, p, t)
	g := &w.grad
	if g.before, g.own = nil, &c.done[index]; index > 0 && c.tasks[index-1].problem == t.problem {
		g.before = &c.done[index-1]
	}
	g.dCentre, g.dMean = zeroed(g.dCentre, p.clusters, c.k.Dim), zeroed(g.dMean, p.clusters, c.v.Dim)
	sinks := min(p.spec.Sinks, p.span.K1-p.span.K0)
	first, _ := p.neighbours(t.lo)
	_, end := p.neighbours(t.hi - 1)
	g.first = first
	g.nearK, g.nearV = zeroed(g.nearK, end-first, c.k.Dim), zeroed(g.nearV, end-first, c.v.Dim)
	g.sinkK, g.sinkV = zeroed(g.sinkK, sinks, c.k.Dim), zeroed(g.sinkV, sinks, c.v.Dim)
	if p.clusters > 0 {
		c.tab.Pack(&g.means, g.withOnes(p.mean))
	}
	n, dv := t.hi-t.lo, c.v.Dim
	rows := n * c.group
	g.up, g.dx = buf.Shaped(g.up, rows, dv+1), buf.Shaped(g.dx, rows, c.q.Dim)
	clear(g.dx.Data)
	for h := range c.group {
		out, dout := c.out.Head(p.b, p.h*c.group+h), c.dout.Head(p.b, p.h*c.group+h)
		for i := range n {
			r := h*n + i
			row := g.up.Row(r)
			if w.sum[r] == 0 {
				clear(row)
				continue
			}
			copy(row, dout.Row(t.at+i))
			var dot float64
			for l, o := range out.Row(t.at + i) {
				dot += float64(o) * float64(row[l])
			}
			row[dv] = T(-dot)
			c.tab.Scale(row, T(1/w.sum[r]))
		}
	}
	for i := range w.stamp {
		w.stamp[i] = -1
	}
	c.eachTile(w, p, t, (*call[T]).gradTile)
	if p.top > 0 {
		c.eachChosen(w, p, (*call[T]).gradBlock)
	}
	for h := range c.group {
		dq := c.dq.Head(p.b, p.h*c.group+h)
		for i := range n {
			dst := dq.Row(t.at + i)
			copy(dst, g.dx.Row(h*n+i))
			c.tab.Scale(dst, T(c.scale))
		}
	}
	all := len(p.keys) + 1
	g.await(all)
	c.tab.MulAdd(p.dCentre.Data, g.dCentre.Data, 1)
	c.tab.MulAdd(p.dMean.Data, g.dMean.Data, 1)
	dk, dval := c.dk.Head(p.b, p.h), c.dv.Head(p.b, p.h)
	for i := range sinks {
		c.tab.MulAdd(dk.Row(p.span.K0+i), g.sinkK.Row(i), 1)
		c.tab.MulAdd(dval.Row(p.span.K0+i), g.sinkV.Row(i), 1)
	}
	for i := range g.nearK.Rows {
		c.tab.MulAdd(dk.Row(p.span.K0+first+i), g.nearK.Row(i), 1)
		c.tab.MulAdd(dval.Row(p.span.K0+first+i), g.nearV.Row(i), 1)
	}
	g.own.Store(int64(all))
}

// zeroed returns a rows×cols matrix of zeros and reuses the memory of m if it is large enough.
func zeroed[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	m = buf.Shaped(m, rows, cols)
	clear(m.Data)
	return m
}

// gradTile is the counterpart of nearAndFarTile. The shifts, sums and chosen clusters of the rows are already known.
func (c *call[T]) gradTile(w *worker[T], p *problem[T], query, r, m int) {
	g := &w.grad
	x, up, dx := w.x.RowRange(r, r+m), g.up.RowRange(r, r+m), g.dx.RowRange(r, r+m)
	w.far, g.far = buf.Shaped(w.far, m, p.clusters), buf.Shaped(g.far, m, p.clusters)
	if p.clusters > 0 {
		c.tab.MulT(w.far, x, &p.panel, p.logSize)
		for i := range m {
			far := w.far.Row(i)
			if math.IsInf(float64(w.shift[r+i]), -1) {
				clear(far)
				continue
			}
			for _, y := range w.chosen[(r+i)*p.top : (r+i+1)*p.top] {
				if y >= 0 {
					far[y] = T(math.Inf(-1))
				}
			}
			c.tab.Exp(far, w.shift[r+i])
		}
		c.tab.MulT(g.far, up, &g.means, nil)
		c.tab.Mul(g.far.Data, w.far.Data)
	}
	if w.near.lo < w.near.hi {
		for i := 0; i < m; i += nearRows {
			end := min(i+nearRows, m)
			lo, _ := p.neighbours(query + i)
			_, hi := p.neighbours(query + end - 1)
			c.gradBand(w, p, &w.near, g.nearK, g.nearV, g.first, query+i, r+i, i, end-i, lo, hi, p.neighbours)
		}
	}
	if sinks := w.sinks.hi; sinks > 0 {
		c.gradBand(w, p, &w.sinks, g.sinkK, g.sinkV, 0, query, r, 0, m, 0, sinks,
			func(int) (int, int) { return 0, sinks })
	}
	if p.clusters > 0 {
		c.tab.Product(dx, g.far, p.centre, true)
		c.tab.TMul(g.dCentre, g.far, x)
		c.tab.TMul(g.dMean, w.far, up.ColRange(0, c.v.Dim))
	}
}

// gradBand adds the gradients of the exact neighbours at positions [lo, hi) for the m rows from r on; at is the first
// of these rows in the tile. dk and dv begin at position start. A neighbour's share of its centroid was subtracted in
// Forward, so gradBand subtracts the matching gradient from g.far.
func (c *call[T]) gradBand(w *worker[T], p *problem[T], b *band[T], dk, dv dense.Matrix[T], start, query, r, at, m,
	lo, hi int, visible func(query int) (lo, hi int)) {
	g := &w.grad
	x, up := w.x.RowRange(r, r+m), g.up.RowRange(r, r+m)
	e, from := c.logits(w, b, x, lo, hi)
	keys, values := b.keys.RowRange(from-b.lo, hi-b.lo), b.values.RowRange(from-b.lo, hi-b.lo)
	c.tab.Pack(&g.values, g.withOnes(values))
	g.near = buf.Shaped(g.near, m, e.Cols)
	c.tab.MulT(g.near, up, &g.values, nil)
	for i := range m {
		weight, grad := e.Row(i), g.near.Row(i)
		first, end := visible(query + i)
		if math.IsInf(float64(w.shift[r+i]), -1) {
			end = first
		}
		for j := range weight {
			if j < first-from || j >= end-from {
				weight[j], grad[j] = 0, 0
			}
		}
		weight, grad = weight[first-from:end-from], grad[first-from:end-from]
		c.tab.Exp(weight, w.shift[r+i])
		for _, y := range w.chosen[(r+i)*p.top : (r+i+1)*p.top] {
			if y >= 0 {
				w.stamp[y] = int32(r + i)
			}
		}
		for j, y := range p.cluster[first:end] {
			switch {
			case y < 0:
				grad[j] *= weight[j]
			case w.stamp[y] == int32(r+i):
				weight[j], grad[j] = 0, 0
			default:
				share := w.far.Row(at + i)[y] * p.perKey[y]
				g.far.Row(at + i)[y] -= share * grad[j]
				grad[j] *= weight[j]
				weight[j] -= share
			}
		}
	}
	c.tab.Product(g.dx.RowRange(r, r+m), g.near, keys, true)
	c.tab.TMul(dk.RowRange(from-start, hi-start), g.near, x)
	c.tab.TMul(dv.RowRange(from-start, hi-start), e, up.ColRange(0, c.v.Dim))
}

// gradBlock is the counterpart of exactBlock.
func (c *call[T]) gradBlock(w *worker[T], p *problem[T], rows []int32, x, lo, hi int) {
	g := &w.grad
	keys, values := p.k.RowRange(lo, hi), p.v.RowRange(lo, hi)
	w.view = p.panelOf(x, lo, hi)
	c.tab.Pack(&g.values, g.withOnes(values))
	w.tileMax = buf.Sized(w.tileMax, tileRows)
	for len(rows) > 0 {
		m := min(tileRows, len(rows))
		w.tileX, g.tileUp = buf.Shaped(w.tileX, m, w.x.Cols), buf.Shaped(g.tileUp, m, g.up.Cols)
		w.values = buf.Shaped(w.values, m, w.x.Cols)
		for i, r := range rows[:m] {
			copy(w.tileX.Row(i), w.x.Row(int(r)))
			copy(g.tileUp.Row(i), g.up.Row(int(r)))
			copy(w.values.Row(i), g.dx.Row(int(r)))
			w.tileMax[i] = w.shift[r]
		}
		w.tile, g.near = buf.Shaped(w.tile, m, hi-lo), buf.Shaped(g.near, m, hi-lo)
		c.tab.MulTExp(w.tile, w.tileX, &w.view, nil, w.tileMax[:m])
		c.tab.MulT(g.near, g.tileUp, &g.values, nil)
		c.tab.Mul(g.near.Data, w.tile.Data)
		c.tab.Product(w.values, g.near, keys, true)
		for i, r := range rows[:m] {
			copy(g.dx.Row(int(r)), w.values.Row(i))
		}
		g.await(hi)
		c.tab.TMul(p.dK.RowRange(lo, hi), g.near, w.tileX)
		c.tab.TMul(p.dV.RowRange(lo, hi), w.tile, g.tileUp.ColRange(0, c.v.Dim))
		rows = rows[m:]
	}
	g.own.Store(int64(hi))
}
