package linear

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// backWorker is the scratch memory of one goroutine of a backward pass.
type backWorker[T dense.Float] struct {
	worker[T]
	dphi   dense.Matrix[T] // cotangents of a chunk of features
	g      dense.Matrix[T] // [dout | −D] of a chunk of queries, of all heads of a group
	v1     dense.Matrix[T] // [v | 1] of a chunk of keys
	da     dense.Matrix[T] // cotangents of the scores of a chunk
	dx     dense.Matrix[T] // input gradients of a chunk
	dv     dense.Matrix[T] // value gradients of a chunk
	shares dense.Matrix[T] // of a chunk of queries of all heads of a group
	now    dense.Matrix[T] // the current shares: a view of shares, or of memory that keeps them
	keeps  keeping         // what the current summation is to keep
	stored bool            // the features of the segment were kept by the pass
	mixed  bool            // some view of the segment had references other than those of the part
	packS  kern.Panel[T]
	packV  kern.Panel[T]
	subV   kern.Panel[T]
	zc     []T                        // running z
	negs   []float64                  // shifts of a chunk of rows, scratch
	grad   *randfeat.Grad[T]          // receives parameter gradients, or nil
	own    *randfeat.Grad[T]          // parameter gradient of one item
	ownOf  *randfeat.Grad[T]          // the caller's gradient that own is for
	diff   randfeat.Differentiable[T] // the map, with derivatives

	// For exact weights: cotangents of embedded queries and keys, the matrix that embeds them (of the map with
	// fingerprint matrixOf), and sums by key.
	embed, embedK dense.Matrix[T]
	matrix        dense.Matrix[T]
	matrixOf      [32]byte
	sums          []T

	sinkGrads, winGrads blockGrads[T]
}

// grow makes room for chunks of the given rows of s.
func (w *backWorker[T]) grow(s *stream[T], rows int) {
	f, dv := s.m.OutDim(), s.v.Cols
	w.dphi = buf.Shaped(w.dphi, rows, f)
	w.g, w.v1 = wide(w.g, rows*s.group, dv+1), wide(w.v1, rows, dv+1)
	w.da = buf.Shaped(w.da, rows, rows)
	w.dx, w.dv = buf.Shaped(w.dx, rows, s.k.Cols), buf.Shaped(w.dv, rows, dv)
	w.zc, w.negs = buf.Sized(w.zc, f), buf.Sized(w.negs, rows)
	if s.causal || s.exact() {
		w.shares = buf.Shaped(w.shares, rows*s.group, f)
	}
}

// wide is buf.Shaped with a stride of whole cache lines (16 elements), so that all rows are aligned if the first is.
func wide[T dense.Float](m dense.Matrix[T], rows, cols int) dense.Matrix[T] {
	m = buf.Shaped(m, rows, (cols+15)/16*16)
	m.Cols = cols
	return m
}

// products computes D_i = out_i·dout_i of n queries from i0 of head g and keeps them in the pass.
func (w *backWorker[T]) products(p *pass[T], g, i0, n int) {
	s := p.s
	dout, out := p.b.dout.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1), s.outputs(g)
	for i := i0; i < i0+n; i++ {
		at := s.row(i)
		p.dots[g*s.lenQ()+at] = dot(dout.Row(at), out.Row(at))
	}
}

// cotangents writes [dout | −D]·factor of n queries from i0 of head g into dst. A factor of 0 gives zeros even if dout
// is not finite.
func (w *backWorker[T]) cotangents(p *pass[T], dst dense.Matrix[T], factor []T, g, i0, n int) {
	s := p.s
	dout := p.b.dout.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1)
	dv := dout.Cols
	for i := range n {
		at, row := s.row(i0+i), dst.Row(i)
		if factor[i] == 0 {
			clear(row)
			continue
		}
		copy(row, dout.Row(at))
		row[dv] = -p.dots[g*s.lenQ()+at]
		if factor[i] != 1 {
			w.tab.Scale(row, factor[i])
		}
		if !dense.IsFinite(float64(row[dv])) { // D is not finite if an element of dout or out is not
			w.bad = true
		}
	}
}

// empty counts queries i0 to i1−1, which see no key, and sets their gradients to zero. Rounds that sum or know the
// denominators of exact weights leave this to those weights.
func (w *backWorker[T]) empty(p *pass[T], i0, i1 int) {
	if p.known || p.summing || i0 >= i1 {
		return
	}
	s := p.s
	w.report.Rows += int64(s.group * (i1 - i0))
	w.report.Empty += int64(s.group * (i1 - i0))
	for g := range s.group {
		dq := p.b.dq.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1)
		for i := i0; i < i1; i++ {
			clear(dq.Row(i))
			p.lambda[g*s.lenQ()+i], p.sign[g*s.lenQ()+i] = math.Inf(1), 1
		}
	}
}

// factors turns the denominators of n queries in w.den into factors of their cotangents: 1/den, or 0 for queries
// without gradient. It keeps the logarithms of the denominators in the pass, or uses those already known.
func (w *backWorker[T]) factors(p *pass[T], g, i0, n int, seen func(int) bool) {
	s, den := p.s, w.den[:n]
	for i := range den {
		at := g*s.lenQ() + s.row(i0+i)
		if p.known {
			den[i] = p.sign[at] * T(math.Exp(w.scale[i]-p.lambda[at]))
		} else {
			den[i] = w.factor(p, at, den[i], w.scale[i], seen(i))
		}
		if den[i] == 0 {
			w.scale[i] = math.MaxFloat64 // makes all features of the row zero, whatever their exponents
		}
	}
}

// factor returns 1/den, or 0 for a row without gradient, and keeps log |den·e^scale| and the sign of den at index at.
func (w *backWorker[T]) factor(p *pass[T], at int, den T, scale float64, seen bool) T {
	w.report.Rows++
	p.lambda[at], p.sign[at] = math.Inf(1), 1
	if !seen {
		w.report.Empty++
		return 0
	}
	inv := 1 / den
	if !dense.IsFinite(float64(inv)) || !dense.IsFinite(float64(den)) {
		w.report.Zero++
		return 0
	}
	if den < 0 {
		w.report.Negative++
		p.sign[at] = -1
	}
	p.lambda[at] = scale + math.Log(math.Abs(float64(den)))
	return inv
}

// addQueries adds the input gradients in dx to n queries from i0 of head g.
func (w *backWorker[T]) addQueries(b *backCall[T], s *stream[T], g, i0, n int) {
	dq := b.dq.Head(s.b, s.h*s.group+g).RowRange(s.q0, s.q1)
	for i := range n {
		w.tab.MulAdd(dq.Row(s.row(i0+i)), w.dx.Row(i), 1)
	}
}

// vjpQueries turns the cotangents dphi of the features phi, at the references ref, into gradients of the queries q,
// which begin at i0 of head g.
func (w *backWorker[T]) vjpQueries(p *pass[T], dphi, phi dense.Matrix[T], ref *reference[T], q dense.Matrix[T],
	g, i0 int) error {
	s, n := p.s, q.Rows
	shift := w.negs[:n]
	for i := range shift {
		shift[i] = w.scale[i] - ref.base
	}
	dx := w.dx.RowRange(0, n)
	if p.b.direct {
		dx = p.b.dq.Head(s.b, s.h*s.group+g).RowRange(s.q0+i0, s.q0+i0+n)
	}
	if err := w.diff.QueriesVJP(dx, dphi, phi, q, ref.tau, shift, w.grad, &w.ws); err != nil {
		return err
	}
	if !p.b.direct {
		w.addQueries(p.b, s, g, i0, n)
	}
	return nil
}

// addShares adds queries with the features phi and the cotangents g = [dout | −D]·factor to the sums dS and dz, if keep
// is set.
func (w *backWorker[T]) addShares(part *sums[T], phi, g dense.Matrix[T], keep bool) {
	if !keep || phi.Rows == 0 {
		return
	}
	// Kept features are no longer in the caches. The loop over rows fetches them in the order that caches prefer.
	dv := g.Cols - 1
	for i := range phi.Rows {
		w.tab.MulAdd(part.z, phi.Row(i), g.Row(i)[dv])
	}
	w.tab.TMul(part.s, phi, g.ColRange(0, dv))
	part.n += phi.Rows
}

// queryBlock computes dq of queries lo to hi−1, which see all keys, and adds their shares to part.
func (w *backWorker[T]) queryBlock(p *pass[T], part *sums[T], lo, hi int) error {
	s, rows := p.s, w.phiQ.Rows
	all := func(int) bool { return true }
	for g := range s.group {
		for i0 := lo; i0 < hi; i0 += rows {
			n := min(rows, hi-i0)
			q := w.queryRows(s, g, i0, i0+n)
			phi, dphi, gm := w.phiQ.RowRange(0, n), w.dphi.RowRange(0, n), w.g.RowRange(0, n)
			if err := w.weigh(phi, q, &p.view, 1); err != nil {
				return err
			}
			if p.summing {
				p.addDenominators(g, i0, w.den[:n], w.scale)
				continue
			}
			w.factors(p, g, i0, n, all)
			if !p.known {
				w.products(p, g, i0, n)
			}
			w.cotangents(p, gm, w.den, g, i0, n)
			w.tab.MulT(dphi, gm, &p.packed, nil)
			if err := w.vjpQueries(p, dphi, phi, p.view.ref, q, g, i0); err != nil {
				return err
			}
			w.addShares(part, phi, gm, true)
		}
	}
	return nil
}

// querySegment computes dq of the queries at positions lo to hi−1 of a causal stream and adds the keys there to mem,
// those of the last chunk only if keep is set. It repeats the sweep of Forward, with the same references. Features kept
// for the key sweep are marked spoilt if a reference changed.
func (w *backWorker[T]) querySegment(p *pass[T], mem *memory[T], lo, hi int, keep bool) error {
	w.look, w.mixed = w.phiK.Rows, false
	epoch, segment := mem.part.epoch, lo/p.s.cut().one
	for lo < hi {
		k, err := w.take(p.s, mem, lo, hi)
		if err != nil {
			return err
		}
		if err := w.queryChunk(p, mem, k, lo, keep || k.end < hi); err != nil {
			return err
		}
		lo = k.end
	}
	if !p.phiK.IsEmpty() && (w.mixed || mem.part.epoch != epoch) {
		p.spoilt[segment].Store(true)
	}
	return nil
}

// beside computes dq of the queries at positions p0 to p1−1, which lie behind all keys.
func (w *backWorker[T]) beside(p *pass[T], mem *memory[T], p0, p1 int) error {
	for ; p0 < p1; p0 += w.phiQ.Rows {
		if err := w.queryChunk(p, mem, keys[T]{end: min(p1, p0+w.phiQ.Rows)}, p0, false); err != nil {
			return err
		}
	}
	return nil
}

// queryChunk computes dq of the queries from position p0 to the end of the keys k, at most a chunk, and adds k to mem
// if keep is set.
func (w *backWorker[T]) queryChunk(p *pass[T], mem *memory[T], k keys[T], p0 int, keep bool) error {
	s, past, phiK, v := p.s, mem.seen(), k.phi, k.v
	first, last := s.queriesAt(p0, k.end)
	if first >= last || past == 0 && v.Rows == 0 {
		w.addKeysTo(mem, phiK, v, keep)
		w.empty(p, first, last)
		return nil
	}
	view := mem.view(&w.worker, true)
	if view.factor != nil {
		// Reading needs references above those of the part, so the sums of the view are a copy: add the keys first,
		// before the factor changes their features.
		w.mixed = true
		w.addKeysTo(mem, phiK, v, keep)
		for j := range phiK.Rows {
			w.tab.Mul(phiK.Row(j), view.factor)
		}
	} else {
		defer w.addKeysTo(mem, phiK, v, keep)
	}
	if !p.summing {
		if past > 0 {
			w.tab.Pack(&w.packS, view.s)
		}
		w.packValues(v)
	}
	n := last - first
	for g := range s.group {
		q := w.queryRows(s, g, first, last)
		phi, dphi, gm := w.phiQ.RowRange(0, n), w.dphi.RowRange(0, n), w.g.RowRange(0, n)
		if !p.phiQ.IsEmpty() {
			at := first*s.group + g*n
			phi = p.phiQ.RowRange(at, at+n)
		}
		if err := w.weigh(phi, q, &view, past); err != nil {
			return err
		}
		count := w.count[:n]
		clear(count)
		if v.Rows > 0 {
			counts(count, k.pos, first+s.off-p0, p0, v.Rows)
		}
		w.denominators(phi, phiK, view.z, past, count)
		if p.summing {
			p.addDenominators(g, first, w.den[:n], w.scale)
			continue
		}
		w.factors(p, g, first, n, func(i int) bool { return past+int64(count[i]) > 0 })
		if !p.known {
			w.products(p, g, first, n)
		}
		w.cotangents(p, gm, w.den, g, first, n)
		if past > 0 {
			dv := gm.Cols - 1
			w.tab.MulT(dphi, gm.ColRange(0, dv), &w.packS, nil)
			for i := range n {
				w.tab.MulAdd(dphi.Row(i), view.z, gm.Row(i)[dv])
			}
		} else {
			clear(dphi.Data)
		}
		if v.Rows > 0 {
			w.scoreCotangents(gm, count, v.Rows, func(r, end, whole int) {
				w.tab.Product(dphi.RowRange(r, end), w.da.RowRange(r, end).ColRange(0, whole), phiK.RowRange(0, whole),
					true)
			})
		}
		if err := w.vjpQueries(p, dphi, phi, view.ref, q, g, first); err != nil {
			return err
		}
		if !p.phiQ.IsEmpty() {
			copy(p.inv[g*s.lenQ()+first:], w.den[:n])
			for i, d := range w.den[:n] {
				if d == 0 { // the row need not be finite
					clear(phi.Row(i))
				}
			}
		}
	}
	return nil
}

// addKeysTo adds keys to mem if keep is set.
func (w *backWorker[T]) addKeysTo(mem *memory[T], phi, v dense.Matrix[T], keep bool) {
	if keep && phi.Rows > 0 {
		mem.part.add(w.tab, phi, v)
	}
}

// packValues packs [v | 1]: a product with [dout | −D] then gives dout·v − D.
func (w *backWorker[T]) packValues(v dense.Matrix[T]) {
	if v.Rows == 0 {
		return
	}
	for j := range v.Rows {
		row := w.v1.Row(j)
		copy(row, v.Row(j))
		row[v.Cols] = 1
	}
	w.checkValues(v)
	w.tab.Pack(&w.packV, w.v1.RowRange(0, v.Rows))
}

// checkValues sets w.bad if a value is not finite.
func (w *backWorker[T]) checkValues(v dense.Matrix[T]) {
	if !w.checks {
		return
	}
	// A column sum with a term that is not finite is not finite. Overflow of finite values also sets bad, which only
	// causes a search.
	w.sums = buf.Sized(w.sums, v.Cols)
	clear(w.sums)
	w.tab.ColSum(w.sums, v)
	for _, s := range w.sums {
		if !dense.IsFinite(float64(s)) {
			w.bad = true
		}
	}
}

// denominators sets den_i = φ_i·(z + Σ of the features of the first count_i keys of the chunk).
func (w *backWorker[T]) denominators(phi, phiK dense.Matrix[T], z []T, past int64, count []int) {
	if clear(w.zc); past > 0 {
		copy(w.zc, z)
	}
	n := phi.Rows
	if n <= phiK.Rows && count[0] == 1 && count[n-1] == n { // every query sees one key more than the query before
		w.tab.AddDots(w.den[:n], w.zc, phiK.RowRange(0, n), phi)
		return
	}
	j := 0
	for i := range phi.Rows {
		for ; j < count[i]; j++ {
			w.tab.MulAdd(w.zc, phiK.Row(j), 1)
		}
		w.tab.MulV(w.den[i:i+1], phi.RowRange(i, i+1), w.zc)
	}
}

// scoreCotangents sets row i of da to g_i·[v_j | 1] for the first count_i keys of the chunk and to zero for the others,
// in blocks of rows. It calls then for each block of rows [r, end) with the number of columns in use.
func (w *backWorker[T]) scoreCotangents(g dense.Matrix[T], count []int, keys int, then func(r, end, cols int)) {
	for r := 0; r < g.Rows; r += triangleRows {
		end := min(r+triangleRows, g.Rows)
		whole := wholePanels(count[end-1], keys, w.packV.Width)
		if whole == 0 {
			continue
		}
		w.subV = kern.Panel[T]{Rows: whole, Cols: w.packV.Cols, Width: w.packV.Width, Data: w.packV.Data}
		a := w.da.RowRange(r, end).ColRange(0, whole)
		w.tab.MulT(a, g.RowRange(r, end), &w.subV, nil)
		for i := range a.Rows {
			clear(a.Row(i)[min(count[r+i], whole):])
		}
		then(r, end, whole)
	}
}

// wholePanels is the number of columns of whole panels that contain the first n keys.
func wholePanels(n, keys, width int) int { return min(keys, (n+width-1)/width*width) }
