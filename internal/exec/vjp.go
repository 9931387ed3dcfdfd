package exec

import (
	"math"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// vjpBytes of cotangents are worked on together by maps of exponentials: they are passed over four times, so they should
// stay near the first-level cache. Measured by BenchmarkVJP.
const vjpBytes = 64 << 10

// Backward is a compiled side with what its derivatives need: the projections by output instead of by input.
type Backward[T dense.Float] struct {
	side  *Side[T]
	grads []leafGrad[T]
	outer quadGrad[T]
	ones  []T
}

// leafGrad holds the transposes of the linear parts of a leaf.
type leafGrad[T dense.Float] struct {
	re, im     kern.Panel[T]
	row, rowIm quadGrad[T]
	rowU       plan.Quadratic // of u, for leaves that need u itself
}

// quadGrad is the gradient Lin + (Q + Qᵀ)x of a quadratic.
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

// add adds s_i times the gradient at x_i to every row of dx; tmp has room for x.
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

// CompileBackward prepares the derivatives of s.
func CompileBackward[T dense.Float](s *Side[T]) *Backward[T] {
	b := &Backward[T]{side: s, outer: compileQuad(s.outer, s.tab), ones: make([]T, s.out)}
	fill(b.ones, 1)
	for i := range s.leaves {
		l := &s.leaves[i]
		g := leafGrad[T]{}
		transpose := func(p *kern.Panel[T], mix plan.Linear) {
			if !mix.IsZero() {
				s.tab.PackT(p, dense.Convert[T](l.weights(mix, s.dim)))
			}
		}
		if l.Fn != plan.Monomial && l.Fn != plan.ELU {
			transpose(&g.re, l.Mix)
			transpose(&g.im, l.MixIm)
		}
		if l.explicit {
			g.rowU = l.Row
		} else {
			g.row, g.rowIm = compileQuad(l.row, s.tab), compileQuad(l.rowIm, s.tab)
		}
		b.grads = append(b.grads, g)
	}
	return b
}

// weights is the matrix Ω·mix·Lin of a projection.
func (l *leaf[T]) weights(mix plan.Linear, dim int) dense.Matrix[float64] {
	return plan.Mul(l.Omega.Rows, mix.Compose(l.Lin, dim).Matrix(dim))
}

// Learns reports whether Run can gather Sums: one leaf of exponentials.
func (b *Backward[T]) Learns() bool { return b.side.simple && b.side.leaves[0].pureExp() }

// Sums are the derivatives of a loss by the exponents w_f·x + q(x) of a single leaf of exponentials: with dE_if the
// derivative by the exponent of feature f of row i (the sum of both signs for ExpPM, with them) and s_i = Σ_f dE_if,
//
//	W = Σ_i dE_i ⊗ x_i,  Q = Σ_i s_i x_i x_iᵀ,  Lin = Σ_i s_i x_i.
//
// They are summed in T for some thousand rows and in float64 beyond.
type Sums[T dense.Float] struct {
	w, q, lin *kern.Accumulator[T]
}

// NewSums returns zero sums.
func (b *Backward[T]) NewSums() *Sums[T] {
	tab, m, d := b.side.tab, b.side.leaves[0].re.rows, b.side.dim
	return &Sums[T]{w: kern.NewAccumulator(tab, m, d), q: kern.NewAccumulator(tab, d, d), lin: kern.NewAccumulator(tab, 1, d)}
}

// Totals are the sums; they share memory with s.
func (s *Sums[T]) Totals() (w, q dense.Matrix[float64], lin []float64) {
	return s.w.Sum(), s.q.Sum(), s.lin.Sum().Data
}

// Merge adds the sums of o, of the same shapes.
func (s *Sums[T]) Merge(o *Sums[T]) {
	for _, p := range [][2]*kern.Accumulator[T]{{s.w, o.w}, {s.q, o.q}, {s.lin, o.lin}} {
		a, b := p[0].Sum(), p[1].Sum()
		for i, v := range b.Data {
			a.Data[i] += v
		}
	}
}

// Reset makes the sums zero.
func (s *Sums[T]) Reset() {
	for _, a := range []*kern.Accumulator[T]{s.w, s.q, s.lin} {
		clear(a.Sum().Data)
	}
}

// vjpScratch is the memory of one worker for derivatives.
type vjpScratch[T dense.Float] struct {
	gv, ge  []T // a block × all leaf features: cotangents of values and exponents
	e, v    []T // one row of output features
	tmp     []T // a block × inputs or projections
	sums    []T // a block
	du, acc []float64
}

// vjpJob is one Backward.Run seen by the worker goroutines.
type vjpJob[T dense.Float] struct {
	b                *Backward[T]
	dx, dphi, phi, x dense.Matrix[T]
	col              []T
	shift, norms     []float64
	sums             *Sums[T]
	ws               *Workspace[T]
}

// Run sets dx_i = Σ_f dphi_if ∂/∂x_i φ(x_i)_f·exp(col_f − shift_i). A phi that is not empty holds these features, as
// Scaled wrote them. Sums, if not nil, are added to; then one goroutine does all, so that their order is fixed.
func (b *Backward[T]) Run(dx, dphi, phi, x dense.Matrix[T], col []T, shift, norms []float64, sums *Sums[T], ws *Workspace[T]) {
	s := b.side
	workers := ws.workers(s, x.Rows)
	if sums != nil {
		workers = 1
	}
	rows := min(s.block, x.Rows)
	for i := range workers {
		b.grow(&ws.scratch[i], rows)
	}
	ws.vjp = vjpJob[T]{b: b, dx: dx, dphi: dphi, phi: phi, x: x, col: col, shift: shift, norms: norms, sums: sums, ws: ws}
	ws.group.Do(x.Rows, workers, &ws.vjp)
	ws.vjp = vjpJob[T]{}
}

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

// exponentials is one block of a map whose features are their exponents: with dE = dphi ⊙ phi and s_i = Σ_f dE_if,
// dx_i = Σ_f dE_if w_f + s_i ∇row(x_i). One product, as fast as the map itself.
func (b *Backward[T]) exponentials(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, sums *Sums[T], sc *scratch[T]) {
	s, l, g, v := b.side, &b.side.leaves[0], &b.grads[0], &sc.vjp
	de := dense.Matrix[T]{Rows: x.Rows, Cols: s.out, Stride: s.out, Data: v.gv}
	other := dphi
	if phi.IsEmpty() {
		s.scaled(de, col, shift, x, sc)
	} else {
		other = phi
		for i := range x.Rows {
			copy(de.Row(i), dphi.Row(i))
		}
	}
	if other.Stride == other.Cols {
		s.tab.Mul(de.Data[:len(other.Data)], other.Data)
	} else {
		for i := range x.Rows {
			s.tab.Mul(de.Row(i), other.Row(i))
		}
	}
	t := v.sums[:x.Rows]
	s.tab.MulV(t, de, b.ones)
	if m := l.re.rows; l.Fn == plan.ExpPM {
		for i := range x.Rows {
			plus, minus := de.Row(i)[:m], de.Row(i)[m:]
			for f, d := range minus {
				plus[f] -= d
			}
		}
		de = de.ColRange(0, m)
	}
	s.tab.MulT(dx, de, &g.re, nil)
	g.row.add(dx, t, x, v.tmp, s.tab)
	b.outer.add(dx, t, x, v.tmp, s.tab)
	if sums == nil {
		return
	}
	sums.w.Add(de, x)
	tx := dense.Matrix[T]{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: v.tmp}
	for i := range x.Rows {
		row := tx.Row(i)
		copy(row, x.Row(i))
		s.tab.Scale(row, t[i])
	}
	sums.q.Add(tx, x)
	sums.lin.Add(dense.Matrix[T]{Rows: x.Rows, Cols: 1, Stride: 1, Data: t}, x)
}

// general is one block of any map. Features are products of leaf features value·exp(e + row); the cotangents gv of values
// and ge of exponents are gathered per leaf, whose own rule finishes.
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
			b.leaf(i, dx, matrix(l, v.gv), matrix(l, v.ge), matrix(l, sc.values), x, sc)
		}
	}
}

// cotangents spreads the row dphi of features scaled by exp(col − shift) over the leaves and returns its product with the
// features, which is the cotangent of the log scale of the row.
func (b *Backward[T]) cotangents(dphi, col []T, shift float64, gate, i int, sc *scratch[T]) T {
	s, v := b.side, &sc.vjp
	top := math.Inf(-1)
	for _, blk := range s.blocks {
		if blk.Gate == plan.None || blk.Gate == gate {
			top = max(top, s.blockScale(blk, i, sc))
		}
	}
	at := 0
	for _, blk := range s.blocks {
		n := s.blockWidth(blk)
		s.blockLog(blk, blk.Gate == plan.None || blk.Gate == gate, top, v.e[at:at+n], v.v[at:at+n], i, sc)
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
		if blk.Gate == plan.None || blk.Gate == gate {
			b.spread(blk, v.e[at:at+n], v.v[at:at+n], i, sc)
		}
		at += n
	}
	return sum
}

// spread adds the cotangents gv, ge of one block of row i to those of its leaves.
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

// leaf adds the derivatives of one leaf to dx.
func (b *Backward[T]) leaf(i int, dx, gv, ge, value, x dense.Matrix[T], sc *scratch[T]) {
	s, l, g, v := b.side, &b.side.leaves[i], &b.grads[i], &sc.vjp
	switch l.Fn {
	case plan.ELU:
		b.elu(l, dx, gv, value, x, sc)
		return
	case plan.Residual:
		b.residual(l, g, dx, gv, x, sc)
		return
	case plan.Monomial:
		b.monomial(l, g, dx, gv, ge, x, sc)
		return
	case plan.ReLU:
		b.relu(l, g, dx, gv, x, sc)
		return
	}
	sums := v.sums[:x.Rows]
	rowSums(sums, ge)
	g.row.add(dx, sums, x, v.tmp, s.tab)
	m := l.Omega.Rows.Rows
	switch l.Fn {
	case plan.Exp:
		b.project(dx, ge, &g.re, sc)
	case plan.ExpPM:
		fold(ge, m, -1)
		b.project(dx, ge.ColRange(0, m), &g.re, sc)
	case plan.SinCos, plan.Complex:
		if g.re.Rows > 0 {
			fold(ge, m, 1)
			b.project(dx, ge.ColRange(0, m), &g.re, sc)
		}
		l.phases(gv, value)
		theta := gv.ColRange(0, m)
		if g.im.Rows > 0 {
			b.project(dx, theta, &g.im, sc)
		}
		rowSums(sums, theta)
		g.rowIm.add(dx, sums, x, v.tmp, s.tab)
	}
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

// fold adds sign times the second m columns to the first.
func fold[T dense.Float](a dense.Matrix[T], m int, sign T) {
	for i := range a.Rows {
		axpy(a.Row(i)[:m], sign, a.Row(i)[m:])
	}
}

// phases replaces the first half of gv by the cotangents of the phases.
func (l *leaf[T]) phases(gv, value dense.Matrix[T]) {
	m := gv.Cols / 2
	// (sin, cos) has the derivative (cos, −sin); (cos, ±sin) has (∓ the second, ± the first).
	sign := T(1)
	if l.Fn == plan.Complex && !l.Conj || l.Fn == plan.SinCos && l.Conj {
		sign = -1
	}
	for i := range gv.Rows {
		g, v := gv.Row(i), value.Row(i)
		for f := range m {
			g[f] = sign * (g[f]*v[m+f] - g[m+f]*v[f])
		}
	}
}

// project adds gt·W to dx, gt being the cotangents of the projections.
func (b *Backward[T]) project(dx, gt dense.Matrix[T], w *kern.Panel[T], sc *scratch[T]) {
	d := b.side.dim
	tmp := dense.Matrix[T]{Rows: dx.Rows, Cols: d, Stride: d, Data: sc.vjp.tmp}
	b.side.tab.MulT(tmp, gt, w, nil)
	for i := range dx.Rows {
		b.side.tab.MulAdd(dx.Row(i), tmp.Row(i), 1)
	}
}

// input adds Linᵀ·du to a row of dx. A coordinate at its floor does not move.
func (l *leaf[T]) backInput(dx []T, du, u []float64) {
	if l.Floor > 0 {
		for k, v := range u {
			if v <= l.Floor {
				du[k] = 0
			}
		}
	}
	switch {
	case !l.Lin.Dense.IsEmpty():
		for k, g := range du {
			for c, w := range l.Lin.Dense.Row(k) {
				dx[c] += T(g * w)
			}
		}
	case l.Lin.Diag != nil:
		for k, g := range du {
			dx[k] += T(g * l.Lin.Diag[k])
		}
	default:
		for k, g := range du {
			dx[k] += T(g * l.Lin.Gain)
		}
	}
}

// quadBack adds c times the gradient of q at u to du; acc is scratch.
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

func (b *Backward[T]) elu(l *leaf[T], dx, gv, value, x dense.Matrix[T], sc *scratch[T]) {
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		for k, c := range u {
			du[k] = float64(gv.At(i, k))
			if c <= 0 {
				du[k] *= float64(value.At(i, k)) // e^u
			}
		}
		l.backInput(dx.Row(i), du, u)
	}
}

// relu: exp(Row)·max(0, t) + Eps; the derivative at t = 0 is taken as 0.
func (b *Backward[T]) relu(l *leaf[T], g *leafGrad[T], dx, gv, x dense.Matrix[T], sc *scratch[T]) {
	s, v := b.side, &sc.vjp
	m := l.re.rows
	t := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
	l.re.project(s, t, x, l.bias, sc)
	sums := v.sums[:x.Rows]
	for i := range x.Rows {
		c := T(math.Exp(l.rowAt(s, x, i, sc)))
		gi := gv.Row(i)
		var sum T
		for f, a := range t.Row(i) {
			if a <= 0 {
				gi[f] = 0
				continue
			}
			gi[f] *= c
			sum += gi[f] * a
		}
		sums[i] = sum
	}
	g.row.add(dx, sums, x, v.tmp, s.tab)
	b.project(dx, gv, &g.re, sc)
}

// residual: 1, u, exp(Bias)(exp(a) − 1 − t) with a = t + Row(u). With gv the cotangent divided by the exponent of the log
// form, which is max(a, 0) for a ≥ 1, the cotangents are (1 − e^−a)·gv of t and gv of Row there, (e^a − 1)·gv and
// e^a·gv below.
func (b *Backward[T]) residual(l *leaf[T], g *leafGrad[T], dx, gv, x dense.Matrix[T], sc *scratch[T]) {
	m, r := l.re.rows, 1+l.inner
	t := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
	l.re.project(b.side, t, x, nil, sc)
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		row := quadAt(&g.rowU, u, dense.Norm2(u))
		gi, ti := gv.Row(i), t.Row(i)
		for k := range du {
			du[k] = float64(gi[1+k])
		}
		var sum float64
		for f, tf := range ti {
			a, c := float64(tf)+row, float64(gi[r+f])
			if a < 1 {
				sum += c * math.Exp(a)
				ti[f] = T(c * math.Expm1(a))
			} else {
				sum += c
				ti[f] = T(-c * math.Expm1(-a))
			}
		}
		quadBack(&g.rowU, du, sum, u, sc.vjp.acc[:len(u)])
		l.backInput(dx.Row(i), du, u)
	}
	b.project(dx, t, &g.re, sc)
}

// monomial: ∂/∂u_l of ∏ u^ω is ω_l/u_l times the product; where u_l = 0 only ω_l = 1 with no other zero factor counts,
// and gives the product of the other factors, whose exponent the log form keeps.
func (b *Backward[T]) monomial(l *leaf[T], g *leafGrad[T], dx, gv, ge, x dense.Matrix[T], sc *scratch[T]) {
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		du := sc.vjp.du[:len(u)]
		clear(du)
		var sum float64
		for f := range l.Omega.Rows.Rows {
			e := float64(ge.At(i, f))
			sum += e
			sign, zeros := l.signAt(f, u)
			for k, w := range l.Omega.Rows.Row(f) {
				switch {
				case w == 0:
				case u[k] != 0:
					du[k] += e * w / u[k]
				case w == 1 && zeros == 1:
					du[k] += float64(gv.At(i, f)) * sign
				}
			}
		}
		quadBack(&g.rowU, du, sum, u, sc.vjp.acc[:len(u)])
		l.backInput(dx.Row(i), du, u)
	}
}
