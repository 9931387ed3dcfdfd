package exec

import (
	"math"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
)

// run writes the features of all rows of x, divided by exp(scale[i]), and the scales. outer[i] is a log factor of row i.
// With plain the features are written themselves, undivided, and the scales are of no use.
func (l *leaf[T]) run(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T], plain bool, outer []float64) {
	switch l.Fn {
	case plan.Exp, plan.ExpPM:
		l.exp(s, dst, scale, x, sc, plain, outer)
		return
	case plan.SinCos, plan.Complex:
		l.oscillate(s, dst, scale, x, sc, plain)
	case plan.Sign, plan.ReLU:
		l.threshold(s, dst, scale, x, sc)
	case plan.ELU:
		l.elu(dst, scale, x, sc)
	case plan.Residual:
		l.residual(s, dst, scale, x, sc)
	case plan.Monomial:
		l.monomial(dst, scale, x, sc)
	}
	for i, o := range outer {
		scale[i] += o
		if plain && scale[i] != 0 {
			s.tab.Scale(dst.Row(i), T(math.Exp(scale[i])))
		}
	}
}

// exponentiate replaces exponents by exp(e − max) and returns max.
func exponentiate[T dense.Float](s *Side[T], e []T) float64 {
	m := finiteMax(s.tab.Max(e))
	s.tab.Exp(e, m)
	return float64(m)
}

// finiteMax makes a row of −Inf one of zeros with maximum 0.
func finiteMax[T dense.Float](m T) T {
	if math.IsInf(float64(m), -1) {
		return 0
	}
	return m
}

func addBias[T dense.Float](e, bias []T) {
	for f, b := range bias {
		e[f] += b
	}
}

// exp serves Exp and ExpPM. Plain features need no maximum: the row term is the shift, and a dense projection ends with
// the exponential.
func (l *leaf[T]) exp(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T], plain bool, outer []float64) {
	m := l.re.rows
	if plain && l.Fn == plan.Exp && l.re.fast == nil && !l.re.absent() {
		shift := sc.modulus[:x.Rows] // free here, and never shorter than a block
		row := sc.terms[:x.Rows]
		s.terms(row, &l.row, l.quad, x, sc)
		for i, o := range outer {
			shift[i] = T(-(row[i] + o))
		}
		s.tab.MulTExp(dst, x, &l.re.w, l.bias, shift)
		return
	}
	step := max(groupBytes/(dst.Cols*int(unsafe.Sizeof(T(0)))), minBlock)
	for a := 0; a < x.Rows; a += step {
		b := min(a+step, x.Rows)
		e, xs := dst.RowRange(a, b), x.RowRange(a, b)
		if l.Fn == plan.Exp {
			l.re.project(s, e, xs, l.bias, sc)
		} else {
			l.re.project(s, e.ColRange(0, m), xs, nil, sc)
			l.mirror(e)
		}
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

// mirror completes the exponents of ExpPM, of which the first half is there, by their negatives and the bias.
func (l *leaf[T]) mirror(e dense.Matrix[T]) {
	m := e.Cols / 2
	for i := range e.Rows {
		plus, minus := e.Row(i)[:m], e.Row(i)[m:]
		for f, t := range plus {
			minus[f] = -t
		}
		addBias(plus, l.bias)
		addBias(minus, l.bias)
	}
}

// oscillate serves SinCos (sin first) and Complex (cos first, the imaginary part conjugated on request). A scale that all
// rows share is in the features of a plain map already, and 0 then.
func (l *leaf[T]) oscillate(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T], plain bool) {
	if l.pureTrig {
		l.sinCos(s, dst, scale, x, sc, plain)
		return
	}
	m := l.Omega.Rows.Rows
	l.waves(s, dst, x, sc)
	hasModulus := !l.re.absent() || l.bias != nil
	mod := dense.Matrix[T]{Rows: x.Rows, Cols: m, Stride: m, Data: sc.modulus}
	if !l.re.absent() {
		l.re.project(s, mod, x, l.bias, sc)
	} else if hasModulus {
		for i := range x.Rows {
			copy(mod.Row(i), l.bias)
		}
	}
	for i := range x.Rows {
		row := dst.Row(i)
		first, second := row[:m], row[m:]
		scale[i] = l.rowAt(s, x, i, sc)
		if !hasModulus {
			continue
		}
		e := mod.Row(i)
		scale[i] += exponentiate(s, e)
		s.tab.Mul(first, e)
		s.tab.Mul(second, e)
	}
}

// waves writes the sines and cosines of SinCos or Complex without their modulus.
func (l *leaf[T]) waves(s *Side[T], dst, x dense.Matrix[T], sc *scratch[T]) {
	m := l.Omega.Rows.Rows
	if l.im.absent() {
		for i := range x.Rows {
			clear(dst.Row(i))
			addBias(dst.Row(i), l.biasIm)
		}
	} else {
		l.im.project(s, dst.ColRange(0, m), x, l.biasIm, sc)
	}
	for i := range x.Rows {
		first, second := dst.Row(i)[:m], dst.Row(i)[m:]
		if phase := T(math.Remainder(quadAt(&l.rowIm, x.Row(i), sc.norms[i]), 2*math.Pi)); phase != 0 {
			for f := range first {
				first[f] += phase
			}
		}
		if l.Fn == plan.SinCos {
			s.tab.SinCos(first, second, first)
		} else {
			s.tab.SinCos(second, first, first)
		}
		if l.Conj {
			s.tab.Scale(second, -1)
		}
	}
}

// sinCos is oscillate without a modulus or a phase of the row: the projection ends with sine and cosine.
func (l *leaf[T]) sinCos(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T], plain bool) {
	m := l.im.rows
	sin, cos := dst.ColRange(0, m), dst.ColRange(m, 2*m)
	if l.Fn == plan.Complex {
		sin, cos = cos, sin
	}
	f := T(1)
	s.terms(scale[:x.Rows], &l.row, l.quad, x, sc)
	if plain && constant(&l.row) {
		f = T(math.Exp(l.row.Const))
		clear(scale[:x.Rows])
	}
	s.tab.MulTSinCos(sin, cos, x, &l.im.w, l.biasIm, f)
}

func (l *leaf[T]) threshold(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T]) {
	l.re.project(s, dst, x, l.bias, sc)
	for i := range x.Rows {
		row := dst.Row(i)
		if l.Fn == plan.Sign {
			for f, t := range row {
				row[f] = 1
				if t < 0 {
					row[f] = -1
				}
			}
			scale[i] = l.rowAt(s, x, i, sc)
			continue
		}
		c := T(math.Exp(l.rowAt(s, x, i, sc)))
		for f, t := range row {
			row[f] = c*max(0, t) + T(l.Eps)
		}
		scale[i] = 0
	}
}

// input writes u = max(Lin·x − Shift, Floor) in float64.
func (l *leaf[T]) input(x []T, sc *scratch[T]) []float64 {
	for i, v := range x {
		sc.x[i] = float64(v)
	}
	u := sc.u[:l.inner]
	l.Lin.Apply(u, sc.x)
	for i, c := range l.Shift {
		u[i] -= c
	}
	if l.Floor > 0 {
		for i, v := range u {
			u[i] = max(v, l.Floor)
		}
	}
	return u
}

func (l *leaf[T]) elu(dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T]) {
	for i := range x.Rows {
		out := dst.Row(i)
		for k, u := range l.input(x.Row(i), sc) {
			if u > 0 {
				out[k] = T(u + 1)
			} else {
				out[k] = T(math.Exp(u))
			}
		}
		scale[i] = 0
	}
}

// residual computes 1, u, exp(Bias)·g with g = exp(e) − 1 − t, e = t + Row(u), in float64: for small inputs g is a
// difference of nearly equal numbers, computed as (expm1(e) − e) + Row(u).
func (l *leaf[T]) residual(s *Side[T], dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T]) {
	r := 1 + l.inner
	l.re.project(s, dst.ColRange(r, dst.Cols), x, nil, sc)
	for i := range x.Rows {
		out := dst.Row(i)
		u := l.input(x.Row(i), sc)
		row := quadAt(&l.Row, u, dense.Norm2(u))
		top := 0.0
		for f, t := range out[r:] {
			top = max(top, float64(t)+row+l.biasAt(f))
		}
		shrink := math.Exp(-top)
		out[0] = T(shrink)
		for k, v := range u {
			out[1+k] = T(v * shrink)
		}
		for f, t := range out[r:] {
			e, b := float64(t)+row, l.biasAt(f)
			if e < 1 {
				out[r+f] = T((expm1MinusArg(e) + row) * math.Exp(b-top))
			} else {
				out[r+f] = T(math.Exp(e+b-top) - (1+float64(t))*math.Exp(b-top))
			}
		}
		scale[i] = top
	}
}

func (l *leaf[T]) biasAt(f int) float64 {
	if l.Bias == nil {
		return 0
	}
	return l.Bias[f]
}

// expm1MinusArg is e^t − 1 − t without cancellation near 0.
func expm1MinusArg(t float64) float64 {
	if math.Abs(t) > 0.5 {
		return math.Expm1(t) - t
	}
	term, sum := t*t/2, 0.0
	for k := 3; math.Abs(term) > 1e-18*math.Abs(sum); k++ {
		sum += term
		term *= t / float64(k)
	}
	return sum
}

// monomial computes exp(Bias + Row)·∏ u_l^{ω_l} as sign and logarithm, with 0⁰ = 1 (CRT 3.2).
func (l *leaf[T]) monomial(dst dense.Matrix[T], scale []float64, x dense.Matrix[T], sc *scratch[T]) {
	tab := kern.Best[float64]()
	omega := l.Omega.Rows
	for i := range x.Rows {
		u := l.input(x.Row(i), sc)
		logs := sc.logs[:len(u)]
		neg, zero := 0, 0 // negative coordinates from the front of sc.neg, zeros from its back
		for k, v := range u {
			switch {
			case v == 0:
				logs[k] = 0
				zero++
				sc.neg[len(sc.neg)-zero] = k
				continue
			case v < 0:
				sc.neg[neg] = k
				neg++
			}
			logs[k] = math.Log(math.Abs(v))
		}
		e := sc.powers[:omega.Rows]
		row := func(v []float64) dense.Matrix[float64] {
			return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
		}
		tab.MulT(row(e), row(logs), &l.powers, l.Bias)
		for _, k := range sc.neg[len(sc.neg)-zero:] {
			for f := range e {
				if omega.At(f, k) > 0 {
					e[f] = math.Inf(-1)
				}
			}
		}
		top := tab.Max(e)
		if math.IsInf(top, -1) {
			top = 0
		}
		tab.Exp(e, top)
		scale[i] = top + quadAt(&l.Row, u, tab.Norm2(u))
		for f := range e {
			var power float64
			for _, k := range sc.neg[:neg] {
				power += omega.At(f, k)
			}
			if int64(power)&1 == 1 {
				e[f] = -e[f]
			}
		}
		out := dst.Row(i)
		for f, v := range e {
			out[f] = T(v)
		}
	}
}
