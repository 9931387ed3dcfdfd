package rfx

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/fused"
	"github.com/randfeat/randfeat/internal/plan"
)

// Attention runs as GPU kernels (package fused) where the backend has them: for maps with one exponential per feature,
// w·x + bias + scale·|x|² + row, and what fused.Shape can say. Everything else is a graph of operations.

// exponents are the terms of the features of one side.
type exponents struct {
	x     *Node // rows that are projected
	w     *Node // [heads or 1, m, dim]
	bias  *Node // [1, heads or 1, 1, m]
	scale *Node // of |x|² [1, heads or 1, 1, 1]; nil: 0
	row   *Node // other terms of a row [batch, heads, length, 1]; nil: 0
}

// exponential reports whether a side is one exponential per feature.
func exponential(s plan.Side) bool {
	if len(s.Leaves) != 1 || len(s.Blocks) != 1 || s.Centres.Rows > 0 {
		return false
	}
	l, b := s.Leaves[0], s.Blocks[0]
	return (l.Fn == plan.Exp || l.Fn == plan.ExpPM) && l.Shift == nil && l.Floor == 0 && !l.Mix.IsZero() &&
		b.Rho == plan.None && b.Gate == plan.None && b.Coef > 0
}

// exponents returns the terms of a side. It asks for numbers in the order of features, because they are named by it.
func (b *builder) exponents() (e exponents) {
	at := func(s plan.Side) *plan.Leaf { return &s.Leaves[0] }
	lin := func(s plan.Side) plan.Linear { return at(s).Lin }
	l := at(b.sides[0])
	e.x = b.x
	gain := b.gain(lin, true)
	if gain == nil {
		e.x = b.linear(b.x, lin, true)
	}
	inner := e.x.Shape().Dimensions[3]
	e.w = b.matrix(l.Omega.Rows.Rows, inner, func(s plan.Side) dense.Matrix[float64] {
		return plan.Mul(at(s).Omega.Rows, at(s).Mix.Matrix(inner))
	})
	if gain != nil {
		e.w = Mul(e.w, Reshape(gain, b.heads, 1, 1))
	}
	if e.bias = b.vector(func(s plan.Side) []float64 { return at(s).Bias }); e.bias == nil {
		e.bias = Zeros(e.x.Graph(), shapes.Make(e.x.DType(), 1, b.heads, 1, l.Omega.Rows.Rows))
	}
	b.add(&e, e.x, gain, func(s plan.Side) plan.Quadratic { return at(s).Row })
	b.add(&e, b.x, nil, func(s plan.Side) plan.Quadratic { return s.Outer })
	e.bias = b.scale(Features{Log: e.bias}, 0).Log
	if l.Fn == plan.ExpPM {
		e.w, e.bias = Concatenate([]*Node{e.w, Neg(e.w)}, 1), Concatenate([]*Node{e.bias, e.bias}, 3)
	}
	return e
}

// add adds a quadratic of gain·x: to scale if it is a multiple of |e.x|², else to row.
func (b *builder) add(e *exponents, x, gain *Node, of func(plan.Side) plan.Quadratic) {
	u := x
	if gain != nil {
		u = Mul(x, gain)
	}
	q := b.terms(of)
	e.bias = sum(e.bias, q.constant)
	if q.scale == nil || q.linear != nil || x != e.x {
		e.row = sum(e.row, b.form(q, u, of))
		return
	}
	if gain != nil {
		q.scale = Mul(q.scale, Square(gain))
	}
	e.scale = sum(e.scale, q.scale)
}

// kernels returns the attention of q, k and v as a call of kernels, or nil if there are none for it.
func (a Attention) kernels(q, k, v *Node, see Visible, s sizes) *Node {
	device, ok := q.Graph().Backend().(fused.Device)
	if !ok || q.DType() != dtypes.Float32 && q.DType() != dtypes.BFloat16 {
		return nil
	}
	if a.Causal && q.DType() == dtypes.Float32 {
		return nil // with gradients the graph is faster: 1.3 against 2.1 ms at 16384 positions of 8 heads (TF32, H200)
	}
	call, inputs, err := a.inputs(q, k, v, see, s)
	if err != nil {
		return nil
	}
	call.Shape.Products = device.Products()
	call.Sizes = call.Shape.Sizes()
	return Reshape(call.Graph(inputs)[0], s.batch, s.heads, s.queries, s.value)
}

// inputs returns the call for an attention, and its inputs in order.
func (a Attention) inputs(q, k, v *Node, see Visible, s sizes) (c fused.Call, in []*Node, err error) {
	m := a.Map
	if a.Window > 0 || a.Sinks > 0 || see.Segments != nil || m.numbers != nil && !m.fixed ||
		!exponential(m.pairs[0].Query) || !exponential(m.pairs[0].Key) {
		return c, nil, fmt.Errorf("rfx: no kernels for this attention")
	}
	dtype := q.DType()
	c.Shape = fused.Shape{Batch: s.batch, Heads: s.heads, KVHeads: s.kvHeads, Queries: s.queries, Keys: s.keys,
		Value: s.value, Maps: 1, Causal: a.Causal, Half: dtype == dtypes.BFloat16}
	if len(m.pairs) > 1 {
		c.Shape.Maps = s.kvHeads
	}
	if see.Mask != nil {
		k, v = where(rows(see.Mask), k, 0), where(rows(see.Mask), v, 0)
	}
	side := func(name string, x *Node, pick func(plan.Pair) plan.Side) exponents {
		b := m.builder(name, ConvertDType(x, dtypes.Float32), pick)
		e := b.exponents()
		if e.x == b.x {
			e.x = x
		}
		return e
	}
	grouped := Reshape(q, s.batch, s.kvHeads, s.group*s.queries, s.dim)
	eq := side("query", grouped, func(p plan.Pair) plan.Side { return p.Query })
	ek := side("key", k, func(p plan.Pair) plan.Side { return p.Key })
	c.Shape.Dim = eq.x.Shape().Dimensions[3]
	c.Shape.Features = max(16, 1<<bits.Len(uint(m.features-1)))
	g := q.Graph()
	if ek.row != nil || see.Mask != nil {
		c.Shape.Rows = s.kvHeads
		if ek.row == nil {
			c.Shape.Rows, ek.row = 1, Zeros(g, shapes.Make(dtypes.Float32, s.batch, 1, s.keys, 1))
		}
		if ek.row = MulScalar(BroadcastToDims(ek.row, s.batch, c.Shape.Rows, s.keys, 1), math.Log2E); see.Mask != nil {
			ek.row = where(rows(see.Mask), ek.row, fused.Off)
		}
	}
	if err := c.Shape.Check(); err != nil {
		return c, nil, err
	}
	maps, more := c.Shape.Maps, c.Shape.Features-m.features
	matrix := func(w *Node) *Node {
		return ConvertDType(fill(MulScalar(w, math.Log2E), 1, 0, more, 0), dtype)
	}
	vector := func(b *Node) *Node {
		b = BroadcastToDims(MulScalar(b, math.Log2E), 1, maps, 1, m.features)
		return Reshape(fill(b, 3, 0, more, fused.Off), maps, c.Shape.Features)
	}
	scale := Zeros(g, shapes.Make(dtypes.Float32, maps))
	if ek.scale != nil {
		scale = Reshape(MulScalar(ek.scale, math.Log2E), maps)
	}
	flat := func(x *Node, heads, length, dim int) *Node {
		return ConvertDType(Reshape(x, s.batch*heads, length, dim), dtype)
	}
	in = []*Node{flat(eq.x, s.heads, s.queries, c.Shape.Dim), flat(ek.x, s.kvHeads, s.keys, c.Shape.Dim),
		flat(v, s.kvHeads, s.keys, s.value), matrix(eq.w), matrix(ek.w), vector(eq.bias), vector(ek.bias), scale}
	for i := 3; i < len(in); i++ {
		in[i] = StopGradient(in[i])
	}
	if c.Shape.Rows > 0 {
		in = append(in, Reshape(ek.row, s.batch*c.Shape.Rows, s.keys))
	}
	return c, in, nil
}
