// Package plan is the lowered form of a feature map. Every backend (package internal/exec on the CPU, the graphs of
// module gomlx) executes plans and knows no family; every family lowers itself to a plan and knows no backend.
//
// A [Side] (query or key) is a list of leaves and a list of blocks. A [Leaf] is one projection followed by one
// function, with all exponents kept in the log domain. A [Block] is a leaf, or the Kronecker product of a coefficient
// leaf with a base leaf; the output row is the concatenation of the blocks. Hybrids, clusters and data-aware matrices
// need nothing else.
//
// A plan is complete: two backends that execute the same plan give the same features up to rounding. [Side.Eval] is the
// definition of its meaning. A new leaf function begins with an entry in the table of fn.go, whose eval defines it; the
// tests of every backend compare with Eval.
//
// Values of this package are data. Methods return new values and leave the receiver unchanged, but slices and matrices
// may be shared between them: do not write into a plan.
package plan

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Linear is a linear map: Gain·I, diag(Diag) or Dense, whichever is set; Dense wins over Diag, Diag over Gain. The zero
// value means absent. Each field of type Linear documents what absent means there: the identity, no projection, or
// zero. A map that is really zero therefore cannot be a Gain of 0; it is a Dense or Diag of zeros.
type Linear struct {
	Gain  float64
	Diag  []float64
	Dense dense.Matrix[float64]
}

// Scalar is the map g·I.
func Scalar(g float64) Linear { return Linear{Gain: g} }

// IsZero reports whether no form is set.
func (l Linear) IsZero() bool { return l.Gain == 0 && l.Diag == nil && l.Dense.IsEmpty() }

// Apply writes l·x into dst, whose length is the output dimension. An absent map gives zeros.
func (l Linear) Apply(dst, x []float64) {
	switch {
	case !l.Dense.IsEmpty():
		for i := range dst {
			dst[i] = dense.Dot(l.Dense.Row(i), x)
		}
	case l.Diag != nil:
		for i := range dst {
			dst[i] = l.Diag[i] * x[i]
		}
	default:
		for i := range dst {
			dst[i] = l.Gain * x[i]
		}
	}
}

// Matrix is l as a matrix with dim columns, dim being the input dimension. A Dense map is returned itself, not a copy.
func (l Linear) Matrix(dim int) dense.Matrix[float64] {
	if !l.Dense.IsEmpty() {
		return l.Dense
	}
	m := dense.New[float64](dim, dim)
	for i := range dim {
		v := l.Gain
		if l.Diag != nil {
			v = l.Diag[i]
		}
		m.Set(i, i, v)
	}
	return m
}

// Compose is the map x ↦ l(inner(x)) for inputs of dim columns. Neither map may be absent. A scalar keeps the form of
// the other map, so that most compositions stay diagonal or scalar and cost backends nothing.
func (l Linear) Compose(inner Linear, dim int) Linear {
	scalar := func(a Linear) bool { return a.Dense.IsEmpty() && a.Diag == nil }
	switch {
	case scalar(l) && scalar(inner):
		return Scalar(l.Gain * inner.Gain)
	case scalar(inner):
		return l.scale(inner.Gain)
	case scalar(l):
		return inner.scale(l.Gain)
	}
	mid := dim
	if !inner.Dense.IsEmpty() {
		mid = inner.Dense.Rows
	}
	return Linear{Dense: Mul(l.Matrix(mid), inner.Matrix(dim))}
}

// transpose is lᵀ; scalar and diagonal maps are their own transposes.
func (l Linear) transpose() Linear {
	if !l.Dense.IsEmpty() {
		l.Dense = Transpose(l.Dense)
	}
	return l
}

// scale is g·l for a diagonal or dense l.
func (l Linear) scale(g float64) Linear {
	if g == 1 {
		return l
	}
	if !l.Dense.IsEmpty() {
		m := l.Dense.Clone()
		for i := range m.Data {
			m.Data[i] *= g
		}
		return Linear{Dense: m}
	}
	d := make([]float64, len(l.Diag))
	for i, v := range l.Diag {
		d[i] = g * v
	}
	return Linear{Diag: d}
}

// Mul is the matrix product a·b.
func Mul(a, b dense.Matrix[float64]) dense.Matrix[float64] {
	c := dense.New[float64](a.Rows, b.Cols)
	for i := range a.Rows {
		ci := c.Row(i)
		for k, v := range a.Row(i) {
			if v == 0 {
				continue
			}
			bk := b.Row(k)
			ci := ci[:len(bk)] // no check of bounds in the loop
			for j, w := range bk {
				ci[j] += v * w
			}
		}
	}
	return c
}

// Transpose is the packed transpose of a.
func Transpose(a dense.Matrix[float64]) dense.Matrix[float64] {
	t := dense.New[float64](a.Cols, a.Rows)
	for i := range a.Rows {
		for j, v := range a.Row(i) {
			t.Set(j, i, v)
		}
	}
	return t
}

// Quadratic is a term common to all features of a row: Const + Lin·u + uᵀ Quad u. Absent parts are zero.
type Quadratic struct {
	Const float64
	Lin   []float64
	Quad  Linear
}

// Norm2 is the quadratic c·|u|².
func Norm2(c float64) Quadratic { return Quadratic{Quad: Scalar(c)} }

// IsZero reports whether the term vanishes for every input.
func (q Quadratic) IsZero() bool { return q.Const == 0 && q.Lin == nil && q.Quad.IsZero() }

// Compose is the quadratic x ↦ q(l·x − shift) for inputs of dim columns; a nil shift is zero.
func (q Quadratic) Compose(l Linear, shift []float64, dim int) Quadratic {
	if shift != nil {
		q = q.translate(shift)
	}
	out := Quadratic{Const: q.Const}
	if q.Lin != nil {
		out.Lin = make([]float64, dim)
		l.transpose().Apply(out.Lin, q.Lin)
	}
	if q.Quad.IsZero() {
		return out
	}
	if l.Dense.IsEmpty() && l.Diag == nil {
		out.Quad = Scalar(l.Gain*l.Gain).Compose(q.Quad, dim)
		return out
	}
	if l.Dense.IsEmpty() {
		m := q.Quad.Matrix(dim).Clone()
		for i, d := range l.Diag {
			for j, v := range m.Row(i) {
				m.Set(i, j, d*(v*l.Diag[j]))
			}
		}
		out.Quad = Linear{Dense: m}
		return out
	}
	m := l.Dense
	out.Quad = Linear{Dense: Mul(Transpose(m), Mul(q.Quad.Matrix(m.Rows), m))}
	return out
}

// translate is u ↦ q(u − s) = uᵀQu − ((Q + Qᵀ)s)·u + sᵀQs + Lin·u − Lin·s + Const.
func (q Quadratic) translate(s []float64) Quadratic {
	out := Quadratic{Const: q.Const, Lin: make([]float64, len(s)), Quad: q.Quad}
	if q.Lin != nil {
		copy(out.Lin, q.Lin)
		out.Const -= dense.Dot(q.Lin, s)
	}
	if !q.Quad.IsZero() {
		qs, qts := make([]float64, len(s)), make([]float64, len(s))
		q.Quad.Apply(qs, s)
		q.Quad.transpose().Apply(qts, s)
		out.Const += dense.Dot(qs, s)
		for i, v := range qs {
			out.Lin[i] -= v + qts[i]
		}
	}
	return out
}

// Add is the sum of two quadratics over inputs of dim columns.
func (q Quadratic) Add(o Quadratic, dim int) Quadratic {
	out := Quadratic{Const: q.Const + o.Const}
	if q.Lin != nil || o.Lin != nil {
		out.Lin = make([]float64, dim)
		for _, l := range [][]float64{q.Lin, o.Lin} {
			for i, v := range l {
				out.Lin[i] += v
			}
		}
	}
	switch {
	case q.Quad.IsZero():
		out.Quad = o.Quad
	case o.Quad.IsZero():
		out.Quad = q.Quad
	case q.Quad.Dense.IsEmpty() && q.Quad.Diag == nil && o.Quad.Dense.IsEmpty() && o.Quad.Diag == nil:
		out.Quad = Scalar(q.Quad.Gain + o.Quad.Gain)
	default:
		m := q.Quad.Matrix(dim).Clone()
		for i, v := range o.Quad.Matrix(dim).Clone().Data {
			m.Data[i] += v
		}
		out.Quad = Linear{Dense: m}
	}
	return out
}

// Leaf is one projection and one function on one side of a map. Its input is u = Lin·x − Shift, raised to Floor. With t
// = Ω·Mix·u + … the constants of type Fn say which features it gives.
type Leaf struct {
	Fn    Fn
	Lin   Linear    // absent means the identity
	Shift []float64 // subtracted from Lin·x; nil means zero
	Floor float64   // if positive, u = max(u, Floor) per coordinate; only for Monomial (Poisson+, geometric+) and ELU
	// Omega holds the projections, m rows; for Columns the landmarks. If Omega.Fast is set, Rows is the same matrix
	// written out, so that a backend without fast transforms can use it.
	Omega coupling.Omega
	// Mix and MixIm stand between u and Ω, for exponents and for phases; absent means that there is no such projection.
	Mix, MixIm   Linear
	Bias, BiasIm []float64             // one element per projection; nil means zero
	Row, RowIm   Quadratic             // functions of u; unused by ELU and Columns
	Eps          float64               // for ReLU: added to every feature
	Conj         bool                  // for Complex: negates the imaginary parts
	Kernel       kernel.Kind           // for Columns: the kernel, not one of a signed kind
	White        dense.Matrix[float64] // for Columns: multiplies the features, one row per landmark; empty means none
}

// Features is the number of output features for inputs of dim columns.
func (l Leaf) Features(dim int) int {
	if !l.White.IsEmpty() {
		return l.White.Cols
	}
	return table[l.Fn].features(l.Omega.Rows.Rows, l.InnerDim(dim))
}

// InnerDim is the dimension of u for inputs of dim columns.
func (l Leaf) InnerDim(dim int) int {
	if l.Lin.Dense.IsEmpty() {
		return dim
	}
	return l.Lin.Dense.Rows
}

// None means no coefficient leaf (Rho) or no gate (Gate) in a Block.
const None = -1

// Block is Coef · leaf[Rho] ⊗ leaf[Base]. Features of Rho are the slow index, features of Base the fast one; without a
// coefficient leaf Rho is None. A Gate ≥ 0 keeps the block for rows whose nearest centre has that index and sets it to
// zero for all others; without a gate it is None.
type Block struct {
	Coef      float64
	Rho, Base int
	Gate      int
}

// Side is the map of queries or the map of keys.
type Side struct {
	Leaves []Leaf
	Blocks []Block
	Outer  Quadratic // a log factor of the whole row, as a function of x (not of u)
	// Centres are the rows that gates refer to, compared with CentreLin·x (absent means x).
	Centres   dense.Matrix[float64]
	CentreLin Linear
}

// OutDim is the number of features of a row, for inputs of dim columns.
func (s Side) OutDim(dim int) int {
	n := 0
	for _, b := range s.Blocks {
		k := s.Leaves[b.Base].Features(dim)
		if b.Rho != None {
			k *= s.Leaves[b.Rho].Features(dim)
		}
		n += k
	}
	return n
}

// Compose is the side x ↦ s(l·x) for inputs of dim columns. This is how kernels with a matrix or a bandwidth reach a
// plan: families lower for plain inputs.
func (s Side) Compose(l Linear, dim int) Side {
	out := s
	out.Leaves = make([]Leaf, len(s.Leaves))
	for i, leaf := range s.Leaves {
		leaf.Lin = composeOptional(leaf.Lin, l, dim)
		out.Leaves[i] = leaf
	}
	out.Outer = s.Outer.Compose(l, nil, dim)
	if !s.Centres.IsEmpty() {
		out.CentreLin = composeOptional(s.CentreLin, l, dim)
	}
	return out
}

// composeOptional is Compose where an absent outer map means the identity.
func composeOptional(outer, inner Linear, dim int) Linear {
	if outer.IsZero() {
		return inner
	}
	return outer.Compose(inner, dim)
}

// Pair is a lowered map: one side for queries, one for keys. The product of their features estimates the kernel, so
// complex features are stored as real pairs: query (re, im), key (re, −im).
type Pair struct{ Query, Key Side }

// Compose is Side.Compose on both sides.
func (p Pair) Compose(l Linear, dim int) Pair {
	return Pair{Query: p.Query.Compose(l, dim), Key: p.Key.Compose(l, dim)}
}

// Single is the side of a map with one leaf, coefficient 1 and no gate.
func Single(l Leaf) Side {
	return Side{Leaves: []Leaf{l}, Blocks: []Block{{Coef: 1, Rho: None, Base: 0, Gate: None}}}
}

// Positive reports whether every feature is nonnegative for every input. Attention with such a map has denominators
// that cannot vanish (docs/theory.md §6.1).
func (s Side) Positive() bool {
	for _, b := range s.Blocks {
		if b.Coef < 0 || !s.positive(b.Base) || b.Rho != None && !s.positive(b.Rho) {
			return false
		}
	}
	return true
}

func (s Side) positive(leaf int) bool {
	l := &s.Leaves[leaf]
	return table[l.Fn].positive(l)
}
