package rfx

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// State is the memory of causal attention: for every feature f the reference t_f = Ref, attained by a key, and the
// sums Σ_j φ2(k_j)_f e^{−t_f} (v_j, 1). Its size does not depend on the number of keys. Sum is [batch, kvHeads,
// features, valueDim+1], Ref [batch, kvHeads, features].
type State struct {
	Sum, Ref *Node
	// Near has the last Window keys in order, each with its value behind it [batch, kvHeads, Window, dim+valueDim].
	// First has those at the first Sinks positions. Both have exact weights and are not yet part of the sums. Rows
	// of keys that were not read are zeros. Nil without a window or sinks.
	Near, First *Node
}

// Nodes returns the parts that exist, in the order that Attention.State expects.
func (s State) Nodes() []*Node {
	all := []*Node{s.Sum, s.Ref}
	for _, x := range []*Node{s.Near, s.First} {
		if x != nil {
			all = append(all, x)
		}
	}
	return all
}

// State takes the parts of a state from the front of nodes and returns the rest.
func (a Attention) State(nodes []*Node) (s State, rest []*Node) {
	s.Sum, s.Ref, nodes = nodes[0], nodes[1], nodes[2:]
	if a.Window > 0 {
		s.Near, nodes = nodes[0], nodes[1:]
	}
	if a.Sinks > 0 {
		s.First, nodes = nodes[0], nodes[1:]
	}
	return s, nodes
}

// Empty returns the state without keys, in the precision of like.
func (a Attention) Empty(like *Node, batch, kvHeads, valueDim int) State {
	g, dtype, f := like.Graph(), like.DType(), a.Map.OutDim()
	s := State{
		Sum: Zeros(g, shapes.Make(dtype, batch, kvHeads, f, valueDim+1)),
		Ref: FillScalar(g, shapes.Make(dtype, batch, kvHeads, f), off),
	}
	if a.Window > 0 {
		s.Near = Zeros(g, shapes.Make(dtype, batch, kvHeads, a.Window, a.Map.dim+valueDim))
	}
	if a.Sinks > 0 {
		s.First = Zeros(g, shapes.Make(dtype, batch, kvHeads, a.Sinks, a.Map.dim+valueDim))
	}
	return s
}

// Extend continues causal attention from a state. It returns the outputs of the queries, each over the keys of the
// state and the new keys up to its own position, and the state with all keys. Use it for a prompt and for single
// tokens. from is the position of the first new token, an int32 scalar; it may be nil without a window and sinks. With
// a window, the memory for n tokens grows with n²: read a long prompt in parts.
func (a Attention) Extend(s State, from, q, k, v *Node) (*Node, State) {
	if dtype := q.DType(); a.Double && dtype != dtypes.Float64 {
		out, next := a.Extend(s.each(double), from, double(q), double(k), double(v))
		return ConvertDType(out, dtype), next.each(back(dtype))
	}
	a.Causal = true
	d, err := a.check(q, k, v, Visible{})
	if err != nil {
		panic(err)
	}
	if from == nil && (a.Window > 0 || a.Sinks > 0) {
		panic(fmt.Errorf("rfx: windows and sinks go on from a position, which is not given"))
	}
	in := input{q: Reshape(q, d.batch, d.kvHeads, d.group, d.queries, d.dim), k: k, v: withOnes(v), sizes: d}
	next := State{Near: s.Near, First: s.First}
	var exact []partial
	pairs := Concatenate([]*Node{k, v}, -1)
	// apart splits rows into keys, and values with a column of ones.
	apart := func(x *Node) (*Node, *Node) {
		return SliceAxis(x, 3, AxisRangeFromStart(d.dim)), withOnes(SliceAxis(x, 3, AxisRangeToEnd(d.dim)))
	}
	var u *Node
	if a.Window > 0 || a.Sinks > 0 {
		u = a.Map.groupRows(in)
	}
	weigh := func(rows, see *Node) { // see [queries, rows]
		n := rows.Shape().Dimensions[2]
		see = Reshape(BroadcastPrefix(see, d.group), 1, 1, d.group*d.queries, n)
		w, values := apart(rows)
		exact = append(exact, a.Map.weigh(u, a.Map.embed(w), values, see).unflat(d.group))
	}
	if a.Sinks > 0 {
		next.First = put(s.First, pairs, from)
		at := shapes.Make(dtypes.Int32, d.queries, a.Sinks)
		weigh(next.First, LessOrEqual(Iota(q.Graph(), at, 1), Add(Iota(q.Graph(), at, 0), from)))
	}
	var keys *Node // which of in.k enter the sums; nil: all
	if a.Window > 0 {
		// A key enters the sums Window positions late, when it leaves the window.
		both := Concatenate([]*Node{s.Near, pairs}, 2)
		weigh(both, Recent(from, d.queries, a.Window, a.Sinks))
		next.Near = SliceAxis(both, 2, AxisRangeToEnd(d.queries))
		in.k, in.v = apart(SliceAxis(both, 2, AxisRangeFromStart(d.queries)))
	}
	if a.Window > 0 || a.Sinks > 0 {
		at := Add(positions(q.Graph(), d.queries), SubScalar(from, a.Window))
		keys = GreaterOrEqual(at, Scalar(q.Graph(), dtypes.Int32, a.Sinks))
	}
	qf, row := a.Map.queryRows(in)
	kf := a.Map.keyRows(in)
	if keys != nil {
		kf = kf.only(keys)
	}
	all := kf.state()
	var total partial
	if d.keys == 1 {
		total = all.read(qf.flat()).unflat(d.group)
	} else {
		total = a.sweep(qf, kf, in, 0)
	}
	total = total.plus(s.read(qf.flat()).unflat(d.group))
	if len(exact) > 0 {
		total = total.times(row)
	}
	for _, p := range exact {
		total = total.plus(p)
	}
	all = s.merge(all)
	next.Sum, next.Ref = all.Sum, all.Ref
	return Reshape(quotient(total, d.value), d.batch, d.heads, d.queries, d.value), next
}

// each applies a function to all parts. It must accept nil.
func (s State) each(f func(*Node) *Node) State {
	return State{f(s.Sum), f(s.Ref), f(s.Near), f(s.First)}
}

// back returns a function that converts nodes to a type and keeps nil.
func back(dtype dtypes.DType) func(*Node) *Node {
	return func(x *Node) *Node {
		if x == nil {
			return nil
		}
		return ConvertDType(x, dtype)
	}
}

// Recent returns the mask [n, window+n] of exact rows for n queries at positions from and later. The columns are the
// last window keys before from, followed by the keys of the queries. A query sees keys less than window positions back,
// starting at position first.
func Recent(from *Node, n, window, first int) *Node {
	g, at := from.Graph(), shapes.Make(dtypes.Int32, n, window+n)
	row := Iota(g, at, 1)
	back := Sub(AddScalar(Iota(g, at, 0), window), row)
	near := LogicalAnd(GreaterOrEqual(back, ZerosLike(back)), LessThan(back, Scalar(g, dtypes.Int32, window)))
	return LogicalAnd(near, GreaterOrEqual(Add(row, SubScalar(from, window)), Scalar(g, dtypes.Int32, first)))
}

// put writes rows, the first of which stands at position from, into the rows of the first positions.
func put(first, rows, from *Node) *Node {
	g, n, count := first.Graph(), first.Shape().Dimensions[2], rows.Shape().Dimensions[2]
	at := Sub(Iota(g, shapes.Make(dtypes.Int32, n), 0), from) // row for each place
	last := Scalar(g, dtypes.Int32, count-1)
	there := LogicalAnd(GreaterOrEqual(at, ZerosLike(at)), LessOrEqual(at, last))
	picked := Gather(TransposeAllAxes(rows, 2, 0, 1, 3), ExpandAxes(Max(Min(at, last), ZerosLike(at)), -1))
	there = BroadcastToDims(Reshape(there, 1, 1, n, 1), first.Shape().Dimensions...)
	return Where(there, TransposeAllAxes(picked, 1, 2, 0, 3), first)
}

// merge returns the state of the keys of both, relative to the larger reference.
func (s State) merge(o State) State {
	ref := Max(s.Ref, o.Ref)
	at := func(x State) *Node { return Mul(x.Sum, ExpandAxes(Exp(Sub(x.Ref, ref)), -1)) }
	return State{Sum: Add(at(s), at(o)), Ref: ref}
}

// as converts the sums to a precision.
func (s State) as(dtype dtypes.DType) State {
	s.Sum = ConvertDType(s.Sum, dtype)
	return s
}

// read returns the sums of a state, weighted by queries [..., queries, features].
func (s State) read(q Features) partial {
	e := Add(q.Log, ExpandAxes(s.Ref, -2))
	row := StopGradient(ReduceAndKeep(e, ReduceMax, -1))
	return partial{product(q.times(Exp(Sub(e, row))), s.Sum, -1, -2), row}
}
