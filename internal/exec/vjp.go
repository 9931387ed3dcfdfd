package exec

import (
	"math"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// vjpBytes is the size of the cotangents that derivatives of exponentials work on together. They are passed over four
// times, so they should stay near the first-level cache. Measured by BenchmarkVJP.
const vjpBytes = 64 << 10

// Backward is a compiled side prepared for vector-Jacobian products. It holds the projections packed by input column,
// the transpose of what Side holds. It is immutable and safe for concurrent use.
type Backward[T dense.Float] struct {
	side  *Side[T]
	grads []leafGrad[T]
	outer quadGrad[T]
}

// leafGrad holds the transposed linear parts of a leaf.
type leafGrad[T dense.Float] struct {
	re, im     kern.Panel[T]
	row, rowIm quadGrad[T] // unset for explicit functions, which differentiate in u
	vjp        vjp[T]
}

// vjp adds to dx the contribution of the cotangents gv of value and ge of e. ge is also the cotangent of the row term,
// which is part of every exponent: its gradient is multiplied by the row sums of ge. value is what fn.log wrote. A vjp
// may overwrite gv and ge.
type vjp[T dense.Float] func(l *leaf[T], b *Backward[T], g *leafGrad[T], dx, gv, ge, value, x dense.Matrix[T],
	sc *scratch[T])

// vjps is the table of the derivatives of all plan functions. They are apart from functions, and no methods of a leaf,
// so that programs without gradients do not link them.
func vjps[T dense.Float]() [plan.Fns]vjp[T] {
	return [plan.Fns]vjp[T]{
		plan.Exp:      vjpExp[T],
		plan.ExpPM:    vjpExp[T],
		plan.SinCos:   vjpTrig[T],
		plan.Complex:  vjpTrig[T],
		plan.Sign:     vjpSign[T],
		plan.ReLU:     vjpReLU[T],
		plan.ELU:      vjpELU[T],
		plan.Residual: vjpResidual[T],
		plan.Monomial: vjpMonomial[T],
		plan.Columns:  vjpColumns[T],
	}
}

// quadGrad is the gradient Lin + (Q + Qᵀ)x of a quadratic. One of gain, diag and w is set, as in plan.Linear.
type quadGrad[T dense.Float] struct {
	lin  []T
	gain T
	diag []T
	w    kern.Panel[T]
}

func compileQuad[T dense.Float](q plan.Quadratic, tab *kern.Table[T]) quadGrad[T] {
	g := quadGrad[T]{lin: narrow[T](q.Lin)}
	switch {
	case !q.Quad.Dense.IsEmpty():
		sym := plan.Transpose(q.Quad.Dense)
		for i := range sym.Rows {
			for j, v := range q.Quad.Dense.Row(i) {
				sym.Row(i)[j] += v
			}
		}
		tab.Pack(&g.w, dense.Convert[T](sym))
	case q.Quad.Diag != nil:
		g.diag = narrow[T](q.Quad.Diag)
		for i := range g.diag {
			g.diag[i] *= 2
		}
	default:
		g.gain = T(2 * q.Quad.Gain)
	}
	return g
}

// add adds s_i times the gradient at x_i to row i of dx; tmp has room for x.Rows × x.Cols elements.
func (g *quadGrad[T]) add(dx dense.Matrix[T], s []T, x dense.Matrix[T], tmp []T, tab *kern.Table[T]) {
	var w dense.Matrix[T]
	if g.w.Rows > 0 {
		w = dense.Matrix[T]{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: tmp}
		tab.MulT(w, x, &g.w, nil)
	}
	for i := range x.Rows {
		d, xi, si := dx.Row(i), x.Row(i), s[i]
		switch {
		case g.w.Rows > 0:
			tab.MulAdd(d, w.Row(i), si)
		case g.diag != nil:
			for k, v := range xi {
				d[k] += si * g.diag[k] * v
			}
		case g.gain != 0:
			tab.MulAdd(d, xi, si*g.gain)
		}
		if g.lin != nil {
			tab.MulAdd(d, g.lin, si)
		}
	}
}

func axpy[T dense.Float](dst []T, a T, x []T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += a * x[i]
	}
}

// CompileBackward prepares the derivatives of s. Fast transforms are not used backwards: their dense matrix is packed.
func CompileBackward[T dense.Float](s *Side[T]) *Backward[T] {
	b := &Backward[T]{side: s, outer: compileQuad(s.outer, s.tab)}
	for i := range s.leaves {
		l := &s.leaves[i]
		g := leafGrad[T]{vjp: vjps[T]()[l.Fn]}
		transpose := func(p *kern.Panel[T], mix plan.Linear) {
			if !mix.IsZero() {
				s.tab.PackT(p, dense.Convert[T](weights(l.Omega.Rows, mix.Compose(l.Lin, s.dim))))
			}
		}
		transpose(&g.re, l.Mix)
		transpose(&g.im, l.MixIm)
		if !l.fn.explicit {
			g.row, g.rowIm = compileQuad(l.row, s.tab), compileQuad(l.rowIm, s.tab)
		}
		b.grads = append(b.grads, g)
	}
	return b
}

// Learns reports whether Run can add to Sums: the side must be a single leaf of exponentials.
func (b *Backward[T]) Learns() bool { return b.side.simple && b.side.leaves[0].fn.unit }

// Sums are the derivatives of a loss by the parameters of the exponents w_f·x + q(x) of a single leaf of exponentials.
// Let dE_if be the derivative by the exponent of feature f in row i (for ExpPM, the difference of the two signs of t)
// and s_i the sum of the derivatives of all features of row i. Then
//
//	W = Σ_i dE_i ⊗ x_i,  Q = Σ_i s_i x_i x_iᵀ,  Lin = Σ_i s_i x_i.
//
// The accumulators sum in T for some thousand rows and in float64 beyond.
type Sums[T dense.Float] struct {
	w, q, lin *kern.Accumulator[T]
}

// NewSums returns zero sums: W is m × dim, Q dim × dim, Lin one row. It may be called only if Learns reports true.
func (b *Backward[T]) NewSums() *Sums[T] {
	tab, m, d := b.side.tab, b.side.leaves[0].re.rows, b.side.dim
	return &Sums[T]{w: kern.NewAccumulator(tab, m, d), q: kern.NewAccumulator(tab, d, d),
		lin: kern.NewAccumulator(tab, 1, d)}
}

// add adds the rows of a block: de holds the derivatives by the projections, t their sums s_i over the features.
func (s *Sums[T]) add(de dense.Matrix[T], t []T, x dense.Matrix[T], tmp []T, tab *kern.Table[T]) {
	s.w.Add(de, x)
	tx := dense.Matrix[T]{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: tmp}
	for i := range x.Rows {
		row := tx.Row(i)
		copy(row, x.Row(i))
		tab.Scale(row, t[i])
	}
	s.q.Add(tx, x)
	s.lin.Add(dense.Matrix[T]{Rows: x.Rows, Cols: 1, Stride: 1, Data: t}, x)
}

// Totals returns the sums. They share memory with s, so the next add changes them.
func (s *Sums[T]) Totals() (w, q dense.Matrix[float64], lin []float64) {
	return s.w.Sum(), s.q.Sum(), s.lin.Sum().Data
}

// Merge adds the sums of o, which must have the same shapes. The result depends on the order of Merge calls; callers
// fix it.
func (s *Sums[T]) Merge(o *Sums[T]) {
	for _, p := range [][2]*kern.Accumulator[T]{{s.w, o.w}, {s.q, o.q}, {s.lin, o.lin}} {
		a, b := p[0].Sum(), p[1].Sum()
		for i, v := range b.Data {
			a.Data[i] += v
		}
	}
}

// Reset sets the sums to zero and keeps their memory.
func (s *Sums[T]) Reset() {
	for _, a := range []*kern.Accumulator[T]{s.w, s.q, s.lin} {
		clear(a.Sum().Data)
	}
}

// vjpScratch is the memory of one worker for derivatives.
type vjpScratch[T dense.Float] struct {
	gv, ge  []T       // a block × all leaf features: cotangents of values and exponents
	e, v    []T       // one row of output features
	tmp     []T       // a block × max(inputs, projections)
	sums    []T       // a block
	du, acc []float64 // one row of u each: cotangents of an explicit function, and its scratch
}

// vjpJob is one Backward.Run as the worker goroutines see it.
type vjpJob[T dense.Float] struct {
	b                *Backward[T]
	dx, dphi, phi, x dense.Matrix[T]
	col              []T
	shift, norms     []float64
	sums             *Sums[T]
	ws               *Workspace[T]
}

// Run sets dx_i = Σ_f dphi_if ∂/∂x_i φ(x_i)_f·exp(col_f − shift_i). phi is empty or holds these scaled features as
// Scaled wrote them for the same col and shift, which saves recomputing them. col may be nil; norms holds |x_i|². If
// sums is not nil, Learns must be true; Run then adds to sums on a single goroutine, because the order of its rows is
// part of the result.
func (b *Backward[T]) Run(dx, dphi, phi, x dense.Matrix[T], col []T, shift, norms []float64, sums *Sums[T],
	ws *Workspace[T]) {
	s := b.side
	workers := s.workers(ws, x.Rows)
	if sums != nil {
		workers = 1
	}
	rows := min(s.block, x.Rows)
	for i := range workers {
		b.grow(&ws.scratch[i], rows)
	}
	j := reuse[vjpJob[T]](&ws.vjp)
	*j = vjpJob[T]{b: b, dx: dx, dphi: dphi, phi: phi, x: x, col: col, shift: shift, norms: norms, sums: sums, ws: ws}
	ws.group.Do(x.Rows, workers, j)
	*j = vjpJob[T]{}
}

// grow extends the scratch of Run for derivatives. Leaves of exponentials need only the cotangents of one block.
func (b *Backward[T]) grow(sc *scratch[T], rows int) {
	s := b.side
	s.grow(sc, rows)
	v := &sc.vjp
	sc.rows = buf.Sized(sc.rows, rows)
	v.gv = buf.Sized(v.gv, rows*s.total)
	v.sums = buf.Sized(v.sums, rows)
	wide, inner := s.dim, s.dim
	for i := range s.leaves {
		wide = max(wide, s.leaves[i].Omega.Rows.Rows)
		inner = max(inner, s.leaves[i].inner)
	}
	v.tmp = buf.Sized(v.tmp, rows*wide)
	if b.Learns() {
		return
	}
	sc.features = buf.Sized(sc.features, rows*s.total)
	sc.values = buf.Sized(sc.values, rows*s.total)
	v.ge = buf.Sized(v.ge, rows*s.total)
	v.e, v.v = buf.Sized(v.e, s.out), buf.Sized(v.v, s.out)
	v.du, v.acc = buf.Sized(v.du, inner), buf.Sized(v.acc, inner)
}

// Run handles rows lo to hi−1.
func (j *vjpJob[T]) Run(worker, lo, hi int) {
	b, s, sc := j.b, j.b.side, &j.ws.scratch[worker]
	step := s.block
	switch {
	case s.gated:
		step = 1 // rows of one block may need different leaves
	case b.Learns():
		step = min(step, max(minBlock, vjpBytes/(s.out*int(unsafe.Sizeof(T(0))))))
	}
	for a := lo; a < hi; a += step {
		z := min(a+step, hi)
		dx, dphi, x := j.dx.RowRange(a, z), j.dphi.RowRange(a, z), j.x.RowRange(a, z)
		sc.norms = j.norms[a:z]
		s.fillQuads(x, sc)
		if b.Learns() {
			var phi dense.Matrix[T]
			if !j.phi.IsEmpty() {
				phi = j.phi.RowRange(a, z)
			}
			b.exponentials(dx, dphi, phi, x, j.col, j.shift[a:z], j.sums, sc)
			continue
		}
		b.general(dx, dphi, x, j.col, j.shift[a:z], sc)
	}
}

// general is one block of the derivatives of any map. Features are products of leaf features value·exp(e + row). It
// works in three steps: recompute the log form of the leaves, gather the cotangents gv of values and ge of exponents
// per leaf, and let each leaf's own vjp finish.
func (b *Backward[T]) general(dx, dphi, x dense.Matrix[T], col []T, shift []float64, sc *scratch[T]) {
	s, v := b.side, &sc.vjp
	gate := plan.None
	if s.gated {
		gate = s.nearest(x.Row(0), sc)
	}
	matrix := func(l *leaf[T], data []T) dense.Matrix[T] {
		return dense.Matrix[T]{Rows: x.Rows, Cols: l.width, Stride: s.total, Data: data[l.offset:]}
	}
	for i := range s.leaves {
		if l := &s.leaves[i]; s.needs(i, gate) {
			l.log(s, matrix(l, sc.features), matrix(l, sc.values), sc.scale[i*s.block:i*s.block+x.Rows], x, sc)
		}
	}
	clear(v.gv[:x.Rows*s.total])
	clear(v.ge[:x.Rows*s.total])
	sums := v.sums[:x.Rows]
	for i := range x.Rows {
		sums[i] = b.cotangents(dphi.Row(i), col, shift[i]-s.outerAt(x, i, sc), gate, i, sc)
	}
	zero(dx)
	b.outer.add(dx, sums, x, v.tmp, s.tab)
	for i := range s.leaves {
		if l := &s.leaves[i]; s.needs(i, gate) {
			b.grads[i].vjp(l, b, &b.grads[i], dx, matrix(l, v.gv), matrix(l, v.ge), matrix(l, sc.values), x, sc)
		}
	}
}

// cotangents distributes the cotangents dphi of one row of scaled features over its leaves. It returns the product of
// dphi with the features, which is the cotangent of the log scale of the row and so multiplies the gradient of the
// outer term.
func (b *Backward[T]) cotangents(dphi, col []T, shift float64, gate, i int, sc *scratch[T]) T {
	s, v := b.side, &sc.vjp
	top := s.top(i, gate, sc)
	at := 0
	for _, blk := range s.blocks {
		n := s.blockWidth(blk)
		s.blockLog(blk, live(blk, gate), top, v.e[at:at+n], v.v[at:at+n], i, sc)
		at += n
	}
	addBias(v.e, col)
	s.tab.Exp(v.e, T(shift-top))
	s.tab.Mul(v.e, dphi) // by the value of each feature
	s.tab.Mul(v.v, v.e)  // by its exponent
	var sum T
	for _, g := range v.v {
		sum += g
	}
	at = 0
	for _, blk := range s.blocks {
		n := s.blockWidth(blk)
		if live(blk, gate) {
			b.spread(blk, v.e[at:at+n], v.v[at:at+n], i, sc)
		}
		at += n
	}
	return sum
}

// spread adds the cotangents gv, ge of one block of row i to the cotangents of its leaves. For a Kronecker product the
// value of the other factor multiplies gv; exponents add, so ge goes to both factors unchanged.
func (b *Backward[T]) spread(blk plan.Block, gv, ge []T, i int, sc *scratch[T]) {
	s, v := b.side, &sc.vjp
	base := &s.leaves[blk.Base]
	sign := T(math.Copysign(1, blk.Coef))
	at := i*s.total + base.offset
	bv, be := v.gv[at:at+base.width], v.ge[at:at+base.width]
	if blk.Rho == plan.None {
		for k, g := range gv {
			bv[k] += sign * g
			be[k] += ge[k]
		}
		return
	}
	rho := &s.leaves[blk.Rho]
	rat := i*s.total + rho.offset
	phi := sc.values[at : at+base.width]
	for p, r := range sc.values[rat : rat+rho.width] {
		gp, ep := gv[p*base.width:(p+1)*base.width], ge[p*base.width:(p+1)*base.width]
		var sv, se T
		for k, g := range gp {
			bv[k] += sign * r * g
			be[k] += ep[k]
			sv += phi[k] * g
			se += ep[k]
		}
		v.gv[rat+p] += sign * sv
		v.ge[rat+p] += se
	}
}

// rowTerm adds to dx the contribution of a row term with gradient g. cotangents are those of the exponents or phases
// that contain the term; their row sums multiply the gradient.
func (b *Backward[T]) rowTerm(g *quadGrad[T], dx, cotangents, x dense.Matrix[T], sc *scratch[T]) {
	sums := sc.vjp.sums[:x.Rows]
	rowSums(sums, cotangents)
	g.add(dx, sums, x, sc.vjp.tmp, b.side.tab)
}

// rowSums sets dst to the sums of the rows of a.
func rowSums[T dense.Float](dst []T, a dense.Matrix[T]) {
	for i := range dst {
		var s T
		for _, v := range a.Row(i) {
			s += v
		}
		dst[i] = s
	}
}

// fold adds sign times the columns m to 2m−1 to the first m columns.
func fold[T dense.Float](a dense.Matrix[T], m int, sign T) {
	for i := range a.Rows {
		axpy(a.Row(i)[:m], sign, a.Row(i)[m:])
	}
}

// project adds gt·W to dx, gt being the cotangents of the projections; an empty panel means that there is no
// projection.
func (b *Backward[T]) project(dx, gt dense.Matrix[T], w *kern.Panel[T], sc *scratch[T]) {
	if w.Rows == 0 {
		return
	}
	d := b.side.dim
	tmp := dense.Matrix[T]{Rows: dx.Rows, Cols: d, Stride: d, Data: sc.vjp.tmp}
	b.side.tab.MulT(tmp, gt, w, nil)
	for i := range dx.Rows {
		b.side.tab.MulAdd(dx.Row(i), tmp.Row(i), 1)
	}
}

// quadBack adds c times the gradient Lin + (Q + Qᵀ)u of q to du; acc is scratch of the length of u.
func quadBack(q *plan.Quadratic, du []float64, c float64, u, acc []float64) {
	for k, v := range q.Lin {
		du[k] += c * v
	}
	if q.Quad.IsZero() {
		return
	}
	q.Quad.Apply(acc, u)
	for k, v := range acc {
		du[k] += c * v
	}
	if d := q.Quad.Dense; !d.IsEmpty() {
		for k, v := range u {
			axpy(du, c*v, d.Row(k))
		}
		return
	}
	axpy(du, c, acc)
}
