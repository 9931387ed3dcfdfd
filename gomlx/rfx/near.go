package rfx

import (
	"fmt"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// exactWeights returns an error if the logarithm of the kernel has no graph.
func (m *Map) exactWeights() error {
	for _, k := range m.targets {
		if k.Kind != kernel.Softmax && k.Kind != kernel.Gaussian {
			return fmt.Errorf("rfx: no exact weights of the %v kernel: leave out Window and Sinks", k.Kind)
		}
	}
	return nil
}

// embed returns u = Mx/Scale of the kernel that the map estimates, for rows [batch, heads, length, dim].
func (m *Map) embed(x *Node) *Node {
	b := builder{x: x, heads: 1, name: "embed", numbers: m.numbers}
	if len(m.targets) > 1 {
		b.heads = x.Shape().Dimensions[1]
	}
	for h := range b.heads {
		k := m.targets[h*len(m.targets)/b.heads]
		lin := plan.Scalar(k.Gain())
		if !k.M.IsEmpty() {
			lin = lin.Compose(plan.Linear{Dense: k.M}, m.dim)
		}
		b.sides = append(b.sides, plan.Side{CentreLin: lin})
	}
	return b.linear(x, func(s plan.Side) plan.Linear { return s.CentreLin }, true)
}

// weigh sums keys w with their exact weights for rows of queries u, where see is true. All are [batch, kvHeads, ...,
// rows, ·] of the same rank; see is broadcast.
func (m *Map) weigh(u, w, v, see *Node) partial {
	s := product(u, w, -1, -1)
	if m.targets[0].Kind == kernel.Gaussian { // −|u−w|²/2
		norm := func(x *Node) *Node { return MulScalar(ReduceAndKeep(Square(x), ReduceSum, -1), 0.5) }
		n := s.Rank()
		turn := norm(w)
		s = Sub(Sub(s, norm(u)), Transpose(turn, n-2, n-1))
	}
	return weighted(s, v, see)
}

// weighted sums values with the weights exp(s) where see is true.
func weighted(s, v, see *Node) partial {
	s = where(see, s, 2*off)
	row := StopGradient(ReduceAndKeep(s, ReduceMax, -1))
	p := where(see, Exp(Sub(s, row)), 0)
	return partial{product(p, v, -1, -2), row}
}

// groupRows merges the group [batch, kvHeads, group, length, ·] into the rows of queries and embeds them.
func (m *Map) groupRows(in input) *Node {
	return m.embed(Reshape(in.q, in.batch, in.kvHeads, in.group*in.queries, in.dim))
}

// sinks sums the keys at the first positions.
func (a Attention) sinks(in input) partial {
	n, g := min(a.Sinks, in.keys), in.q.Graph()
	first := func(x *Node) *Node { return SliceAxis(x, 2, AxisRangeFromStart(n)) }
	see := Const(g, [][]bool{{true}})
	if a.Causal {
		at := Reshape(positions(g, in.queries), in.queries, 1)
		see = GreaterOrEqual(BroadcastToDims(at, in.queries, n),
			BroadcastToDims(Reshape(positions(g, n), 1, n), in.queries, n))
	}
	d := see.Shape().Dimensions
	see = Reshape(see, 1, 1, 1, d[0], d[1])
	see = Reshape(BroadcastToDims(see, 1, 1, in.group, in.queries, n), 1, 1, in.group*in.queries, n)
	if in.see.Mask != nil {
		mask := Reshape(SliceAxis(in.see.Mask, 1, AxisRangeFromStart(n)), in.batch, 1, 1, n)
		see = and(see, mask, in.batch, 1, in.group*in.queries, n)
	}
	return a.Map.weigh(a.Map.groupRows(in), a.Map.embed(first(in.k)), first(in.v), see).unflat(in.group)
}

// and returns the conjunction of two masks, both broadcast to dims.
func and(x, y *Node, dims ...int) *Node {
	to := shapes.Make(x.DType(), dims...)
	return LogicalAnd(BroadcastToShape(x, to), BroadcastToShape(y, to))
}

// near sums the keys of the window that are not sinks. Queries are cut into blocks of Window positions, each of
// which meets the blocks of keys beside it.
func (a Attention) near(in input) partial {
	size := max(a.Window, least)
	n := (in.keys + size - 1) / size
	end := n*size - in.keys
	m, g := a.Map, in.q.Graph()

	u := Reshape(m.groupRows(in), in.batch, in.kvHeads, in.group, in.queries, -1)
	c := u.Shape().Dimensions[4]
	u = Transpose(Reshape(fill(u, 3, 0, end, 0), in.batch, in.kvHeads, in.group, n, size, c), 2, 3)
	u = Reshape(u, in.batch, in.kvHeads, n, in.group*size, c)

	sides := 2 // the own block and the one before; if not causal, also the one after
	if !a.Causal {
		sides = 3
	}
	beside := func(x *Node, with float64) *Node { // [batch, heads, n, sides·size, ·]
		d := x.Shape().Dimensions
		var parts []*Node
		for i := range sides {
			// Block b of part i is block b−1+i.
			moved := fill(x, 2, size, end+size, with)
			moved = SliceAxis(moved, 2, AxisRange(i*size, i*size+n*size))
			parts = append(parts, Reshape(moved, d[0], d[1], n, size, d[3]))
		}
		return Concatenate(parts, 3)
	}
	// Which keys are near, by positions alone: row r of a block, column j of its neighbours.
	band := make([]bool, 0, in.group*size*sides*size)
	for range in.group {
		for r := range size {
			for j := range sides * size {
				off := r - (j - size) // how far the key stands before the query
				band = append(band, off < a.Window && (off >= 0 || !a.Causal && -off < a.Window))
			}
		}
	}
	dims := []int{in.batch, 1, n, in.group * size, sides * size}
	see := ConstTensor(g, tensors.FromFlatDataAndDimensions(band, 1, 1, 1, in.group*size, sides*size))
	at := positions(g, in.keys)
	lo := Const(g, int32(min(a.Sinks, in.keys)))
	there := ConvertDType(GreaterOrEqual(at, lo), in.k.DType()) // [1, 1, keys, 1]
	if in.see.Mask != nil {
		there = Mul(ConvertDType(rows(in.see.Mask), in.k.DType()), there)
	}
	there = Transpose(beside(there, 0), 3, 4) // [batch or 1, 1, n, 1, sides·size]
	see = and(see, GreaterThan(there, ZerosLike(there)), dims...)
	if seg := in.see.Segments; seg != nil {
		own := Reshape(fill(seg, 1, 0, end, noSegment), in.batch, 1, n, 1, size)
		own = Reshape(BroadcastToDims(own, in.batch, 1, n, in.group, size), in.batch, 1, n, in.group*size, 1)
		theirs := Transpose(beside(rows(seg), noSegment), 3, 4)
		same := Equal(BroadcastToDims(own, dims...), BroadcastToDims(theirs, dims...))
		see = LogicalAnd(see, same)
	}
	p := m.weigh(u, beside(m.embed(in.k), 0), beside(in.v, 0), see)
	return p.each(func(x *Node) *Node {
		d := x.Shape().Dimensions
		x = Transpose(Reshape(x, d[0], d[1], n, in.group, size, d[4]), 2, 3)
		return SliceAxis(Reshape(x, d[0], d[1], in.group, n*size, d[4]), 3, AxisRangeFromStart(in.queries))
	})
}
