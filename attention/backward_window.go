package attention

import (
	"math"
	"sort"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/kernel"
)

// windowed computes a stream with exact weights: first the common denominators of features and exact weights, then the
// gradients of the sweeps at these denominators, then those of the exact weights p = κ(q, k)/den:
//
//	ds = p ⊙ (dout·v − D),   dv = pᵀ·dout,   d(q, k) = ds ∂ log κ(q, k)
func (g *gang[T]) windowed(p *pass[T]) error {
	s, w := p.s, g.crew.Workers[0]
	defer func() { p.s = s }()
	p.sweeps[0], p.sweeps[1] = s.sweeps()
	sweeps := p.sweeps[:2]
	if s.oneSweep() {
		sweeps = sweeps[:1]
	}
	p.den = buf.Zeroed(p.den, len(p.lambda))
	for i := range p.lambda {
		p.lambda[i] = math.Inf(-1)
	}
	p.summing = true
	for i := range sweeps {
		p.s = &sweeps[i]
		var err error
		if p.s.causal {
			err = g.sweep((*querySweep[T])(g))
		} else { // without a window, at once
			err = g.bidirectional()
		}
		if err != nil {
			return err
		}
	}
	p.summing = false
	g.use(w, s, 0)
	w.exactRows(p, s, true)
	for i, d := range p.den {
		w.factor(p, i, T(d), p.lambda[i], !math.IsInf(p.lambda[i], -1))
	}
	p.known = true
	for i := range sweeps {
		p.s = &sweeps[i]
		if !p.s.causal {
			if err := g.bidirectional(); err != nil {
				return err
			}
			continue
		}
		if err := g.sweep((*querySweep[T])(g)); err != nil {
			return err
		}
		if err := g.sweep((*keySweep[T])(g)); err != nil {
			return err
		}
	}
	g.use(w, s, 0)
	w.exactRows(p, s, false)
	return nil
}

// exactRows handles the exact weights of all queries, those of the sinks and of the window.
func (w *backWorker[T]) exactRows(p *pass[T], s *stream[T], summing bool) {
	for i := 0; i < s.lenQ(); i += w.phiQ.Rows {
		end := min(i+w.phiQ.Rows, s.lenQ())
		if s.sinkK.Rows > 0 {
			w.sinks = s.sinks()
			p.s = &w.sinks
			w.windowRows(p, i, end, summing)
		}
		if p.s = s; s.window > 0 {
			w.windowRows(p, i, end, summing)
		}
	}
	w.sinks = stream[T]{}
}

// addDenominators adds den_i·e^scale_i to the denominators of queries from i0 of head g.
func (p *pass[T]) addDenominators(g, i0 int, den []T, scale []float64) {
	for i, d := range den {
		at := g*p.s.lenQ() + p.s.row(i0+i)
		top := max(p.lambda[at], scale[i])
		p.den[at] = p.den[at]*math.Exp(p.lambda[at]-top) + float64(d)*math.Exp(scale[i]-top)
		p.lambda[at] = top
	}
}

// windowRows handles the exact weights of queries i0 to i1−1: their denominators if summing, else their gradients.
func (w *backWorker[T]) windowRows(p *pass[T], i0, i1 int, summing bool) {
	s, x, n := p.s, &w.win, i1-i0
	x.prepare(s.m, w.tab)
	first, last := within(x, s, i0, i1)
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
				w.windowCotangents(p, g, i0, a, q, u, k, y, pos, c)
			}
		}
	}
}

// windowWeights replaces the exponents of a query, up to its term row, by their weights, or sums these.
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

// windowCotangents adds the gradients of the weights a of queries q, embedded as u, on keys k, embedded as y.
func (w *backWorker[T]) windowCotangents(p *pass[T], g, i0 int, a, q, u, k, y dense.Matrix[T], pos []int, c int) {
	n, keys, x := q.Rows, k.Rows, &w.win
	gm, dv := w.g.RowRange(0, n), p.s.v.Cols
	ds := w.da.RowRange(0, n).ColRange(0, keys)
	w.tab.MulT(ds, gm, &w.packV, nil)
	for i := range n {
		w.tab.Mul(ds.Row(i), a.Row(i))
	}
	dval := w.dv.RowRange(0, keys)
	clear(dval.Data)
	w.tab.TMul(dval, a, gm.ColRange(0, dv))

	// u·y is the exponent: du = ds·y, dy = dsᵀ·u; a Gaussian kernel has −|u|²/2 − |y|²/2 besides.
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
	dq, dk := w.dx.RowRange(0, n), dense.Matrix[T]{}
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
	w.addQueries(p.b, p.s, g, i0, n)
	if dk = w.dx.RowRange(0, keys); x.embedding {
		w.tab.Product(dk, dy, w.matrix, false)
	} else {
		for j := range keys {
			copy(dk.Row(j), dy.Row(j))
		}
	}
	w.addKeys(p, pos, c, keys)
}
