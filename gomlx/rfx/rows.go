package rfx

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas

	"github.com/randfeat/randfeat/internal/plan"
)

// keyRows are features of keys [..., keys, features] and their values with a column of ones, which sums to the
// denominator.
type keyRows struct {
	Features
	v *Node // [..., keys, valueDim + 1]
}

func withOnes(v *Node) *Node {
	return Concatenate([]*Node{v, OnesLike(SliceAxis(v, -1, AxisElem(0)))}, -1)
}

// aligned adds columns of zeros to wide rows up to a multiple of 16 bytes: the matrix units of a GPU read so many at
// once, and a row of 65 numbers begins where they cannot.
func aligned(v *Node) *Node {
	n := v.Shape().Dimensions[v.Rank()-1]
	if n <= 32 {
		return v
	}
	unit := 16 / v.DType().Size()
	return fill(v, v.Rank()-1, 0, -n&(unit-1), 0)
}

// keyRows are the features of in.k; those of masked keys weigh nothing.
func (m *Map) keyRows(in input) keyRows {
	k := keyRows{m.Keys(in.k), in.v}
	if in.see.Mask != nil {
		k = k.only(rows(in.see.Mask))
	}
	return k
}

// queryRows are the features of in.q: Value and Log are [batch, kvHeads, group, length, features]. Heads of a group are
// more rows of their key/value head. What is a factor of all features of a query, exp(row), is not in them: it has no
// part in a quotient of sums. row is [batch, kvHeads, group, length, 1], nil for none.
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

// times is the sums times exp(row), which joins what was computed without that factor to what has it.
func (p partial) times(row *Node) partial {
	if row != nil {
		p.log = Add(p.log, row)
	}
	return p
}

// each changes the shape of both nodes.
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

// from keeps the keys from position n on.
func (k keyRows) from(n int) keyRows {
	d := k.Log.Shape().Dimensions
	return k.only(GreaterOrEqual(positions(k.Log.Graph(), d[2]), Const(k.Log.Graph(), int32(n))))
}

// positions are 0, 1, … as [1, 1, length, 1].
func positions(g *Graph, length int) *Node {
	return Iota(g, shapes.Make(Const(g, int32(0)).DType(), 1, 1, length, 1), 2)
}

// state sums keys over their axis, the one before the last.
func (k keyRows) state() State {
	ref := StopGradient(ReduceMax(k.Log, -2))
	phi := k.times(Exp(Sub(k.Log, ExpandAxes(ref, -2))))
	return State{Sum: product(phi, k.v, -2, -2), Ref: ref}
}

// rows is a mask [batch, keys] as [batch, 1, keys, 1].
func rows(mask *Node) *Node {
	d := mask.Shape().Dimensions
	return Reshape(mask, d[0], 1, d[1], 1)
}

// where is x, or other where on, which broadcasts, is false.
func where(on, x *Node, other float64) *Node {
	on = BroadcastToShape(on, shapes.Make(on.DType(), x.Shape().Dimensions...))
	return Where(on, x, FillScalar(x.Graph(), x.Shape(), other))
}

// flat merges the group into the positions, for sums that do not ask where a query stands.
func (f Features) flat() Features {
	return f.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		n := len(d)
		return Reshape(x, append(append([]int{}, d[:n-3]...), d[n-3]*d[n-2], d[n-1])...)
	})
}

// partial is a sum over some keys for every query: sum·exp(log), the last column the denominator.
type partial struct{ sum, log *Node } // [..., queries, valueDim+1], [..., queries, 1]

func (p partial) each(change func(*Node) *Node) partial { return partial{change(p.sum), change(p.log)} }

func (p partial) unflat(group int) partial {
	return p.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		n := len(d)
		return Reshape(x, append(append([]int{}, d[:n-2]...), group, d[n-2]/group, d[n-1])...)
	})
}

// plus joins sums over different keys, as online softmax does.
func (p partial) plus(o partial) partial {
	log := StopGradient(Max(p.log, o.log))
	at := func(x partial) *Node { return Mul(x.sum, Exp(Sub(x.log, log))) }
	return partial{Add(at(p), at(o)), log}
}

// only keeps the queries where on is true.
func (p partial) only(on *Node) partial { return partial{where(on, p.sum, 0), where(on, p.log, 2*off)} }

// lost is the denominator below which weights have no gradients: those, times features of up to exp(lift), would
// overflow float32. A query gets there if, of the keys it sees, no feature is large where it is (see sweep); what it
// weighs then is little but rounding.
const lost = 1e-22

// quotient divides by column n: zeros where that is zero. The sums are first divided by what it is, without gradients,
// whose squares could underflow.
func quotient(p partial, n int) *Node {
	den := StopGradient(SliceAxis(p.sum, -1, AxisRange(n, n+1)))
	some := LogicalNot(IsZero(den))
	whole := GreaterThan(Abs(den), FillScalar(den.Graph(), den.Shape(), lost))
	whole = BroadcastToShape(whole, shapes.Make(whole.DType(), p.sum.Shape().Dimensions...))
	sum := Div(Where(whole, p.sum, StopGradient(p.sum)), where(some, den, 1))
	one := where(some, SliceAxis(sum, -1, AxisRange(n, n+1)), 1)
	return where(some, Div(SliceAxis(sum, -1, AxisRangeFromStart(n)), one), 0)
}

// Product contracts one axis of each of two nodes; their first batch axes are batch axes. It is graph.DotGeneral with
// other gradients. For operands of half precision, the gradients of DotGeneral are float32: copies of twice the size
// and products at half the speed. The gradients of Product have the precision of the operands. GPUs still accumulate in
// float32.
func Product(a, b *Node, axisA, axisB, batch int) *Node {
	axes := make([]int, batch)
	for i := range axes {
		axes[i] = i
	}
	return Dot(a, b).WithAccumulatorDType(dtypes.InvalidDType).General([]int{axisA}, axes, []int{axisB}, axes)
}

// product contracts one axis of each of two nodes of equal rank; all axes but the last two are a batch. Where one is of
// half precision both are, and their product is rounded to it; sums are float32.
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

// backwards turns the axis of positions, the one before the last.
func backwards(x *Node) *Node { return Reverse(x, x.Rank()-2) }

func (in input) reverse() input {
	if in.see.Segments != nil {
		in.see.Segments = Reverse(in.see.Segments, 1)
	}
	return in
}
