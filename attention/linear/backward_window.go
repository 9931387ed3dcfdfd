package linear

import (
	"math"
	"sort"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/kernel"
)

// windowed computes the gradients of streams with exact weights in three rounds. The first sums the common denominators
// of features and exact weights. The second runs the sweeps at these denominators. The third adds the gradients of the
// exact weights p = κ(q, k)/den:
//
//	ds = p ⊙ (dout·v − D),   dv = pᵀ·dout,   d(q, k) = ds ∂ log κ(q, k)
func (g *gang[T]) windowed(all []stream[T]) error {
	passes := g.passes[:g.n]
	for i, p := range passes {
		defer func() { p.s = &all[i] }()
		p.sweeps[0], p.sweeps[1] = all[i].sweeps()
		p.den = buf.Zeroed(p.den, len(p.lambda))
		for i := range p.lambda {
			p.lambda[i] = math.Inf(-1)
		}
		p.summing = true
	}
	each := func(keys bool) error {
		for way := range 2 {
			if way == 1 && all[0].oneSweep() {
				break
			}
			for _, p := range passes {
				p.s = &p.sweeps[way]
			}
			if err := g.sweepAll(keys); err != nil {
				return err
			}
		}
		for i, p := range passes {
			p.s = &all[i]
		}
		return nil
	}
	if err := each(false); err != nil {
		return err
	}
	g.items.reset()
	for i := range all {
		g.items.add((all[i].lenQ() + all[i].rows - 1) / all[i].rows)
	}
	if err := g.crew.Do(g.items.items(), len(g.crew.Workers), (*exactSums[T])(g)); err != nil {
		return err
	}
	for _, p := range passes {
		p.summing, p.known = false, true
	}
	if err := each(true); err != nil {
		return err
	}
	for _, p := range passes {
		p.merged.Store(0)
	}
	g.relay.stop.Store(0)
	return g.crew.Do(g.items.items(), len(g.crew.Workers), (*exactGradients[T])(g))
}

// exactSums is the step that adds the exact weights of a block of queries to their denominators, which are complete
// then.
type exactSums[T dense.Float] gang[T]

func (g *exactSums[T]) Item(w *backWorker[T], i int) error {
	k, i := g.items.at(i)
	p := (*gang[T])(g).use(w, g.passes[k].s, k)
	s := p.s
	lo, hi := i*s.rows, min((i+1)*s.rows, s.lenQ())
	w.exactRows(p, lo, hi, true)
	for h := range s.group {
		w.products(p, h, lo, hi-lo)
		for at := h*s.lenQ() + lo; at < h*s.lenQ()+hi; at++ {
			w.factor(p, at, T(p.den[at]), p.lambda[at], !math.IsInf(p.lambda[at], -1))
		}
	}
	return nil
}

// exactGradients is the step that adds the gradients of the exact weights of a block of queries. Blocks share keys, so
// each computes its part in scratch and adds it in the order of blocks.
type exactGradients[T dense.Float] gang[T]

// Release implements par.Waiter: it ends the waits of Item after a panic.
func (g *exactGradients[T]) Release() { g.relay.Release() }

func (g *exactGradients[T]) Item(w *backWorker[T], i int) error {
	k, i := g.items.at(i)
	p := (*gang[T])(g).use(w, g.passes[k].s, k)
	s := p.s
	w.exactRows(p, i*s.rows, min((i+1)*s.rows, s.lenQ()), false)
	for looks := 0; p.merged.Load() < int64(i); looks++ {
		if pause(looks); g.relay.stop.Load() > 0 {
			return errStopped
		}
	}
	dk, dv := p.b.dk.Head(s.b, s.h), p.b.dv.Head(s.b, s.h)
	for _, x := range [...]*blockGrads[T]{&w.sinkGrads, &w.winGrads} {
		for j := range x.dk.Rows {
			w.tab.MulAdd(dk.Row(x.first+j), x.dk.Row(j), 1)
			w.tab.MulAdd(dv.Row(x.first+j), x.dv.Row(j), 1)
		}
	}
	p.merged.Add(1)
	return nil
}

// blockGrads are the gradients that a block of queries contributes to a run of neighbouring keys.
type blockGrads[T dense.Float] struct {
	first  int // index of the first of these keys in its head
	dk, dv dense.Matrix[T]
}

// empty sets x to zero gradients for the keys lo to hi−1 of s.
func (x *blockGrads[T]) empty(s *stream[T], lo, hi int) {
	n := max(0, hi-lo)
	x.first = s.k0 + lo
	x.dk, x.dv = buf.Shaped(x.dk, n, s.k.Cols), buf.Shaped(x.dv, n, s.v.Cols)
	clear(x.dk.Data)
	clear(x.dv.Data)
}

// exactRows handles the exact weights (sinks and window) of queries i0 to i1−1.
func (w *backWorker[T]) exactRows(p *pass[T], i0, i1 int, summing bool) {
	w.sinkGrads.empty(p.s, 0, 0)
	w.winGrads.empty(p.s, 0, 0)
	if p.s.sinkK.Rows > 0 {
		w.sinks = p.s.sinks()
		w.windowRows(p, &w.sinks, &w.sinkGrads, i0, i1, summing)
		w.sinks = stream[T]{}
	}
	if p.s.window > 0 {
		w.windowRows(p, p.s, &w.winGrads, i0, i1, summing)
	}
}

// addDenominators adds den_i·e^scale_i to the denominators of queries from i0 of head g, at the larger of both scales.
func (p *pass[T]) addDenominators(g, i0 int, den []T, scale []float64) {
	for i, d := range den {
		at := g*p.s.lenQ() + p.s.row(i0+i)
		top := max(p.lambda[at], scale[i])
		p.den[at] = p.den[at]*math.Exp(p.lambda[at]-top) + float64(d)*math.Exp(scale[i]-top)
		p.lambda[at] = top
	}
}

// windowRows handles the exact weights of queries i0 to i1−1 on the keys of s: it sums their denominators if summing is
// set, and otherwise computes the gradients, those of keys in grads.
func (w *backWorker[T]) windowRows(p *pass[T], s *stream[T], grads *blockGrads[T], i0, i1 int, summing bool) {
	x, n := &w.win, i1-i0
	x.prepare(s.m, w.tab)
	first, last := within(x, s, i0, i1)
	if !summing {
		grads.empty(s, first, last)
	}
	for g := range s.group {
		q := s.queries(g).RowRange(i0, i1)
		u := x.queries(q, w.tab)
		lambda := p.lambda[g*s.lenQ()+i0:]
		if !summing {
			for i := range n {
				w.den[i] = p.sign[g*s.lenQ()+i0+i]
				if math.IsInf(lambda[i], 1) {
					w.den[i] = 0
				}
			}
			w.cotangents(p, w.g.RowRange(0, n), w.den, g, i0, n)
		}
		for c := first; c < last; c += w.a.Cols {
			k, v, pos := w.keyRows(s, c, min(c+w.a.Cols, last))
			if k.Rows == 0 {
				continue
			}
			y, bias := x.keys(k, w.tab)
			w.tab.Pack(&w.packed, y)
			a := w.a.RowRange(0, n).ColRange(0, k.Rows)
			w.tab.MulT(a, u, &w.packed, bias)
			for i := range n {
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
				w.windowWeights(p, e[lo:hi], g*s.lenQ()+i0+i, x.row[i], summing)
			}
			if !summing {
				w.packValues(v)
				w.windowCotangents(p, s, grads, g, i0, a, q, u, k, y, pos, c)
			}
		}
	}
}

// windowWeights replaces the exponents e of a query, up to its term row, by weights relative to its denominator; if
// summing is set, it adds them to the denominator instead.
func (w *backWorker[T]) windowWeights(p *pass[T], e []T, at int, row float64, summing bool) {
	if !summing {
		w.tab.Exp(e, T(min(p.lambda[at]-row, math.MaxFloat64)))
		return
	}
	if top := float64(w.tab.Max(e)) + row; top > p.lambda[at] {
		p.den[at] *= math.Exp(p.lambda[at] - top)
		p.lambda[at] = top
	}
	p.den[at] += float64(w.tab.ExpSum(e, T(p.lambda[at]-row)))
}

// windowCotangents adds the gradients of the weights a of queries q, embedded as u, on keys k, embedded as y: to dq
// directly, to keys in grads. c is the position of the first key and pos holds the positions if some are masked.
func (w *backWorker[T]) windowCotangents(p *pass[T], s *stream[T], grads *blockGrads[T], g, i0 int,
	a, q, u, k, y dense.Matrix[T], pos []int, c int) {
	n, keys, x := q.Rows, k.Rows, &w.win
	gm, dv := w.g.RowRange(0, n), s.v.Cols
	ds := w.da.RowRange(0, n).ColRange(0, keys)
	w.tab.MulT(ds, gm, &w.packV, nil)
	for i := range n {
		w.tab.Mul(ds.Row(i), a.Row(i))
	}
	dval := w.dv.RowRange(0, keys)
	clear(dval.Data)
	w.tab.TMul(dval, a, gm.ColRange(0, dv))

	// The exponent is u·y, so du = ds·y and dy = dsᵀ·u. A Gaussian kernel has the further terms −|u|²/2 − |y|²/2.
	du, dy := buf.Shaped(w.embed, n, y.Cols), buf.Shaped(w.embedK, keys, y.Cols)
	w.embed, w.embedK = du, dy
	w.tab.Product(du, ds, y, false)
	clear(dy.Data)
	w.tab.TMul(dy, ds, u)
	gain := T(x.gain * x.gain)
	if x.embedding {
		gain = 1
	}
	if x.kind == kernel.Gaussian {
		w.sums = buf.Sized(w.sums, keys)
		sums := w.sums
		clear(sums)
		for i := range n {
			var t T
			for j, d := range ds.Row(i) {
				t += d
				sums[j] += d
			}
			w.tab.MulAdd(du.Row(i), u.Row(i), -t/gain) // du is multiplied by gain below
		}
		for j, t := range sums {
			w.tab.MulAdd(dy.Row(j), y.Row(j), -t*gain)
		}
	}
	dq := w.dx.RowRange(0, n)
	if x.embedding {
		if w.matrix.IsEmpty() || w.matrixOf != x.of {
			w.matrixOf = x.of
			w.matrix = dense.Convert[T](w.m.Target().M)
			w.tab.Scale(w.matrix.Data, T(x.gain))
		}
		w.tab.Product(dq, du, w.matrix, false)
	} else {
		for i := range n {
			row := dq.Row(i)
			clear(row)
			w.tab.MulAdd(row, du.Row(i), gain)
		}
	}
	w.addQueries(p.b, s, g, i0, n)
	dk := dy
	if x.embedding {
		dk = w.dx.RowRange(0, keys)
		w.tab.Product(dk, dy, w.matrix, false)
	}
	for i := range keys {
		j := c + i
		if pos != nil {
			j = pos[i]
		}
		j += s.k0 - grads.first
		w.tab.MulAdd(grads.dk.Row(j), dk.Row(i), 1)
		w.tab.MulAdd(grads.dv.Row(j), dval.Row(i), 1)
	}
}
