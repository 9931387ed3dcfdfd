package layer

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Empty returns the state before the first token, in the precision of like.
func (l SelfAttention) Empty(scope *model.Scope, like *Node, batch int) []*Node {
	l, scope = l.normal(), scope.At("MultiHeadAttention")
	if c, is := l.centred(scope, like); is {
		return c.Empty(like, batch, l.KVHeads, c.Centres[0].Dim(), l.HeadDim).Nodes()
	}
	return l.stateful(scope, like).Empty(like, batch, l.KVHeads, l.HeadDim).Nodes()
}

// Extend is causal Apply on rows that continue from a state. It takes the state from the front of states; the rows
// start at position from, an int32 scalar. It returns the outputs, the state after them and the remaining nodes. The
// state has constant size. Exact attention has no such state and is refused.
func (l SelfAttention) Extend(scope *model.Scope, x, from *Node, states []*Node) (out *Node, after, rest []*Node) {
	l, scope = l.normal(), scope.In("MultiHeadAttention")
	q, k, v := l.heads(scope, x, from)
	q, k = l.embed(scope, q, k)
	if c, is := l.centred(scope, q); is {
		s, rest := c.State(states)
		out, s = c.Extend(s, from, q, k, v)
		return l.output(scope, out, x.Shape().Dimensions[2]), s.Nodes(), rest
	}
	a := l.stateful(scope, q)
	s, rest := a.State(states)
	out, s = a.Extend(s, from, q, k, v)
	return l.output(scope, out, x.Shape().Dimensions[2]), s.Nodes(), rest
}

// centred returns causal attention over clusters; is is false for any other kind.
func (l SelfAttention) centred(scope *model.Scope, like *Node) (c rfx.Centroids, is bool) {
	n, is, err := clusters(model.GetParamOr(scope, ParamAttention, "exact"))
	if l.Causal = true; is && err == nil {
		c, err = l.centroids(scope, like, n)
	}
	if err != nil {
		panic(err)
	}
	return c, is
}

// stateful returns the attention by features. It panics if the kind has no state of constant size.
func (l SelfAttention) stateful(scope *model.Scope, like *Node) rfx.Attention {
	if kind := model.GetParamOr(scope, ParamAttention, "exact"); !drawn(kind) {
		panic(fmt.Errorf("%s %q has no state of constant size: choose a family", ParamAttention, kind))
	}
	a, err := l.linear(scope, like)
	if err != nil {
		panic(err)
	}
	return a
}
