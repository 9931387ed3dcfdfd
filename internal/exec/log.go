package exec

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/plan"
)

// Signed reports whether a feature has a factor besides its exponential, so that its log form needs values.
func (s *Side[T]) Signed() bool {
	for _, b := range s.blocks {
		if b.Coef < 0 || !s.leaves[b.Base].pureExp() || b.Rho != plan.None && !s.leaves[b.Rho].pureExp() {
			return true
		}
	}
	return false
}

func (l *leaf[T]) pureExp() bool { return l.Fn == plan.Exp || l.Fn == plan.ExpPM }

// logJob is one Log or Scaled seen by the worker goroutines. Scaled has dst, Log has e.
type logJob[T dense.Float] struct {
	side     *Side[T]
	e, value dense.Matrix[T]
	row      []float64
	dst, x   dense.Matrix[T]
	col      []T // of Scaled; with the bias of the leaf if fused
	shift    []float64
	norms    []float64
	fused    bool
	ws       *Workspace[T]
}

// Log writes the features as value_if·exp(e_if + row_i). The large terms of a row (−|x|²/2) go to row, in float64; what
// differs between features goes to e. An empty value is allowed unless the side is Signed. A block that its gate turns off
// has value 0 and e = −Inf. Arguments are checked by the caller as for Run.
func (s *Side[T]) Log(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], norms []float64, ws *Workspace[T]) {
	ws.logs = logJob[T]{side: s, e: e, value: value, row: row, x: x, norms: norms}
	s.runLog(!value.IsEmpty(), ws)
}

// Scaled writes φ(x_i)_f·exp(col_f − shift_i); nil col is zero.
func (s *Side[T]) Scaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], norms []float64, ws *Workspace[T]) {
	ws.logs = logJob[T]{side: s, dst: dst, col: col, shift: shift, x: x, norms: norms}
	if l := &s.leaves[0]; s.simple && l.Fn == plan.Exp && l.re.fast == nil {
		ws.logs.fused = true
		switch {
		case col == nil:
			ws.logs.col = l.bias
		case l.bias != nil:
			ws.col = buf.Sized(ws.col, len(col))
			for f, b := range l.bias {
				ws.col[f] = b + col[f]
			}
			ws.logs.col = ws.col
		}
	}
	s.runLog(s.Signed(), ws)
}

func (s *Side[T]) runLog(values bool, ws *Workspace[T]) {
	j := &ws.logs
	workers := ws.workers(s, j.x.Rows)
	for i := range workers {
		sc := &ws.scratch[i]
		rows := min(s.block, j.x.Rows)
		s.grow(sc, rows)
		if values && !s.simple {
			sc.values = buf.Sized(sc.values, rows*s.total)
		}
		if values && j.e.IsEmpty() {
			sc.factors = buf.Sized(sc.factors, rows*s.out)
		}
		sc.rows = buf.Sized(sc.rows, rows)
	}
	j.ws = ws
	ws.group.Do(j.x.Rows, workers, j)
	*j = logJob[T]{}
}

// workers is the number of goroutines for rows, whose scratch exists afterwards.
func (ws *Workspace[T]) workers(s *Side[T], rows int) int {
	n := par.Workers(rows, 1+s.tab.Grain/s.work)
	if ws.Workers > 0 {
		n = min(n, ws.Workers)
	}
	for len(ws.scratch) < n {
		ws.scratch = append(ws.scratch, scratch[T]{})
	}
	return n
}

// Run handles rows lo to hi−1.
func (j *logJob[T]) Run(worker, lo, hi int) {
	s, sc := j.side, &j.ws.scratch[worker]
	step := s.block
	if s.gated {
		step = 1 // rows of one block may need different leaves
	}
	for a := lo; a < hi; a += step {
		b := min(a+step, hi)
		x := j.x.RowRange(a, b)
		sc.norms = j.norms[a:b]
		s.fillQuads(x, sc)
		switch {
		case !j.e.IsEmpty():
			var value dense.Matrix[T]
			if !j.value.IsEmpty() {
				value = j.value.RowRange(a, b)
			}
			s.log(j.e.RowRange(a, b), value, j.row[a:b], x, sc)
		case j.fused:
			l := &s.leaves[0]
			shift := sc.modulus[:x.Rows] // free here, and never shorter than a block
			row, outer := sc.terms[:x.Rows], sc.outer[:x.Rows]
			s.terms(row, &l.row, l.quad, x, sc)
			s.terms(outer, &s.outer, s.outerQuad, x, sc)
			for i := range shift {
				shift[i] = T(j.shift[a+i] - row[i] - outer[i])
			}
			s.tab.MulTExp(j.dst.RowRange(a, b), x, &l.re.w, j.col, shift)
		default:
			s.scaled(j.dst.RowRange(a, b), j.col, j.shift[a:b], x, sc)
		}
	}
}

// scaled is one block of Scaled through the log form.
func (s *Side[T]) scaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], sc *scratch[T]) {
	var value dense.Matrix[T]
	if s.Signed() {
		value = dense.Matrix[T]{Rows: x.Rows, Cols: s.out, Stride: s.out, Data: sc.factors}
	}
	row := sc.rows[:x.Rows]
	s.log(dst, value, row, x, sc)
	for i := range x.Rows {
		e := dst.Row(i)
		addBias(e, col)
		s.tab.Exp(e, T(shift[i]-row[i]))
		if !value.IsEmpty() {
			s.tab.Mul(e, value.Row(i))
		}
	}
}

// log is one block of Log.
func (s *Side[T]) log(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	if s.simple {
		s.leaves[0].log(s, e, value, row, x, sc)
	} else {
		s.assembleLog(e, value, row, x, sc)
	}
	outer := sc.outer[:len(row)]
	s.terms(outer, &s.outer, s.outerQuad, x, sc)
	for i, o := range outer {
		row[i] += o
	}
}

// assembleLog is assemble in the log domain: exponents add, values multiply. The row terms of the leaves differ; their
// difference to the largest goes into e, whose exponents it exceeds only where they no longer matter.
func (s *Side[T]) assembleLog(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	gate := plan.None
	if s.gated {
		gate = s.nearest(x.Row(0), sc)
	}
	total, signed := s.total, !value.IsEmpty()
	for i := range s.leaves {
		l := &s.leaves[i]
		if !s.needs(i, gate) {
			continue
		}
		le := dense.Matrix[T]{Rows: x.Rows, Cols: l.width, Stride: total, Data: sc.features[l.offset:]}
		var lv dense.Matrix[T]
		if signed {
			lv = dense.Matrix[T]{Rows: x.Rows, Cols: l.width, Stride: total, Data: sc.values[l.offset:]}
		}
		l.log(s, le, lv, sc.scale[i*s.block:i*s.block+x.Rows], x, sc)
	}
	for i := range x.Rows {
		top := math.Inf(-1)
		for _, b := range s.blocks {
			if b.Gate == plan.None || b.Gate == gate {
				top = max(top, s.blockScale(b, i, sc))
			}
		}
		row[i] = top
		at := 0
		for _, b := range s.blocks {
			n := s.blockWidth(b)
			var out []T
			if signed {
				out = value.Row(i)[at : at+n]
			}
			s.blockLog(b, b.Gate == plan.None || b.Gate == gate, top, e.Row(i)[at:at+n], out, i, sc)
			at += n
		}
	}
}

func (s *Side[T]) blockWidth(b plan.Block) int {
	n := s.leaves[b.Base].width
	if b.Rho != plan.None {
		n *= s.leaves[b.Rho].width
	}
	return n
}

// blockLog writes one block of one row relative to exp(top).
func (s *Side[T]) blockLog(b plan.Block, live bool, top float64, e, value []T, i int, sc *scratch[T]) {
	if !live {
		for k := range e {
			e[k] = T(math.Inf(-1))
		}
		clear(value)
		return
	}
	base := &s.leaves[b.Base]
	at := i*s.total + base.offset
	c := T(math.Log(math.Abs(b.Coef)) + s.blockScale(b, i, sc) - top)
	sign := T(math.Copysign(1, b.Coef))
	phi := sc.features[at : at+base.width]
	if b.Rho == plan.None {
		for k, v := range phi {
			e[k] = v + c
		}
		if value != nil {
			for k, v := range sc.values[at : at+base.width] {
				value[k] = sign * v
			}
		}
		return
	}
	rho := &s.leaves[b.Rho]
	rat := i*s.total + rho.offset
	for p, r := range sc.features[rat : rat+rho.width] {
		seg := e[p*base.width : (p+1)*base.width]
		for k, v := range phi {
			seg[k] = v + (r + c)
		}
	}
	if value == nil {
		return
	}
	for p, r := range sc.values[rat : rat+rho.width] {
		seg := value[p*base.width : (p+1)*base.width]
		for k, v := range sc.values[at : at+base.width] {
			seg[k] = sign * r * v
		}
	}
}

// log writes the features of a leaf as value·exp(e + row).
func (l *leaf[T]) log(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	switch l.Fn {
	case plan.Exp, plan.ExpPM:
		l.logExp(s, e, row, x, sc)
		for i := range value.Rows {
			fill(value.Row(i), 1)
		}
	case plan.SinCos, plan.Complex:
		l.logOscillate(s, e, value, row, x, sc)
	case plan.Sign, plan.ReLU:
		l.threshold(s, value, row, x, sc)
		zero(e)
	case plan.ELU:
		l.elu(value, row, x, sc)
		zero(e)
	case plan.Residual:
		l.logResidual(s, e, value, row, x, sc)
	case plan.Monomial:
		l.logMonomial(e, value, row, x, sc)
	}
}

func fill[T dense.Float](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}

func zero[T dense.Float](m dense.Matrix[T]) {
	for i := range m.Rows {
		clear(m.Row(i))
	}
}

func (l *leaf[T]) logExp(s *Side[T], e dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	m := l.re.rows
	if l.Fn == plan.Exp {
		l.re.project(s, e, x, l.bias, sc)
	} else {
		l.re.project(s, e.ColRange(0, m), x, nil, sc)
		l.mirror(e)
	}
	s.terms(row[:x.Rows], &l.row, l.quad, x, sc)
}

// logOscillate: e is the modulus, value the sine and cosine in the order of oscillate.
func (l *leaf[T]) logOscillate(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	m := l.Omega.Rows.Rows
	l.waves(s, value, x, sc)
	if !l.re.absent() {
		l.re.project(s, e.ColRange(0, m), x, l.bias, sc)
	}
	for i := range x.Rows {
		row[i] = l.rowAt(s, x, i, sc)
		mod := e.Row(i)
		if l.re.absent() {
			clear(mod[:m])
			addBias(mod[:m], l.bias)
		}
		copy(mod[m:], mod[:m])
	}
}

// logResidual keeps the constant, the linear and the residual features at their own scales: e is the exponent of a
// residual where that is positive, else 0.
func (l *leaf[T]) logResidual(s *Side[T], e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	r := 1 + l.inner
	l.re.project(s, value.ColRange(r, value.Cols), x, nil, sc)
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		quad := quadAt(&l.Row, u, dense.Norm2(u))
		row[i] = 0
		le, v := e.Row(i), value.Row(i)
		clear(le[:r])
		v[0] = 1
		for k, c := range u {
			v[1+k] = T(c)
		}
		for f, t := range v[r:] {
			a := float64(t) + quad
			if a < 1 {
				v[r+f] = T(expm1MinusArg(a) + quad)
				le[r+f] = T(l.biasAt(f))
			} else {
				v[r+f] = T(1 - (1+float64(t))*math.Exp(-a))
				le[r+f] = T(a + l.biasAt(f))
			}
		}
	}
}

// logMonomial: e is the logarithm of the modulus below the largest of the row, value the sign. A zero has value 0 and the
// exponent of its other factors, which its derivative needs.
func (l *leaf[T]) logMonomial(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		powers := l.exponents(u, sc)
		top := slices.Max(powers)
		row[i] = top + quadAt(&l.Row, u, dense.Norm2(u))
		le, v := e.Row(i), value.Row(i)
		for f, a := range powers {
			le[f] = T(a - top)
			sign, zeros := l.signAt(f, u)
			if zeros > 0 {
				sign = 0
			}
			v[f] = T(sign)
		}
	}
}

// exponents is Bias + Σ_l ω_fl log|u_l| of a monomial, without the coordinates that are 0.
func (l *leaf[T]) exponents(u []float64, sc *scratch[T]) []float64 {
	logs := sc.logs[:len(u)]
	for k, v := range u {
		logs[k] = 0
		if v != 0 {
			logs[k] = math.Log(math.Abs(v))
		}
	}
	e := sc.powers[:l.Omega.Rows.Rows]
	row := func(v []float64) dense.Matrix[float64] {
		return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
	}
	kern.Best[float64]().MulT(row(e), row(logs), &l.powers, l.Bias)
	return e
}

// signAt is the sign of monomial f without its zero factors, whose total power is zeros (0⁰ = 1, CRT 3.2).
func (l *leaf[T]) signAt(f int, u []float64) (sign, zeros float64) {
	var power float64
	for k, w := range l.Omega.Rows.Row(f) {
		switch v := u[k]; {
		case v < 0:
			power += w
		case v == 0:
			zeros += w
		}
	}
	if int64(power)&1 == 1 {
		return -1, zeros
	}
	return 1, zeros
}
