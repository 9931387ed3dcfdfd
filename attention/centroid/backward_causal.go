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
)

// backwardCausal computes the gradients of causal attention. The caller has checked the shapes.
func backwardCausal[T dense.Float](a *Attention[T], dq, dk, dv, dout, out, q, k, v attention.Seq[T]) error {
	if a.Centres == nil {
		for h := range a.Specs {
			if a.Specs[h].Clusters > 0 {
				return fmt.Errorf("gradients of causal attention whose centres come from its own keys; set Centres, from Fit: %w", ErrSpec)
			}
		}
	}
	if err := checkValues(a, q, k, v); err != nil {
		return err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return err
	}
	for _, s := range [...]struct {
		name string
		seq  attention.Seq[T]
	}{{"out", out}, {"dout", dout}} {
		if err := finite(tab, s.name, s.seq, nil); !a.Unchecked && err != nil {
			return err
		}
	}
	scale, err := logitScale(a.Scale, q.Dim)
	if err != nil {
		return err
	}
	// The forward pass writes zeros to empty rows again; give it memory of its own, not the caller's out.
	c := &causalCall[T]{tab: tab, scale: T(scale), q: q,
		out: attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)}
	if k.Heads > 0 {
		c.group = q.Heads / k.Heads
	}
	if err := c.list(a, k, v); err != nil {
		return err
	}
	for b := range q.Batch {
		for h := range q.Heads {
			clearRows(dq.Head(b, h))
		}
		for h := range k.Heads {
			clearRows(dk.Head(b, h))
			clearRows(dv.Head(b, h))
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if err := c.crew.Do(len(c.assigning), workers, (*causalAssign[T])(c)); err != nil {
		return err
	}
	if err := c.crew.Do(len(c.streams), workers, (*causalSort[T])(c)); err != nil {
		return err
	}
	step := &causalBack[T]{c: c, dq: dq, dk: dk, dv: dv, dout: dout, given: out}
	step.split()
	return c.crew.Do(len(step.tasks), workers, step)
}

// causalBack is the step of Backward whose items are tasks.
type causalBack[T dense.Float] struct {
	c                       *causalCall[T]
	dq, dk, dv, dout, given attention.Seq[T]
	tasks                   []gradTask
	streams                 []causalBackStream[T]
	stop                    atomic.Bool // a task has panicked
}

// gradTask covers the queries at positions [lo, hi) of a stream. The tasks of a stream are listed from the last
// position to the first, the order in which they are added.
type gradTask struct {
	stream, lo, hi int
	at             int  // number of the task within its stream
	last           bool // the last task of its stream, which has the first positions
}

// causalBackStream is shared by the tasks of a stream. A task writes to it only while done equals its own number, so
// writes need no lock.
type causalBackStream[T dense.Float] struct {
	done             atomic.Int64    // tasks of the stream that have been added
	keyLate, valLate dense.Matrix[T] // gradients that the queries of these tasks pass to each cluster
	px               dense.Matrix[T]
}

// gradPositions is the number of positions of a task, rounded up to a multiple of the block.
const gradPositions = 512

// split makes the tasks. They do not depend on GOMAXPROCS, because their borders fix the order of the sums.
func (b *causalBack[T]) split() {
	b.streams = make([]causalBackStream[T], len(b.c.streams))
	for i := range b.c.streams {
		s := &b.c.streams[i]
		if s.span.Q1 == s.span.Q0 || s.k.Rows == 0 {
			continue
		}
		g := s.g
		block := g.spec.block(true)
		rows := (gradPositions + block - 1) / block * block
		at := 0
		for chunk := (s.k.Rows - 1) / s.chunk * s.chunk; chunk >= s.first*s.chunk; chunk -= s.chunk {
			start, end := max(chunk, s.off, 0), min(chunk+s.chunk, s.k.Rows)
			for lo := chunk + (end-1-chunk)/rows*rows; lo > start-rows; lo -= rows {
				b.tasks = append(b.tasks, gradTask{stream: i, lo: max(lo, start), hi: min(lo+rows, end), at: at})
				at++
			}
		}
		b.tasks[len(b.tasks)-1].last = true
		t := &b.streams[i]
		t.keyLate, t.valLate = dense.New[T](g.k, g.d), dense.New[T](g.k, g.dv)
		if g.r > 0 {
			t.px = unpacked(&g.px)
		}
	}
}

// causalGrad is the scratch memory for the gradients of one task.
//
// A cluster is the mean of its keys so far, so a query passes its gradient to all of them. Let S_b be the sum of the
// gradients that queries of the blocks up to b pass to a cluster. A key that enters at block b receives S_last −
// S_{b−1}. Tasks are added from the last to the first, each with its own sums: a difference of two long sums would lose
// digits.
type causalGrad[T dense.Float] struct {
	tab  *kern.Table[T]
	k, v dense.Matrix[T]

	// The gradients that the task passes to keys. The key at position p has row row[p]−1 of dk and dv; 0 means that it
	// has none yet.
	row     []int32
	touched []int32
	dk, dv  dense.Matrix[T]

	up      dense.Matrix[T] // [dout | −out·dout] of the current rows, divided by their sums of weights
	dx      dense.Matrix[T]
	dlogit  dense.Matrix[T] // dL/dgain of each cluster
	weight  dense.Matrix[T] // e^gain
	da      dense.Matrix[T] // gradient of the residual coordinates of queries
	means   dense.Matrix[T]
	px      dense.Matrix[T]
	keySum  dense.Matrix[T] // S for keys; valSum is S for values
	valSum  dense.Matrix[T]
	near    gradScratch[T]
	nearK   dense.Matrix[T]
	nearDK  dense.Matrix[T]
	nearDV  dense.Matrix[T]
	tail    []T
	ready   func(l int) // sets up and dx of row l
	members kern.Panel[T]
}

// Item computes one task. It waits until all later tasks of its stream have been added (shared.done), then adds its own
// result. Tasks start in order, so the wait cannot deadlock.
func (b *causalBack[T]) Item(w *causalWorker[T], i int) error {
	t, c := b.tasks[i], b.c
	s, shared := &c.streams[t.stream], &b.streams[t.stream]
	g := s.g
	r := &w.reader
	r.g, r.near, r.m, r.group = g, &w.near, &s.m, c.group
	r.k, r.v = rowsOf(s.k), rowsOf(s.v)
	grad := &w.grad
	grad.tab, grad.k, grad.v, grad.px = c.tab, s.k, s.v, shared.px
	grad.row = buf.Zeroed(grad.row, s.k.Rows)
	grad.touched = grad.touched[:0]
	grad.dk.Cols, grad.dk.Stride, grad.dv.Cols, grad.dv.Stride = g.d, g.d, g.dv, g.dv
	r.weighed = grad
	defer func() { r.weighed, grad.k, grad.v = nil, dense.Matrix[T]{}, dense.Matrix[T]{} }()
	first, end := b.chunk(w, s, grad, t.lo, t.hi)
	b.await(&shared.done, t.at)
	dk, dv := b.dk.Head(s.b, s.h).RowRange(s.span.K0, s.span.K1), b.dv.Head(s.b, s.h).RowRange(s.span.K0, s.span.K1)
	for i, p := range grad.touched {
		c.tab.MulAdd(dk.Row(int(p)), grad.dk.Row(i), 1)
		c.tab.MulAdd(dv.Row(int(p)), grad.dv.Row(i), 1)
	}
	if s.cluster != nil {
		c.tab.MulAdd(shared.keyLate.Data, grad.keySum.Data, 1)
		c.tab.MulAdd(shared.valLate.Data, grad.valSum.Data, 1)
		shared.deliver(c.tab, s, dk, dv, first, end)
		if t.last { // keys before the first chunk are in the clusters of all
			shared.deliver(c.tab, s, dk, dv, g.spec.Sinks, s.farEnd(s.startOf(s.first)))
		}
	}
	shared.done.Add(1)
	return nil
}

// await returns once done has reached n. It panics if a task has panicked, since that one will never be added.
func (b *causalBack[T]) await(done *atomic.Int64, n int) {
	for looks := 0; done.Load() < int64(n); looks++ {
		switch {
		case b.stop.Load():
			panic(errAwaited)
		case looks >= 40_000: // about 100 µs
			time.Sleep(20 * time.Microsecond)
		case looks%(1<<12) == 1<<12-1:
			runtime.Gosched()
		}
	}
}

// Release implements par.Waiter: it ends the waits of all tasks by a panic.
func (b *causalBack[T]) Release() { b.stop.Store(true) }

// of returns the row of the key at position p in dk and dv, and makes a zero row at the first request.
func (grad *causalGrad[T]) of(p int) int {
	if grad.row[p] == 0 {
		grad.touched = append(grad.touched, int32(p))
		grad.row[p] = int32(len(grad.touched))
		for _, m := range [...]*dense.Matrix[T]{&grad.dk, &grad.dv} {
			m.Rows = len(grad.touched)
			if n := m.Rows * m.Cols; n > cap(m.Data) {
				m.Data = append(make([]T, 0, 2*n), m.Data...)
			}
			m.Data = m.Data[:m.Rows*m.Cols]
			clear(m.Row(m.Rows - 1))
		}
	}
	return int(grad.row[p]) - 1
}

// unpacked returns the matrix that a panel holds.
func unpacked[T dense.Float](p *kern.Panel[T]) dense.Matrix[T] {
	m := dense.New[T](p.Rows, p.Cols)
	for j := range p.Rows {
		for i, at := 0, outputOf(p, j); i < p.Cols; i, at = i+1, at+p.Width {
			m.Set(j, i, p.Data[at])
		}
	}
	return m
}

// chunk computes the gradients of the queries at positions [lo, hi). It returns the range [first, end) of keys that
// enter clusters meanwhile, to which the sums of this task and of later ones must be delivered.
func (b *causalBack[T]) chunk(w *causalWorker[T], s *causalStream[T], grad *causalGrad[T],
	lo, hi int) (first, end int) {
	c, g, r := b.c, s.g, &w.reader
	block := g.spec.block(true)
	done := s.farEnd(floorTo(lo, block))
	first = done
	r.far = nil
	enter := func(p int) {
		w.far.add(int(s.cluster[p]), s.k.Row(p), s.v.Row(p), s.q[p*g.r:(p+1)*g.r])
	}
	if s.cluster != nil {
		chunk := lo / s.chunk
		w.far.load(g, &s.snapshots[chunk-s.first])
		for p := s.farEnd(s.startOf(chunk)); p < done; p++ {
			if s.visible(p) {
				enter(p)
			}
		}
		r.far = &w.far
	}
	grad.keySum, grad.valSum = zeroed(grad.keySum, g.k, g.d), zeroed(grad.valSum, g.k, g.dv)
	step := max(1, blockRows/c.group)
	for p := lo; p < hi; {
		b0 := floorTo(p, block)
		end := min(b0+block, hi)
		if s.cluster != nil {
			for to := s.farEnd(b0); done < to; done++ {
				if s.visible(done) {
					enter(done)
					id, at := int(s.cluster[done]), grad.of(done)
					c.tab.MulAdd(grad.dk.Row(at), grad.keySum.Row(id), -1)
					c.tab.MulAdd(grad.dv.Row(at), grad.valSum.Row(id), -1)
				}
			}
			w.far.refresh()
			grad.means = unpacked(&w.far.mean)
		}
		s.loadNear(&w.near, b0, end)
		for ; p < end; p += r.n {
			r.n, r.p0 = min(step, end-p), p
			w.loadQueries(c, s, p)
			b.rows(w, s, grad, p)
		}
	}
	if lo > s.startOf(s.first) { // keys that enter with the first block here are in no sum of the task before
		first = s.farEnd(floorTo(lo-1, block))
	}
	return first, done
}

// deliver adds to the keys [lo, hi) the gradients that the queries of this task and of later positions pass to their
// clusters.
func (t *causalBackStream[T]) deliver(tab *kern.Table[T], s *causalStream[T], dk, dv dense.Matrix[T], lo, hi int) {
	for p := lo; p < hi; p++ {
		if s.visible(p) {
			id := int(s.cluster[p])
			tab.MulAdd(dk.Row(p), t.keyLate.Row(id), 1)
			tab.MulAdd(dv.Row(p), t.valLate.Row(id), 1)
		}
	}
}

// rows computes the gradients of the loaded queries, which begin at position p.
func (b *causalBack[T]) rows(w *causalWorker[T], s *causalStream[T], grad *causalGrad[T], p int) {
	c, g, r, tab := b.c, s.g, &w.reader, b.c.tab
	rows := r.x.Rows
	grad.up, grad.dx = buf.Shaped(grad.up, rows, g.dv+1), buf.Shaped(grad.dx, rows, g.d)
	grad.dlogit, grad.weight = buf.Shaped(grad.dlogit, rows, g.k), buf.Shaped(grad.weight, rows, g.k)
	grad.da = buf.Shaped(grad.da, rows, g.r)
	for _, m := range [][]T{grad.dx.Data, grad.dlogit.Data, grad.weight.Data, grad.da.Data, grad.up.Data} {
		clear(m)
	}
	at := func(l int) (head, row int) { return s.h*c.group + l/r.n, s.span.Q0 + p - s.off + l%r.n }
	grad.ready = func(l int) {
		h, i := at(l)
		up := grad.up.Row(l)
		copy(up, b.dout.Head(s.b, h).Row(i))
		var dot float64
		for j, o := range b.given.Head(s.b, h).Row(i) {
			dot += float64(o) * float64(up[j])
		}
		up[g.dv] = T(-dot)
		tab.Scale(up, T(1/r.sum[l]))
	}
	r.read()
	far := r.far != nil && r.far.total > 0
	chosen := far && g.spec.Top > 0
	for l := range rows {
		if r.sum[l] == 0 || chosen && g.spec.Keys > 0 {
			continue // no key, or keys has done it
		}
		grad.ready(l)
		if far {
			weight := grad.weight.Row(l)
			copy(weight, r.gain.Row(l))
			for i, n := range r.far.count {
				if n > 0 {
					weight[i] /= n
				}
			}
			grad.clusters(r, l)
		}
	}
	if chosen && g.spec.Keys == 0 {
		grad.whole(r)
	}
	if far {
		tab.Product(grad.dx, grad.dlogit, grad.means, true)
		tab.TMul(grad.valSum, grad.weight, grad.up.ColRange(0, g.dv))
		for l := range rows {
			for i, n := range r.far.count {
				if n > 0 {
					grad.dlogit.Row(l)[i] /= n
				}
			}
		}
		tab.TMul(grad.keySum, grad.dlogit, r.x)
		if g.r > 0 {
			tab.Product(grad.dx, grad.da, grad.px, true)
		}
	}
	grad.neighbours(r)
	for l := range rows {
		h, i := at(l)
		dst := b.dq.Head(s.b, h).Row(i)
		copy(dst, grad.dx.Row(l))
		tab.Scale(dst, c.scale)
	}
}

// clusters sets dL/dgain of the clusters of row l, as if none of their keys were exact, and adds the resulting gradient
// of the residual coordinates of the query.
func (grad *causalGrad[T]) clusters(r *reader[T], l int) {
	g, f := r.g, r.far
	up, weight, d := grad.up.Row(l), grad.weight.Row(l), grad.dlogit.Row(l)
	grad.tab.MulV(d, f.value, up[:g.dv])
	for c := range d {
		d[c] = (d[c] + up[g.dv]) * weight[c] * f.count[c]
	}
	if !g.spec.Spread {
		return
	}
	for c := range d {
		grad.spread(r, l, c, d[c])
	}
}

// spread adds to the gradient of the residual coordinates of row l the part that comes from ½ min(σ², maxSpread) in the
// gain of cluster c, whose gradient is d.
func (grad *causalGrad[T]) spread(r *reader[T], l, c int, d T) {
	g, f := r.g, r.far
	if d == 0 {
		return
	}
	a, da := r.a.Row(l), grad.da.Row(l)
	var s2 T
	at := outputOf(&f.spread, c)
	for i, v := range a {
		s2 += v * v * f.spread.Data[at+i*f.spread.Width]
	}
	if !(s2 < maxSpread) {
		return
	}
	for i, v := range a[:g.r] {
		da[i] += d * v * f.spread.Data[at+i*f.spread.Width]
	}
}

// keys is called by the reader as soon as the weights of row l, which is row i of its unit, are known, and before the
// reader overwrites them: weights of exact keys in r.score, e^gain in r.gain, and the terms of the tails of opened
// clusters in r.tile.
func (grad *causalGrad[T]) keys(r *reader[T], i, l int, chosen []int32, filtered bool) {
	g, f := r.g, r.far
	// The sum of the row does not include its centroids yet.
	before := r.sum[l]
	var rest float64
	for c, e := range r.gain.Row(l) {
		rest += float64(e) * float64(r.count[c])
	}
	r.sum[l] += rest
	grad.ready(l)
	r.sum[l] = before
	up, d := grad.up.Row(l), grad.dlogit.Row(l)
	weight := grad.weight.Row(l)
	copy(weight, r.gain.Row(l))
	grad.tab.MulV(d, f.value, up[:g.dv])
	for c := range d {
		d[c] = (d[c] + up[g.dv]) * weight[c] * f.count[c]
	}
	for j, c := range r.selOf {
		p := int(r.selPos[j])
		grad.exact(r, l, p, r.score[j], &d[c], weight[c])
	}
	open := map[int]bool{}
	if filtered {
		score := r.tile.Row(i)
		for _, c32 := range chosen {
			c := int(c32)
			n := int(f.n[c])
			left := score[:n]
			score = score[n:]
			if r.count[c] > 0 {
				open[c] = true
				grad.opened(r, l, c, d[c], left)
			}
		}
	}
	if g.spec.Spread {
		for c := range d {
			if !open[c] {
				grad.spread(r, l, c, d[c])
			}
		}
	}
}

// exact adds the gradients of an exact key at position p with weight e. share is the weight that its centroid gives
// each of its keys, and d the gradient of the gain of the cluster, from which the key's part is subtracted.
func (grad *causalGrad[T]) exact(r *reader[T], l, p int, e T, d *T, share T) {
	g := r.g
	up := grad.up.Row(l)
	dp := dense.Dot(up[:g.dv], grad.v.Row(p)) + up[g.dv]
	*d -= share * dp
	grad.tab.MulAdd(grad.dx.Row(l), grad.k.Row(p), e*dp)
	at := grad.of(p)
	grad.tab.MulAdd(grad.dk.Row(at), r.x.Row(l), e*dp)
	grad.tab.MulAdd(grad.dv.Row(at), up[:g.dv], e-share)
}

// opened adds the gradient of the residual coordinates of row l that comes from the gain of an opened cluster, log mean
// e^{ŝ_j} over its remaining keys, whose gradient is d: d·(q̃ − q̄), where q̃ is the mean weighted by e^{ŝ_j}.
func (grad *causalGrad[T]) opened(r *reader[T], l, c int, d T, left []T) {
	g, f := r.g, r.far
	grad.members = r.m.residuals(g, c, len(left), &grad.tail)
	m := &grad.members
	var total float64
	for _, e := range left {
		total += float64(e)
	}
	if !(total > 0) {
		return
	}
	da, middle := grad.da.Row(l), f.middle.Row(c)
	for i := range da {
		var mean float64
		for j, e := range left {
			mean += float64(e) * float64(m.Data[outputOf(m, j)+i*m.Width])
		}
		da[i] += d * (T(mean/total) - middle[i])
	}
}

// whole adds the gradients of the members of the chosen clusters if all of them are exact (Spec.Keys is 0).
func (grad *causalGrad[T]) whole(r *reader[T]) {
	f := r.far
	shared := len(r.all) < r.x.Rows
	for l := range r.x.Rows {
		if r.sum[l] == 0 {
			continue
		}
		u := l
		if shared {
			u = l % r.n
		}
		for _, c := range r.all[u] {
			for _, p := range r.m.pos[c][:f.n[c]] {
				s := float64(dense.Dot(r.x.Row(l), grad.k.Row(int(p)))) - float64(r.shift[l])
				var none T
				grad.exact(r, l, int(p), T(math.Exp(s)), &none, 0)
			}
		}
	}
}

// neighbours adds the gradients of the near keys.
func (grad *causalGrad[T]) neighbours(r *reader[T]) {
	tab, n := grad.tab, len(r.near.pos)
	if n == 0 {
		return
	}
	g := &grad.near
	rows := r.x.Rows
	for l := range rows {
		f := 0.0
		if r.sum[l] > 0 {
			f = math.Exp(float64(r.shift0[l]) - float64(r.shift[l]))
		}
		tab.Scale(r.s.Row(l), T(f))
	}
	tab.Pack(&g.values, g.withOnes(r.near.value))
	g.near = buf.Shaped(g.near, rows, n)
	tab.MulT(g.near, grad.up, &g.values, nil)
	tab.Mul(g.near.Data, r.s.Data)
	grad.nearK = buf.Shaped(grad.nearK, n, r.g.d)
	for j, p := range r.near.pos {
		copy(grad.nearK.Row(j), grad.k.Row(int(p)))
	}
	tab.Product(grad.dx, g.near, grad.nearK, true)
	grad.nearDK, grad.nearDV = buf.Shaped(grad.nearDK, n, r.g.d), buf.Shaped(grad.nearDV, n, r.g.dv)
	clear(grad.nearDK.Data)
	clear(grad.nearDV.Data)
	tab.TMul(grad.nearDK, g.near, r.x)
	tab.TMul(grad.nearDV, r.s, grad.up.ColRange(0, r.g.dv))
	for j, p := range r.near.pos {
		at := grad.of(int(p))
		tab.MulAdd(grad.dk.Row(at), grad.nearDK.Row(j), 1)
		tab.MulAdd(grad.dv.Row(at), grad.nearDV.Row(j), 1)
	}
}
