package rfx

import (
	"fmt"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// State is what causal attention remembers of keys: for every feature f the reference t_f = Ref, attained by a key, and
// the sums Σ_j φ2(k_j)_f e^{−t_f} (v_j, 1). Its size does not depend on the number of keys. Sum is
// [batch, kvHeads, features, valueDim+1], Ref [batch, kvHeads, features].
type State struct{ Sum, Ref *Node }

// Empty is the state of no keys, of the precision of like.
func (a Attention) Empty(like *Node, batch, kvHeads, valueDim int) State {
	g, dtype, f := like.Graph(), like.DType(), a.Map.OutDim()
	return State{
		Sum: Zeros(g, shapes.Make(dtype, batch, kvHeads, f, valueDim+1)),
		Ref: FillScalar(g, shapes.Make(dtype, batch, kvHeads, f), off),
	}
}

// Extend is causal attention that goes on from a state: outputs of the queries over the keys of the state and those
// up to their own position, and the state with all keys. One token is a step of generation, many are a prompt.
// Windows and sinks keep keys, not states, and are refused.
func (a Attention) Extend(s State, q, k, v *Node) (*Node, State) {
	if a.Window > 0 || a.Sinks > 0 {
		panic(fmt.Errorf("rfx: a state has no window and no sinks"))
	}
	a.Causal = true
	d, err := a.check(q, k, v, Visible{})
	if err != nil {
		panic(err)
	}
	in := input{q: Reshape(q, d.batch, d.kvHeads, d.group, d.queries, d.dim), k: k, v: withOnes(v), sizes: d}
	qf, kf := a.Map.queryRows(in), a.Map.keyRows(in)
	var total partial
	var all State
	if d.keys == 1 {
		all = kf.state()
		total = all.read(qf.flat()).unflat(d.group)
	} else {
		total, all = a.sweep(qf, kf, in, 0)
	}
	total = total.plus(s.read(qf.flat()).unflat(d.group))
	return Reshape(quotient(total), d.batch, d.heads, d.queries, d.value), s.merge(all)
}

// merge is the state of the keys of both, at the larger of both references.
func (s State) merge(o State) State {
	ref := Max(s.Ref, o.Ref)
	at := func(x State) *Node { return Mul(x.Sum, ExpandAxes(Exp(Sub(x.Ref, ref)), -1)) }
	return State{Sum: Add(at(s), at(o)), Ref: ref}
}

// read is the sums of a state, weighted by queries [..., queries, features].
func (s State) read(q Features) partial {
	e := Add(q.Log, ExpandAxes(s.Ref, -2))
	row := StopGradient(ReduceAndKeep(e, ReduceMax, -1))
	return partial{product(q.times(Exp(Sub(e, row))), s.Sum, -1, -2), row}
}
