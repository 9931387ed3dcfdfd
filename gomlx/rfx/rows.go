package rfx

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas

	"github.com/randfeat/randfeat/internal/plan"
)

// keyRows are the features of keys [..., keys, features] and their values with a column of ones, whose sum is the
// denominator.
type keyRows struct {
	Features
	v *Node // [..., keys, valueDim + 1]
}

// withOnes appends a column of ones to values.
func withOnes(v *Node) *Node {
	return Concatenate([]*Node{v, OnesLike(SliceAxis(v, -1, AxisElem(0)))}, -1)
}

// aligned pads wide rows with columns of zeros to a multiple of 16 bytes. GPU matrix units load 16 bytes at once,
// and a row of 65 numbers would not start at such a boundary.
func aligned(v *Node) *Node {
	n := v.Shape().Dimensions[v.Rank()-1]
	if n <= 32 {
		return v
	}
	unit := 16 / v.DType().Size()
	return fill(v, v.Rank()-1, 0, -n&(unit-1), 0)
}

// keyRows returns the features of in.k. Masked keys have weight zero.
func (m *Map) keyRows(in input) keyRows {
	k := keyRows{m.Keys(in.k), in.v}
	if in.see.Mask != nil {
		k = k.only(rows(in.see.Mask))
	}
	return k
}

// queryRows returns the features of in.q; Value and Log are [batch, kvHeads, group, length, features]. The heads of
// a group become additional rows of their key/value head. A factor exp(row) that all features of a query share is
// left out: it cancels in a quotient of sums. row is [batch, kvHeads, group, length, 1], or nil.
func (m *Map) queryRows(in input) (f Features, row *Node) {
	x := Reshape(in.q, in.batch, in.kvHeads, in.group*in.queries, in.dim)
	b := m.builder("query", x, func(p plan.Pair) plan.Side { return p.Query })
	b.apart = true
	shape := func(x *Node) *Node {
		return Reshape(x, in.batch, in.kvHeads, in.group, in.queries, x.Shape().Dimensions[3])
	}
	f = b.features().each(shape)
	if b.row != nil {
		row = shape(BroadcastToDims(b.row, in.batch, in.kvHeads, in.group*in.queries, 1))
	}
	return f, row
}

// times multiplies the sums by exp(row). Use it before adding sums that have this factor.
func (p partial) times(row *Node) partial {
	if row != nil {
		p.log = Add(p.log, row)
	}
	return p
}

// each applies a change of shape to both nodes.
func (f Features) each(change func(*Node) *Node) Features {
	f.Log = change(f.Log)
	if f.Value != nil {
		f.Value = change(f.Value)
	}
	return f
}

func (k keyRows) each(change func(*Node) *Node) keyRows {
	return keyRows{k.Features.each(change), change(k.v)}
}

// only keeps the keys where on [..., keys, 1] is true.
func (k keyRows) only(on *Node) keyRows {
	k.Log, k.v = where(on, k.Log, off), where(on, k.v, 0)
	return k
}

// from keeps the keys at positions n and later.
func (k keyRows) from(n int) keyRows {
	d := k.Log.Shape().Dimensions
	return k.only(GreaterOrEqual(positions(k.Log.Graph(), d[2]), Const(k.Log.Graph(), int32(n))))
}

// positions returns 0, 1, … as [1, 1, length, 1].
func positions(g *Graph, length int) *Node {
	return Iota(g, shapes.Make(Const(g, int32(0)).DType(), 1, 1, length, 1), 2)
}

// state sums the keys over their axis, the last but one, relative to the largest exponent of each feature.
func (k keyRows) state() State {
	ref := StopGradient(ReduceMax(k.Log, -2))
	phi := k.times(Exp(Sub(k.Log, ExpandAxes(ref, -2))))
	return State{Sum: product(phi, k.v, -2, -2), Ref: ref}
}

// rows reshapes a mask [batch, keys] to [batch, 1, keys, 1].
func rows(mask *Node) *Node {
	d := mask.Shape().Dimensions
	return Reshape(mask, d[0], 1, d[1], 1)
}

// where returns x where on is true and other elsewhere. on is broadcast to the shape of x.
func where(on, x *Node, other float64) *Node {
	on = BroadcastToShape(on, shapes.Make(on.DType(), x.Shape().Dimensions...))
	return Where(on, x, FillScalar(x.Graph(), x.Shape(), other))
}

// flat merges the group into the positions, for sums that do not depend on the position of a query. partial.unflat
// undoes it.
func (f Features) flat() Features {
	return f.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		n := len(d)
		return Reshape(x, append(append([]int{}, d[:n-3]...), d[n-3]*d[n-2], d[n-1])...)
	})
}

// partial is a sum over some keys for every query: sum·exp(log). The last column is the denominator.
type partial struct{ sum, log *Node } // [..., queries, valueDim+1], [..., queries, 1]

func (p partial) each(change func(*Node) *Node) partial { return partial{change(p.sum), change(p.log)} }

func (p partial) unflat(group int) partial {
	return p.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		n := len(d)
		return Reshape(x, append(append([]int{}, d[:n-2]...), group, d[n-2]/group, d[n-1])...)
	})
}

// plus adds sums over different keys, relative to the larger exponent, as online softmax does.
func (p partial) plus(o partial) partial {
	log := StopGradient(Max(p.log, o.log))
	at := func(x partial) *Node { return Mul(x.sum, Exp(Sub(x.log, log))) }
	return partial{Add(at(p), at(o)), log}
}

// only keeps the queries where on is true.
func (p partial) only(on *Node) partial { return partial{where(on, p.sum, 0), where(on, p.log, 2*off)} }

// lost is the denominator below which weights get no gradients: times features of up to exp(lift) they would
// overflow float32. A denominator is that small only if, among the keys that a query sees, no feature is large where
// the query's are (see sweep). Such weights are mostly rounding error.
const lost = 1e-22

// quotient divides by column n, and gives zeros where it is zero. The sums are first divided by the value of the
// denominator, as a constant, because the squares of a small denominator in the gradient could underflow.
func quotient(p partial, n int) *Node {
	den := StopGradient(SliceAxis(p.sum, -1, AxisRange(n, n+1)))
	some := LogicalNot(IsZero(den))
	whole := GreaterThan(Abs(den), FillScalar(den.Graph(), den.Shape(), lost))
	whole = BroadcastToShape(whole, shapes.Make(whole.DType(), p.sum.Shape().Dimensions...))
	sum := Div(Where(whole, p.sum, StopGradient(p.sum)), where(some, den, 1))
	one := where(some, SliceAxis(sum, -1, AxisRange(n, n+1)), 1)
	return where(some, Div(SliceAxis(sum, -1, AxisRangeFromStart(n)), one), 0)
}

// Product contracts one axis of each of two nodes; their first batch axes are batch axes. It is graph.DotGeneral
// with other gradients. For operands of half precision, the gradients of DotGeneral are float32: copies of twice the
// size and products at half the speed. The gradients of Product have the precision of the operands. GPUs still
// accumulate in float32.
func Product(a, b *Node, axisA, axisB, batch int) *Node {
	axes := make([]int, batch)
	for i := range axes {
		axes[i] = i
	}
	return Dot(a, b).WithAccumulatorDType(dtypes.InvalidDType).General([]int{axisA}, axes, []int{axisB}, axes)
}

// product contracts one axis of each of two nodes of equal rank; all axes but the last two are batch axes. If one
// operand has half precision, both are converted to it. The result is float32 then.
func product(a, b *Node, axisA, axisB int) *Node {
	for _, x := range []*Node{a, b} {
		if low := x.DType(); low.IsHalfPrecision() && a.DType() != b.DType() {
			return product(ConvertDType(a, low), ConvertDType(b, low), axisA, axisB)
		}
	}
	p := Product(a, b, axisA, axisB, a.Rank()-2)
	if p.DType().IsHalfPrecision() {
		p = ConvertDType(p, dtypes.Float32)
	}
	return p
}

func (f Features) reverse() Features { return f.each(backwards) }
func (k keyRows) reverse() keyRows   { return k.each(backwards) }
func (p partial) reverse() partial   { return p.each(backwards) }

// backwards reverses the axis of positions, the last but one.
func backwards(x *Node) *Node { return Reverse(x, x.Rank()-2) }

func (in input) reverse() input {
	if in.see.Segments != nil {
		in.see.Segments = Reverse(in.see.Segments, 1)
	}
	return in
}
