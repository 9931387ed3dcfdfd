package exec

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/plan"
)

// Signed reports whether some feature has a factor besides its exponential, or a negative coefficient. Its log form
// then needs values.
func (s *Side[T]) Signed() bool {
	for _, b := range s.blocks {
		if b.Coef < 0 || !s.leaves[b.Base].fn.unit || b.Rho != plan.None && !s.leaves[b.Rho].fn.unit {
			return true
		}
	}
	return false
}

// logJob is one Log or Scaled call as the worker goroutines see it. For Log e is set, for Scaled dst.
type logJob[T dense.Float] struct {
	side     *Side[T]
	e, value dense.Matrix[T]
	row      []float64
	dst, x   dense.Matrix[T]
	col      []T // for Scaled: the caller's col, plus the bias of the leaf if fused
	shift    []float64
	norms    []float64
	fused    bool
	ws       *Workspace[T]
}

// Log writes the features as value_if·exp(e_if + row_i). row holds the large terms of a row (−|x|²/2) in float64; e
// holds the part that differs between features. value may be empty unless the side is Signed. A block that its gate
// turns off has value 0 and e = −Inf. norms holds |x_i|². As for Run, the caller has checked the arguments.
func (s *Side[T]) Log(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], norms []float64, ws *Workspace[T]) {
	j := reuse[logJob[T]](&ws.logs)
	*j = logJob[T]{side: s, e: e, value: value, row: row, x: x, norms: norms, ws: ws}
	j.run(!value.IsEmpty())
}

// Scaled writes φ(x_i)_f·exp(col_f − shift_i); a nil col means zeros. This is the form that linear attention needs:
// col_f is the reference of feature f and shift_i the maximum of row i (docs/theory.md §6.1).
func (s *Side[T]) Scaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], norms []float64,
	ws *Workspace[T]) {
	j := reuse[logJob[T]](&ws.logs)
	*j = logJob[T]{side: s, dst: dst, col: col, shift: shift, x: x, norms: norms, ws: ws}
	if l := &s.leaves[0]; s.simple && l.fuses() {
		j.fused = true
		switch bias := l.re.bias; {
		case col == nil:
			j.col = bias
		case bias != nil:
			ws.col = buf.Sized(ws.col, len(col))
			for f, b := range bias {
				ws.col[f] = b + col[f]
			}
			j.col = ws.col
		}
	}
	j.run(s.Signed())
}

// run does the job and clears it, so that the Workspace keeps no matrix of the caller alive.
func (j *logJob[T]) run(values bool) {
	s, ws := j.side, j.ws
	workers := s.workers(ws, j.x.Rows)
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
	ws.group.Do(j.x.Rows, workers, j)
	*j = logJob[T]{}
}

// workers returns the number of goroutines that pay for rows, and makes sure that each has its scratch.
func (s *Side[T]) workers(ws *Workspace[T], rows int) int {
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
			shift := sc.modulus[:x.Rows] // unused by this path otherwise, and at least one element per row
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

// scaled is one block of Scaled through the log form. The exponents are written into dst and exponentiated in place.
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

// assembleLog is assemble in the log domain: exponents add, values multiply. The row terms of the leaves differ. The
// largest becomes the row term of the result, and each block adds its difference to e, in T. Rounding that difference
// matters only for blocks so far below the largest that they no longer contribute.
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
		top := s.top(i, gate, sc)
		row[i] = top
		at := 0
		for _, b := range s.blocks {
			n := s.blockWidth(b)
			var out []T
			if signed {
				out = value.Row(i)[at : at+n]
			}
			s.blockLog(b, live(b, gate), top, e.Row(i)[at:at+n], out, i, sc)
			at += n
		}
	}
}

// blockWidth is the number of features of a block: those of its base, times those of its coefficient if it has one.
func (s *Side[T]) blockWidth(b plan.Block) int {
	n := s.leaves[b.Base].width
	if b.Rho != plan.None {
		n *= s.leaves[b.Rho].width
	}
	return n
}

// blockLog writes one block of row i, relative to exp(top), into e and, unless nil, value. Coefficient features are the
// slow index.
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
