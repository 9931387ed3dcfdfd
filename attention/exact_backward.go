package attention

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
)

// Backward sets dq, dk and dv to the gradients of Σ out⊙dout, where out is the result of Forward on q, k and v. With
// D_i = out_i·dout_i and dp = dout·vᵀ,
//
//	dv = pᵀ·dout,   ds = p ⊙ (dp − D),   dq = Scale · ds·k,   dk = Scale · dsᵀ·q
//
// (Dao et al. 2022, arXiv:2205.14135, appendix B.2). Probabilities are recomputed block by block; the extra memory is
// one copy of q and dout. A key head that is shared by a group of query heads gets the sum over the group. Keys that no
// query sees, and their values, get zeros.
//
// There are two loops. The first, over queries, recomputes normalisers if Forward kept none, and writes the rows that
// keys need (prepareRows). The second, over key blocks, computes dk and dv of a block and adds its part to dq
// (backward).
//
// Every dq_i is summed in the order of the keys, and every dk_j and dv_j in the order of the queries. The bits
// therefore do not depend on the number of workers.
func (a *Exact[T]) Backward(dq, dk, dv, dout, out, q, k, v Seq[T]) error {
	if err := CheckForward(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	if err := CheckBackward(dq, dk, dv, dout, out, q, k, v); err != nil {
		return err
	}
	if n := a.Keep; n != nil && (n.batch != q.Batch || n.heads != q.Heads || n.length != q.Len) {
		return fmt.Errorf("normalisers are of [%d, %d, %d] rows, q has [%d, %d, %d]; call Forward with the same Keep first: %w",
			n.batch, n.heads, n.length, q.Batch, q.Heads, q.Len, dense.ErrShape)
	}
	scale, err := a.scale(q.Dim)
	if err != nil {
		return err
	}
	slot := a.calls.Get()
	defer a.calls.Put(slot)
	c := par.Held[exactCall[T]](slot)
	defer c.forget()
	if err := c.start(&a.Visibility, a.Window, scale, out, q, k, v); err != nil {
		return err
	}
	c.dq, c.dk, c.dv, c.dout = dq, dk, dv, dout
	if !a.Unchecked {
		if err := CheckValues(q, k, v, c.seen); err != nil {
			return err
		}
		if err := out.CheckFinite("out"); err != nil {
			return err
		}
		if err := dout.CheckFinite("dout"); err != nil {
			return err
		}
	}
	c.keep, c.kept = a.Keep, a.Keep != nil
	if !c.kept {
		c.keep = &c.own
		c.own.resize(q)
	}
	c.rows = buf.Sized(c.rows, q.Batch*q.Heads*q.Len*c.rowStride())
	c.splitQueries()
	c.do(len(c.tasks), (*exactRows[T])(c))
	c.splitKeys()
	c.do(len(c.tasks), (*exactKeys[T])(c))
	return nil
}

// gradBlock is the number of keys of a task. Larger blocks are not faster and leave workers idle.
const gradBlock = 256

// rowStride is the distance between rows of c.rows in elements: a multiple of 16, a cache line in float32.
func (c *exactCall[T]) rowStride() int { return (c.q.Dim + c.v.Dim + 1 + 15) / 16 * 16 }

// rowBlock is a view of columns [from, to) of rows [lo, hi) of c.rows for one query head.
func (c *exactCall[T]) rowBlock(b, h, lo, hi, from, to int) dense.Matrix[T] {
	n := c.rowStride()
	at := (b*c.q.Heads + h) * c.q.Len
	return dense.Matrix[T]{Rows: hi - lo, Cols: to - from, Stride: n, Data: c.rows[(at+lo)*n+from : (at+hi-1)*n+to]}
}

// prepareRows writes what every key needs of the queries of a task. With p = e·inverse and e = exp(s − shift), row i is
//
//	[Scale·q_i | inverse_i·dout_i | −inverse_i·D_i],
//
// so that dv = eᵀ·(inverse·dout), and e ⊙ ([inverse·dout | −inverse·D]·[v | 1]ᵀ) = p ⊙ (dp − D) = ds. The subtraction
// of D becomes one more column of a matrix product. D is summed in float64. prepareRows also clears dq, to which the
// loop over keys adds.
func (c *exactCall[T]) prepareRows(w *exactScratch[T], t exactTask) {
	b := &c.bands[t.span]
	n, d, dv := t.hi-t.lo, c.q.Dim, c.v.Dim
	if !c.kept {
		c.sweep(w, t, 0)
	}
	for g := range c.group {
		h := t.h*c.group + g
		from := b.Q0 + t.lo
		if !c.kept {
			c.keep.set(t.b, h, from, w.shift[g*n:(g+1)*n], w.sum[g*n:(g+1)*n])
		}
		rows := c.rowBlock(t.b, h, from, from+n, 0, d+dv+1)
		q, dout, out, dq := c.q.Head(t.b, h), c.dout.Head(t.b, h), c.out.Head(t.b, h), c.dq.Head(t.b, h)
		for i := range n {
			row, do := rows.Row(i), dout.Row(from+i)
			copy(row, q.Row(from+i))
			c.tab.Scale(row[:d], c.scale)
			copy(row[d:], do)
			var dot float64
			for l, o := range out.Row(from + i) {
				dot += float64(o) * float64(do[l])
			}
			row[d+dv] = T(-dot)
			c.tab.Scale(row[d:], c.keep.inverse[(t.b*c.q.Heads+h)*c.q.Len+from+i])
			clear(dq.Row(from + i))
		}
	}
}

// splitKeys makes the tasks of the loop over keys, blocks of one head and span in order. Keys that no query sees are in
// no task, so their gradients are cleared here.
func (c *exactCall[T]) splitKeys() {
	c.tasks = c.tasks[:0]
	for b := range c.k.Batch {
		for h := range c.k.Heads {
			if c.vis.Segments != nil {
				clearRows(c.dk.Head(b, h))
				clearRows(c.dv.Head(b, h))
			}
			for s := c.first[b]; s < c.first[b+1]; s++ {
				for j, n := 0, c.bands[s].K1-c.bands[s].K0; j < n; j += gradBlock {
					c.tasks = append(c.tasks, exactTask{b: b, h: h, span: s, lo: j, hi: min(j+gradBlock, n),
						chained: j > 0})
				}
			}
		}
	}
	c.stop.Store(false)
	c.done = buf.Sized(c.done, len(c.tasks))
	for i := range c.done {
		c.done[i].Store(0)
	}
}

func clearRows[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		clear(m.Row(i))
	}
}

// backward computes dk and dv of one block of keys and adds its part to dq.
//
// Order of sums: the blocks of a head and span add to a row of dq in their order. done[i] is how far block i has got,
// counted in queries over the heads of the group; a block waits until the block before it has passed the tile it is
// about to add. This cannot deadlock: tasks start in order, so the block before is already running, about one tile
// ahead. dk and dv belong to the block alone and need no waiting.
func (c *exactCall[T]) backward(w *exactScratch[T], index int) {
	t := c.tasks[index]
	b := &c.bands[t.span]
	n, d, dv := t.hi-t.lo, c.q.Dim, c.v.Dim
	queries := b.Q1 - b.Q0
	var before *atomic.Int64
	if t.chained {
		before = &c.done[index-1]
	}
	done := &c.done[index]
	w.dk, w.dv = buf.Zeroed(w.dk, n*d), buf.Zeroed(w.dv, n*dv)
	bias := c.keyBias(t.b, b.K0+t.lo, b.K0+t.hi)
	if lo, hi := b.queries(t.lo, t.hi); lo < hi && !allMasked(bias) {
		w.loadBlock(c, t, bias)
		for g := range c.group {
			h := t.h*c.group + g
			dq := c.dq.Head(t.b, h)
			for i := lo; i < hi; {
				x := nextTile(b, i, hi, t.lo, t.hi, c.tab.Width)
				i += x.n
				from, to := b.Q0+x.i, b.Q0+x.i+x.n
				q := c.rowBlock(t.b, h, from, to, 0, d)
				e := w.weights(c, b, bias, x, q, (t.b*c.q.Heads+h)*c.q.Len+from)
				c.tab.TMul(packedView(w.dv[x.c0*dv:], x.c1-x.c0, dv), e, c.rowBlock(t.b, h, from, to, d, d+dv))
				ds := packedView(w.g, e.Rows, e.Cols)
				c.tab.MulT(ds, c.rowBlock(t.b, h, from, to, d, d+dv+1), w.panelPart(&w.values, x.c0, x.c1), nil)
				c.tab.Mul(ds.Data, e.Data)
				c.tab.TMul(packedView(w.dk[x.c0*d:], x.c1-x.c0, d), ds, q)
				at := int64(g*queries + i)
				if !c.await(before, at) {
					return
				}
				c.tab.Product(dq.RowRange(from, to), ds, packedView(w.k[x.c0*d:], x.c1-x.c0, d), true)
				done.Store(at)
			}
			done.Store(int64((g + 1) * queries))
		}
	}
	// MaxInt64 means finished. A block may only report that once the blocks before it have finished, because the block
	// after it waits for this one alone.
	if !c.await(before, math.MaxInt64) {
		return
	}
	done.Store(math.MaxInt64)
	for j := range n {
		copy(c.dk.Head(t.b, t.h).Row(b.K0+t.lo+j), w.dk[j*d:(j+1)*d])
		copy(c.dv.Head(t.b, t.h).Row(b.K0+t.lo+j), w.dv[j*dv:(j+1)*dv])
	}
}

// loadBlock packs the keys k and the values [v | 1] of a block, and keeps Scale·k in w.k for dq. Rows that bias hides
// are 0.
func (w *exactScratch[T]) loadBlock(c *exactCall[T], t exactTask, bias []T) {
	b := &c.bands[t.span]
	n, d, dv := t.hi-t.lo, c.k.Dim, c.v.Dim
	k := c.k.Head(t.b, t.h).RowRange(b.K0+t.lo, b.K0+t.hi)
	v := c.v.Head(t.b, t.h)
	w.k, w.v = buf.Sized(w.k, n*d), buf.Sized(w.v, n*(dv+1))
	for j := range n {
		key, value := w.k[j*d:(j+1)*d], w.v[j*(dv+1):][:dv]
		if bias == nil || bias[j] == 0 {
			copy(key, k.Row(j))
			copy(value, v.Row(b.K0+t.lo+j))
		} else {
			clear(key)
			clear(value)
		}
		w.v[j*(dv+1)+dv] = 1
	}
	c.tab.Pack(&w.panel, packedView(w.k, n, d))
	c.tab.Pack(&w.values, packedView(w.v, n, dv+1))
	c.tab.Scale(w.k, c.scale)
	w.p, w.g = buf.Sized(w.p, tileRows*gradBlock), buf.Sized(w.g, tileRows*gradBlock)
}

// weights computes exp(s − shift) for tile x with the scaled queries q, 0 for keys that a query does not see. at is the
// index of the first query in the normalisers.
func (w *exactScratch[T]) weights(c *exactCall[T], b *band, bias []T, x exactTile, q dense.Matrix[T],
	at int) dense.Matrix[T] {
	if bias != nil {
		bias = bias[x.c0:x.c1]
	}
	e := packedView(w.p, x.n, x.c1-x.c0)
	c.tab.MulTExp(e, q, w.panelPart(&w.panel, x.c0, x.c1), bias, c.keep.shift[at:at+x.n])
	for l := range x.n {
		row := e.Row(l)
		lo, hi := x.visible(b, l)
		clear(row[:lo])
		clear(row[hi:])
	}
	return e
}

// await reports whether progress has reached at, waiting for it if necessary; nil means that there is nothing to wait
// for. It returns false after Release: the block that it waits for may have panicked. It yields first, and sleeps if
// there are more workers than processors.
func (c *exactCall[T]) await(progress *atomic.Int64, at int64) bool {
	if progress == nil {
		return true
	}
	for spins := 0; progress.Load() < at; spins++ {
		if c.stop.Load() {
			return false
		}
		if spins < 1000 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond) // more workers than processors
		}
	}
	return true
}

// Release implements par.Waiter: blocks that wait for a block that panicked end.
func (s *exactKeys[T]) Release() { s.stop.Store(true) }
