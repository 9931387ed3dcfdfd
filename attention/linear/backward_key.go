package linear

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// keyBlock computes dk and dv of keys lo to hi−1, which all queries see, from dS and dz.
func (w *backWorker[T]) keyBlock(p *pass[T], lo, hi int) error {
	s, rows := p.s, w.phiK.Rows
	ref := p.view.ref
	for c := lo; c < hi; c += rows {
		end := min(c+rows, hi)
		k, v, pos := w.keyRows(s, c, end)
		n := k.Rows
		if n == 0 {
			continue
		}
		phi, dphi := w.phiK.RowRange(0, n), w.dphi.RowRange(0, n)
		dx, dv := w.keyGrads(p, c, n)
		w.negTau(ref)
		shift := w.negs[:n]
		for j := range shift {
			shift[j] = ref.base
		}
		if err := w.m.KeysScaled(phi, w.col, shift, k, &w.ws); err != nil {
			return err
		}
		w.checkValues(v)
		w.tab.MulT(dphi, v, &p.dsPacked, p.dz)
		w.tab.Product(dv, phi, p.ds, false)
		if err := w.diff.KeysVJP(dx, dphi, phi, k, w.col, shift, w.grad, &w.ws); err != nil {
			return err
		}
		w.addKeys(p, pos, c, n)
	}
	return nil
}

// keyGrads is the place for the gradients of n keys at position c: the rows of dk and dv themselves, or scratch that
// addKeys adds to them.
func (w *backWorker[T]) keyGrads(p *pass[T], c, n int) (dk, dv dense.Matrix[T]) {
	if !p.b.direct {
		return w.dx.RowRange(0, n), w.dv.RowRange(0, n)
	}
	s := p.s
	return p.b.dk.Head(s.b, s.h).RowRange(c, c+n), p.b.dv.Head(s.b, s.h).RowRange(c, c+n)
}

// addKeys adds the gradients of n keys from position c in dx and dv to their rows; pos holds their positions if some
// keys are masked. It does nothing if they were written in place.
func (w *backWorker[T]) addKeys(p *pass[T], pos []int, c, n int) {
	if p.b.direct {
		return
	}
	s := p.s
	dk, dv := p.b.dk.Head(s.b, s.h), p.b.dv.Head(s.b, s.h)
	for i := range n {
		j := c + i
		if pos != nil {
			j = pos[i]
		}
		if s.backward {
			j = s.k.Rows - 1 - j
		}
		j += s.k0
		w.tab.MulAdd(dk.Row(j), w.dx.Row(i), 1)
		w.tab.MulAdd(dv.Row(j), w.dv.Row(i), 1)
	}
}

// reverse sweeps the positions lo to hi−1 of a causal stream from the last to the first. mem holds the sums of the
// shares P of later queries, with [dout | −D] as values. If read is set, it first computes the gradients of the keys of
// each chunk. The queries of the last chunk are added only if keep is set.
//
// Invariant: only the queries at the last position of a piece raise the references of P. They see every key of the
// piece, so no feature of a key exceeds 1 at these references.
func (w *backWorker[T]) reverse(p *pass[T], mem *memory[T], lo, hi int, read, keep bool) error {
	rows := w.phiK.Rows
	look := rows
	for end := hi; end > lo; {
		c := max(lo, (end-1)/rows*rows, end-look)
		ok, err := w.sharesOf(p, mem, c, end, mem.skip+c-lo)
		if err != nil {
			return err
		}
		if !ok {
			if err := w.raiseShares(p, &mem.part, end-1); err != nil {
				return err
			}
			for c = max(c, end-16); ; c = end - (end-c)/2 {
				if ok, err = w.sharesOf(p, mem, c, end, c-lo); err != nil {
					return err
				}
				if ok || c == end-1 {
					break
				}
			}
			look = max(1, end-c)
		}
		if w.keeps == keepSums {
			mem.mark((c-lo)/rows, (hi-lo+rows-1)/rows)
		}
		if err := w.keyChunk(p, mem, c, end, read, keep || c > lo); err != nil {
			return err
		}
		look = min(2*look, rows)
		end = c
	}
	return nil
}

// sumShares sets the part of mem to the sums over the shares of the queries at positions lo to hi−1. It keeps the
// shares if keep asks for it and none needs higher references than the segment began with.
func (w *backWorker[T]) sumShares(p *pass[T], mem *memory[T], lo, hi int, keep keeping) error {
	epoch := mem.part.epoch
	if mem.seed.set && keep > keepNothing {
		if w.keeps = keep; !w.stored {
			mem.hold(dense.Matrix[T]{}, (hi-lo)*p.s.group, p.s.m.OutDim())
		}
	}
	err := w.reverse(p, mem, lo, hi, false, true)
	if w.keeps > keepNothing {
		mem.keep(epoch)
	}
	w.keeps = keepNothing
	return err
}

// appendBeside adds the queries at positions p0 to p1−1, which lie behind all keys, to the totals of mem.
func (w *backWorker[T]) appendBeside(p *pass[T], mem *memory[T], p0, p1 int) error {
	if p0 >= p1 {
		return nil
	}
	if err := w.reverse(p, mem, p0, p1, false, true); err != nil {
		return err
	}
	mem.flush(w.tab)
	return nil
}

// sharesOf sets w.now to the shares of the queries at positions c to end−1, one head after the other, at the references
// of the part of mem. It reports whether they stay below e^lag in modulus. at is the index of the first of them among
// the features that mem keeps of the segment. Without references it reports false, unless there is no query.
func (w *backWorker[T]) sharesOf(p *pass[T], mem *memory[T], c, end, at int) (bool, error) {
	s := p.s
	first, last := max(c-s.off, 0), min(end-s.off, s.lenQ())
	w.now = w.shares.RowRange(0, max(0, last-first)*s.group)
	if first >= last {
		return true, nil
	}
	if w.stored {
		w.now = p.phiQ.RowRange(first*s.group, last*s.group)
		return true, nil
	}
	if w.keeps > keepNothing || mem.kept {
		w.now = mem.features.RowRange(at*s.group, (at+last-first)*s.group)
	}
	if mem.kept {
		return true, nil
	}
	ref := &mem.part.ref
	if !ref.set {
		return false, nil
	}
	n := last - first
	w.negTau(ref)
	shift := w.negs[:n]
	limit := T(math.Exp(lag))
	for g := range s.group {
		phi := w.now.RowRange(g*n, (g+1)*n)
		for i := range shift {
			shift[i] = min(p.lambda[g*s.lenQ()+s.row(first+i)]+ref.base, math.MaxFloat64)
		}
		if err := w.m.QueriesScaled(phi, w.col, shift, w.queryRows(s, g, first, last), &w.ws); err != nil {
			return false, err
		}
		if !(w.tab.Max(phi.Data) <= limit) {
			return false, nil
		}
		if w.value.Rows > 0 {
			for _, v := range phi.Data {
				if !(v >= -limit) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// raiseShares lifts the references of part to the shares of the queries at position at, if there are any.
func (w *backWorker[T]) raiseShares(p *pass[T], part *sums[T], at int) error {
	s := p.s
	i := at - s.off
	if i < 0 || i >= s.lenQ() {
		return nil
	}
	for g := range s.group {
		e, value, row := w.dphi.RowRange(0, 1), w.values(1), w.negs[:1]
		lambda := p.lambda[g*s.lenQ()+s.row(i)]
		if err := w.m.LogQueries(e, value, row, w.queryRows(s, g, i, i+1), &w.ws); err != nil {
			return err
		}
		if math.IsInf(lambda, 1) {
			// The row has no gradient, but a reference must exist.
			if part.ref.set {
				continue
			}
			lambda = row[0]
		}
		part.raise(w.tab, e.Row(0), row[0]-lambda)
	}
	return nil
}

// keyChunk computes the gradients of the keys at positions c to end−1 (if read) and, if keep is set, adds the queries
// there to mem. w.now holds the shares of these queries at the references of the part.
func (w *backWorker[T]) keyChunk(p *pass[T], mem *memory[T], c, end int, read, keep bool) error {
	s := p.s
	first, last := max(c-s.off, 0), min(end-s.off, s.lenQ())
	n := max(0, last-first)
	if n > 0 {
		for g := range s.group {
			at := g * s.lenQ()
			for i := range n {
				l := at + s.row(first+i)
				w.den[i] = p.sign[l]
				if math.IsInf(p.lambda[l], 1) {
					w.den[i] = 0
				} else if w.stored {
					w.den[i] = p.inv[l]
				}
			}
			w.cotangents(p, w.g.RowRange(g*n, (g+1)*n), w.den, g, first, n)
		}
	}
	shares, cot := w.now, w.g.RowRange(0, n*s.group)
	past := mem.seen()
	if !read || past == 0 && n == 0 {
		w.addShares(&mem.part, shares, cot, keep)
		return nil
	}
	view := mem.view(&w.worker, true)
	if view.factor != nil {
		w.addShares(&mem.part, shares, cot, keep)
		for i := range shares.Rows {
			w.tab.Mul(shares.Row(i), view.factor)
		}
	} else {
		defer w.addShares(&mem.part, shares, cot, keep)
	}
	k, v, pos := w.keyRows(s, c, end)
	if k.Rows == 0 {
		return nil
	}
	ref := view.ref
	phi, dphi := w.phiK.RowRange(0, k.Rows), w.dphi.RowRange(0, k.Rows)
	dx, dval := w.keyGrads(p, c, k.Rows)
	shift := w.negs[:k.Rows]
	for j := range shift {
		shift[j] = -ref.base
	}
	if w.stored && view.factor == nil {
		phi = p.phiK.RowRange(c, end)
	} else if err := w.m.KeysScaled(phi, ref.tau, shift, k, &w.ws); err != nil {
		return err
	}
	w.packValues(v)
	if n > 0 {
		w.tab.Pack(&w.packed, phi) // before the other products: it reads kept features in the order that caches prefer
	}
	if past > 0 {
		w.tab.Pack(&w.packS, view.s)
		w.tab.MulT(dphi, v, &w.packS, view.z)
		w.tab.Product(dval, phi, view.s, false)
	} else {
		clear(dphi.Data)
		for j := range dval.Rows {
			clear(dval.Row(j))
		}
	}
	if n > 0 {
		count := w.count[:n]
		counts(count, pos, first+s.off-c, c, k.Rows)
		for g := range s.group {
			w.keyTriangle(dphi, dval, shares.RowRange(g*n, (g+1)*n), cot.RowRange(g*n, (g+1)*n), count, k.Rows)
		}
	}
	if err := w.diff.KeysVJP(dx, dphi, phi, k, ref.tau, shift, w.grad, &w.ws); err != nil {
		return err
	}
	w.addKeys(p, pos, c, k.Rows)
	return nil
}

// keyTriangle adds the queries of a chunk to the cotangents of its keys: with scores A = P·φ2ᵀ and their cotangents dA,
// dφ2 += dAᵀ·P and dv += Aᵀ·dout. Row i of A and dA is defined for its first count[i] keys, rounded up to whole panels,
// so the products go over blocks of keys and of rows that have all of them.
func (w *backWorker[T]) keyTriangle(dphi, dv, shares, g dense.Matrix[T], count []int, keys int) {
	w.scoreCotangents(g, count, keys, func(r, end, whole int) {
		w.sub = kern.Panel[T]{Rows: whole, Cols: w.packed.Cols, Width: w.packed.Width, Data: w.packed.Data}
		a := w.a.RowRange(r, end).ColRange(0, whole)
		w.tab.MulT(a, shares.RowRange(r, end), &w.sub, nil)
		for i := range a.Rows {
			clear(a.Row(i)[min(count[r+i], whole):])
		}
	})
	dout := g.ColRange(0, dv.Cols)
	for c := 0; c < keys; c += triangleRows {
		// Rows of blocks that see none of these keys have not been written.
		r := 0
		for r < g.Rows && wholePanels(count[min(r+triangleRows, g.Rows)-1], keys, w.packV.Width) <= c {
			r += triangleRows
		}
		// The width of later columns may end inside the block of the first rows.
		for r0 := r; r0 < g.Rows; {
			cols := min(c+triangleRows, keys, wholePanels(count[min(r0+triangleRows, g.Rows)-1], keys, w.packV.Width))
			r1 := r0
			for r1 < g.Rows && min(c+triangleRows, keys, wholePanels(count[min(r1+triangleRows, g.Rows)-1], keys,
				w.packV.Width)) == cols {
				r1 += triangleRows
			}
			r1 = min(r1, g.Rows)
			w.tab.TMul(dphi.RowRange(c, cols), w.da.RowRange(r0, r1).ColRange(c, cols), shares.RowRange(r0, r1))
			w.tab.TMul(dv.RowRange(c, cols), w.a.RowRange(r0, r1).ColRange(c, cols), dout.RowRange(r0, r1))
			r0 = r1
		}
	}
}
