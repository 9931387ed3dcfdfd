// Package plan is the lowered form of a feature map. Every backend (package internal/exec on the CPU, the graphs of
// module gomlx) executes plans and knows no family; every family lowers itself to a plan and knows no backend.
//
// A side (query or key) is a list of leaves and a list of blocks. A leaf is one projection followed by one function,
// with all exponents kept in the log domain. A block is a leaf, or the Kronecker product of a coefficient leaf with
// a base leaf; the output row is the concatenation of the blocks. Hybrids, clusters and data-aware matrices need
// nothing else.
//
// A plan is complete: two backends that execute the same plan give the same features up to rounding. The interpreter
// in the tests of package randfeat is the definition of its meaning; a new leaf function needs a case there first.
package plan

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Linear is a linear map: Gain·I, diag(Diag) or Dense, whichever is set; Dense wins over Diag, Diag over Gain.
// The zero value is absent: what that means is said where the field stands.
type Linear struct {
	Gain  float64
	Diag  []float64
	Dense dense.Matrix[float64]
}

// Scalar is the map g·I.
func Scalar(g float64) Linear { return Linear{Gain: g} }

// IsZero reports whether no form is set.
func (l Linear) IsZero() bool { return l.Gain == 0 && l.Diag == nil && l.Dense.IsEmpty() }

// Apply writes l·x into dst. Absent: zeros.
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

// Matrix is l as a rows×dim matrix, dim being the input size.
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

// Compose is the map x ↦ l(inner(x)) for inputs of dim columns. Neither may be absent.
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

func (l Linear) transpose() Linear {
	if !l.Dense.IsEmpty() {
		l.Dense = Transpose(l.Dense)
	}
	return l
}

func (l Linear) scale(g float64) Linear {
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
			for j, w := range b.Row(k) {
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

// Compose is the quadratic x ↦ q(l x − shift) for inputs of dim columns; shift may be nil.
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
	m := l.Matrix(dim)
	out.Quad = Linear{Dense: Mul(Transpose(m), Mul(q.Quad.Matrix(m.Rows), m))}
	return out
}

// translate is u ↦ q(u − s): uᵀQu − (Q + Qᵀ)s·u + sᵀQs + l·u − l·s.
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

// Leaf is one projection and one function on one side of a map. Its input is u = Lin·x − Shift.
type Leaf struct {
	Fn    Fn
	Lin   Linear    // absent: identity
	Shift []float64 // nil: zero
	Floor float64   // if positive, u = max(u, Floor) coordinatewise; for Monomial (Poisson+, geometric+) and ELU only
	Omega coupling.Omega
	// Mix and MixIm stand between u and Ω; absent: no projection.
	Mix, MixIm   Linear
	Bias, BiasIm []float64 // one per projection; nil: zero
	Row, RowIm   Quadratic // of u; for ELU and Columns unused
	Eps          float64
	Conj         bool
	Kernel       kernel.Kind           // of Columns; not a signed one
	White        dense.Matrix[float64] // of Columns: rows as many as Ω has; empty: none
}

// Features is the number of output features.
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

// None stands for no coefficient leaf or no gate in a Block.
const None = -1

// Block is Coef · leaf[Rho] ⊗ leaf[Base] with the coefficient features as the slow index; Rho may be None.
// A Gate ≥ 0 keeps the block for rows whose nearest centre has that index and makes it zero for all others.
type Block struct {
	Coef      float64
	Rho, Base int
	Gate      int
}

// Side is the map of queries or of keys.
type Side struct {
	Leaves []Leaf
	Blocks []Block
	Outer  Quadratic // of x; a log factor of the whole row
	// Centres are the rows that gates refer to, compared with CentreLin·x (absent: x).
	Centres   dense.Matrix[float64]
	CentreLin Linear
}

// OutDim is the number of features of a row.
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

// Compose is the side x ↦ s(l x) for inputs of dim columns.
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

func composeOptional(outer, inner Linear, dim int) Linear {
	if outer.IsZero() {
		return inner
	}
	return outer.Compose(inner, dim)
}

// Pair is a lowered map. Complex features are real pairs: query (re, im), key (re, −im).
type Pair struct{ Query, Key Side }

// Compose is Side.Compose on both sides.
func (p Pair) Compose(l Linear, dim int) Pair {
	return Pair{Query: p.Query.Compose(l, dim), Key: p.Key.Compose(l, dim)}
}

// Single is the side of a map with one leaf.
func Single(l Leaf) Side {
	return Side{Leaves: []Leaf{l}, Blocks: []Block{{Coef: 1, Rho: None, Base: 0, Gate: None}}}
}

// Positive reports whether every feature is nonnegative for every input.
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
