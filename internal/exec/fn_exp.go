package exec

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
)

// Exp and ExpPM: features are exponentials and nothing else. Most maps are a single leaf of this kind, so they have
// fused paths: a dense projection that ends with its exponential (MulTExp), and derivatives by one matrix product.

func expFn[T dense.Float]() fn[T] {
	return fn[T]{log: (*leaf[T]).logExp, run: (*leaf[T]).runExp, unit: true, rowFactor: true}
}

// expPMFn: t occurs with both signs but Bias with only one, so Bias is added after t is mirrored.
func expPMFn[T dense.Float]() fn[T] {
	f := expFn[T]()
	f.biasApart = true
	return f
}

// fuses reports whether MulTExp can produce the features: one exponential per projection, and a dense projection.
func (l *leaf[T]) fuses() bool { return l.Fn == plan.Exp && l.re.isDense() }

// runExp has two paths. Plain features of a dense projection need no maximum, because their row term alone is
// subtracted: one fused kernel does everything. All others are computed in groups: exponents, row maxima, exponentials.
func (l *leaf[T]) runExp(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T],
	plain bool, outer []float64) {
	if plain && l.fuses() {
		shift := sc.modulus[:x.Rows] // unused by this function otherwise, and at least one element per row
		row := sc.terms[:x.Rows]
		s.terms(row, &l.row, l.quad, x, sc)
		for i, o := range outer {
			shift[i] = T(-(row[i] + o))
		}
		s.tab.MulTExp(dst, x, &l.re.w, l.re.bias, shift)
		return
	}
	step := max(groupBytes/(dst.Cols*int(unsafe.Sizeof(T(0)))), minBlock)
	for a := 0; a < x.Rows; a += step {
		b := min(a+step, x.Rows)
		e := dst.RowRange(a, b)
		l.exponents(s, e, x.RowRange(a, b), sc)
		top := sc.modulus[:e.Rows]
		if !plain {
			s.tab.RowMax(top, e)
		}
		for i := range top {
			row := l.rowAt(s, x, a+i, sc) + outer[a+i]
			if plain {
				top[i] = T(-row)
			} else {
				top[i] = finiteMax(top[i])
				scale[a+i] = float64(top[i]) + row
			}
			s.tab.Exp(e.Row(i), top[i])
		}
	}
}

func (l *leaf[T]) logExp(s *Side[T], e, _ dense.Matrix[T], row []float64, x dense.Matrix[T], sc *scratch[T]) {
	l.exponents(s, e, x, sc)
	s.terms(row[:x.Rows], &l.row, l.quad, x, sc)
}

// exponents writes the exponents of all features without their row term, e being x.Rows × features.
func (l *leaf[T]) exponents(s *Side[T], e, x dense.Matrix[T], sc *scratch[T]) {
	if l.Fn == plan.Exp {
		l.re.project(s, e, x, sc)
		return
	}
	m := l.re.rows
	l.re.project(s, e.ColRange(0, m), x, sc)
	for i := range e.Rows {
		plus, minus := e.Row(i)[:m], e.Row(i)[m:]
		for f, t := range plus {
			minus[f] = -t
		}
		addBias(plus, l.bias)
		addBias(minus, l.bias)
	}
}

// projected turns the cotangents of exponents into cotangents of the projections, in place. For ExpPM feature m+f has
// exponent −t_f, so its cotangent is subtracted from that of feature f.
func (l *leaf[T]) projected(ge dense.Matrix[T]) dense.Matrix[T] {
	if l.Fn == plan.Exp {
		return ge
	}
	fold(ge, l.re.rows, -1)
	return ge.ColRange(0, l.re.rows)
}

func vjpExp[T dense.Float](l *leaf[T], b *Backward[T], g *leafGrad[T], dx, _, ge, _, x dense.Matrix[T],
	sc *scratch[T]) {
	b.rowTerm(&g.row, dx, ge, x, sc)
	b.project(dx, l.projected(ge), &g.re, sc)
}

// exponentials is one block of the derivatives of a map that is a single leaf of exponentials. With dE = dphi ⊙ phi and
// s_i = Σ_f dE_if,
//
//	dx_i = Σ_f dE_if w_f + s_i ∇row(x_i),
//
// which is one matrix product, as fast as the map itself. If phi is empty the features are recomputed into scratch.
func (b *Backward[T]) exponentials(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, sums *Sums[T],
	sc *scratch[T]) {
	s, l, g, v := b.side, &b.side.leaves[0], &b.grads[0], &sc.vjp
	de := dense.Matrix[T]{Rows: x.Rows, Cols: s.out, Stride: s.out, Data: v.gv}
	de.Data = de.Data[:x.Rows*s.out]
	if phi.IsEmpty() {
		s.scaled(de, col, shift, x, sc)
		phi = de
	}
	t := v.sums[:x.Rows]
	s.tab.MulRows(t, de, phi, dphi)
	de = l.projected(de)
	if l.re.absent() {
		zero(dx)
	} else {
		s.tab.MulT(dx, de, &g.re, nil)
	}
	g.row.add(dx, t, x, v.tmp, s.tab)
	b.outer.add(dx, t, x, v.tmp, s.tab)
	if sums != nil {
		// t holds s_i and de the cotangents of the projections: Sums are the derivatives by parameters.
		sums.add(de, t, x, v.tmp, s.tab)
	}
}
