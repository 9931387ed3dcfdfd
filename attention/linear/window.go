package linear

import (
	"math"
	"sort"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// A window gives the nearest keys their exact weights, and sinks give the first keys theirs (docs/theory.md §6.6). The
// features of all other keys come from causal sweeps whose queries stand Window positions back: one forward sweep and,
// unless causal, one backward sweep. Without a window and without causal order, all keys except the sinks are summed at
// once. Nothing is ever subtracted, so there is no cancellation. The sums keep their true scale e^scale and are
// combined as in online softmax.

// attach makes the rows of s unfinished and empty, with their denominators in r.
func attach[T dense.Float](r *windowRows, s *stream[T]) {
	r.join(s.group * s.lenQ())
	s.den, s.scale = r.den, r.scale
	s.unfinish(0, s.lenQ())
}

func (r *windowRows) join(n int) { r.den, r.scale = buf.Sized(r.den, n), buf.Sized(r.scale, n) }

// unfinish makes queries i0 to i1−1 unfinished rows that have seen no key: zeros at scale −Inf.
func (s *stream[T]) unfinish(i0, i1 int) {
	for g := range s.group {
		at := g * s.lenQ()
		clear(s.den[at+i0 : at+i1])
		for i := i0; i < i1; i++ {
			s.scale[at+i] = math.Inf(-1)
		}
		out := s.outputs(g)
		for i := i0; i < i1; i++ {
			clear(out.Row(i))
		}
	}
}

// oneSweep reports whether the keys without exact weights are a single stream, the first result of sweeps.
func (s *stream[T]) oneSweep() bool { return s.causal || s.window == 0 }

// sweeps returns the causal streams of the keys before the window of a query and of the keys behind it. Without a
// window, the first is all keys and the second is empty. Moving off back by the window makes a query see only keys that
// its window does not contain.
func (s *stream[T]) sweeps() (forward, backward stream[T]) {
	forward, backward = *s, *s
	if s.window == 0 {
		return forward, stream[T]{}
	}
	forward.causal, backward.causal = true, true
	forward.off = s.off - s.window
	backward.backward = true
	backward.off = s.k.Rows - s.lenQ() - s.off - s.window
	return forward, backward
}

// windowed computes streams with exact weights on all workers, in four steps with a barrier between them: empty rows,
// the keys before the windows, the keys behind, the windows. The order is fixed because each step adds to the same
// rows.
func (c *call[T]) windowed() error {
	rows := 0
	for _, s := range c.shared {
		rows += s.group * s.lenQ()
	}
	c.rows.join(rows)
	c.exacts.reset()
	c.sweeps = buf.Sized(c.sweeps, 2*len(c.shared))
	rows = 0
	for i, s := range c.shared {
		n := s.group * s.lenQ()
		s.den, s.scale = c.rows.den[rows:rows+n], c.rows.scale[rows:rows+n]
		rows += n
		c.exacts.add((s.lenQ() + s.rows - 1) / s.rows)
		c.sweeps[2*i], c.sweeps[2*i+1] = s.sweeps()
	}
	if err := c.crew.Do(c.exacts.items(), c.active, (*eachUnfinished[T])(c)); err != nil {
		return err
	}
	for way := range 2 {
		if way == 1 && c.all[0].oneSweep() {
			break
		}
		for i := range c.shared {
			c.shared[i] = &c.sweeps[2*i+way]
		}
		if err := c.relay.run(&c.crew, c.active, c.tab, c.shared, (*forwards[T])(c)); err != nil {
			return err
		}
	}
	return c.crew.Do(c.exacts.items(), c.active, (*eachWindow[T])(c))
}

// eachUnfinished is the step whose items empty blocks of queries.
type eachUnfinished[T dense.Float] call[T]

// Item empties block i.
func (c *eachUnfinished[T]) Item(_ *worker[T], i int) error {
	k, i := c.exacts.at(i)
	s := &c.all[k]
	s.unfinish(i*s.rows, min((i+1)*s.rows, s.lenQ()))
	return nil
}

// eachWindow is the step whose items add the exact weights of blocks of queries and finish them.
type eachWindow[T dense.Float] call[T]

// Item finishes block i.
func (c *eachWindow[T]) Item(w *worker[T], i int) error {
	k, i := c.exacts.at(i)
	s := &c.all[k]
	w.use(&c.streams, s)
	return w.windowBlock(s, i*s.rows, min((i+1)*s.rows, s.lenQ()))
}

// merge adds num·e^scale and den·e^scale to unfinished row i of head g, at the larger of both scales.
func (w *worker[T]) merge(s *stream[T], g, i int, num []T, den, scale float64) {
	at := g*s.lenQ() + i
	row := s.outputs(g).Row(i)
	if math.IsInf(s.scale[at], -1) {
		copy(row, num)
		s.den[at], s.scale[at] = den, scale
		return
	}
	top := max(s.scale[at], scale)
	old, add := math.Exp(s.scale[at]-top), math.Exp(scale-top)
	w.tab.Scale(row, T(old))
	w.tab.MulAdd(row, num, T(add))
	s.den[at] = s.den[at]*old + den*add
	s.scale[at] = top
}

// prepare reads the kernel of a map, unless it is prepared already.
func (x *windowScratch[T]) prepare(m randfeat.FeatureMap[T], tab *kern.Table[T]) {
	of := m.Fingerprint()
	if x.ready && x.of == of {
		return
	}
	k := m.Target()
	x.of, x.ready = of, true
	x.kind, x.gain, x.embedding = k.Kind, k.Gain(), !k.M.IsEmpty()
	if x.embedding {
		scaled := dense.Convert[T](k.M)
		tab.Scale(scaled.Data, T(x.gain))
		tab.Pack(&x.embed, scaled)
	}
}

// windowCols is the largest number of keys whose weights are computed together. With fewer keys per call, the Go code
// per row and block would cost as much as the weights.
const windowCols = 512

// windowRange finishes queries i0 to i1−1 in blocks.
func (w *worker[T]) windowRange(s *stream[T], i0, i1 int) error {
	for ; i0 < i1; i0 += w.phiQ.Rows {
		if err := w.windowBlock(s, i0, min(i0+w.phiQ.Rows, i1)); err != nil {
			return err
		}
	}
	return nil
}

// windowBlock adds the exact weights to queries i0 to i1−1, no more than a chunk, and finishes them.
func (w *worker[T]) windowBlock(s *stream[T], i0, i1 int) error {
	if s.sinkK.Rows > 0 {
		w.sinks = s.sinks()
		w.windowKeys(&w.sinks, i0, i1)
		w.sinks = stream[T]{}
	}
	if s.window > 0 {
		w.windowKeys(s, i0, i1)
	}
	for g := range s.group {
		out, at := s.outputs(g), g*s.lenQ()
		for i := i0; i < i1; i++ {
			w.finish(out.Row(i), T(s.den[at+i]), math.IsInf(s.scale[at+i], -1), w.checks)
		}
	}
	return nil
}

// within sets x.lo and x.hi to the keys in the windows of queries i0 to i1−1, makes room for x.row, and returns the
// smallest range that contains all these keys.
func within[T dense.Float](x *windowScratch[T], s *stream[T], i0, i1 int) (first, last int) {
	n := i1 - i0
	x.lo, x.hi, x.row = buf.Sized(x.lo, n), buf.Sized(x.hi, n), buf.Sized(x.row, n)
	first = s.k.Rows
	for i := range n {
		lo, hi := s.visible(i0 + i)
		x.lo[i], x.hi[i] = lo, hi
		if lo < hi {
			first, last = min(first, lo), max(last, hi)
		}
	}
	return first, last
}

// windowKeys adds the exact weights of the keys in the windows of queries i0 to i1−1 to their unfinished rows, block by
// block with a running maximum, as Exact does.
func (w *worker[T]) windowKeys(s *stream[T], i0, i1 int) {
	x := &w.win
	x.prepare(s.m, w.tab)
	first, last := within(x, s, i0, i1)
	for g := range s.group {
		q := s.queries(g).RowRange(i0, i1)
		out := s.outputs(g).RowRange(i0, i1)
		den, scale := s.den[g*s.lenQ()+i0:], s.scale[g*s.lenQ()+i0:]
		u := x.queries(q, w.tab)
		for c := first; c < last; c += windowCols {
			k, v, pos := w.keyRows(s, c, min(c+windowCols, last))
			if k.Rows == 0 {
				continue
			}
			y, bias := x.keys(k, w.tab)
			w.tab.Pack(&w.packed, y)
			x.a = buf.Shaped(x.a, q.Rows, k.Rows)
			a := x.a
			w.tab.MulT(a, u, &w.packed, bias)
			for i := range a.Rows {
				e := a.Row(i)
				lo, hi := x.lo[i]-c, x.hi[i]-c
				if pos != nil {
					lo, hi = sort.SearchInts(pos, x.lo[i]), sort.SearchInts(pos, x.hi[i])
				}
				lo, hi = max(lo, 0), min(hi, k.Rows)
				if lo >= hi {
					clear(e)
					continue
				}
				clear(e[:lo])
				clear(e[hi:])
				e = e[lo:hi]
				if top := float64(w.tab.Max(e)) + x.row[i]; top > scale[i] {
					f := math.Exp(scale[i] - top)
					w.tab.Scale(out.Row(i), T(f))
					den[i] *= f
					scale[i] = top
				}
				den[i] += float64(w.tab.ExpSum(e, T(scale[i]-x.row[i])))
			}
			w.tab.FlushMax(a.Data)
			w.tab.Product(out, a, v, true)
		}
	}
}

// visible is the range of keys in the window of query i.
func (s *stream[T]) visible(i int) (lo, hi int) {
	p, n := i+s.off, s.k.Rows
	lo, hi = p-s.window+1, p+1
	if !s.causal {
		hi = p + s.window
	}
	return max(lo, 0), min(hi, n)
}

// queries embeds queries, so that their products with embedded keys are the exponents log κ up to the terms x.row of
// queries and the bias of keys. Gain² is applied to the queries alone, to leave keys without a matrix untouched.
func (x *windowScratch[T]) queries(q dense.Matrix[T], tab *kern.Table[T]) dense.Matrix[T] {
	gain := T(1)
	if x.embedding {
		x.u = buf.Shaped(x.u, q.Rows, x.embed.Rows)
		tab.MulT(x.u, q, &x.embed, nil)
	} else {
		gain = T(x.gain * x.gain)
		x.u = buf.Shaped(x.u, q.Rows, q.Cols)
		for i := range q.Rows {
			copy(x.u.Row(i), q.Row(i))
		}
	}
	for i := range q.Rows {
		x.row[i] = 0
		if x.kind == kernel.Gaussian {
			x.row[i] = -tab.Norm2(x.u.Row(i)) * float64(gain) / 2
		}
	}
	tab.Scale(x.u.Data, gain)
	return x.u
}

// keys embeds keys and returns their terms of the exponents, nil for kernels without such terms.
func (x *windowScratch[T]) keys(k dense.Matrix[T], tab *kern.Table[T]) (dense.Matrix[T], []T) {
	gain := x.gain * x.gain
	if x.embedding {
		x.v = buf.Shaped(x.v, k.Rows, x.embed.Rows)
		tab.MulT(x.v, k, &x.embed, nil)
		k, gain = x.v, 1
	}
	if x.kind != kernel.Gaussian {
		return k, nil
	}
	x.bias = buf.Sized(x.bias, k.Rows)
	for j := range k.Rows {
		x.bias[j] = T(-tab.Norm2(k.Row(j)) * gain / 2)
	}
	return k, x.bias
}
